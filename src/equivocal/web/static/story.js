// story.js: the bar of the story: five steps, a headline, and the keys that turn them.

import { CHAPTERS, STORY, isStory, knowsStory } from "./chapters.js";
import { byId, html } from "./dom.js";

// `turn` is called with a wish for the state; `current` gives the chapter shown, or null.
export function setUpStory(worlds, current, turn) {
  byId("tell").hidden = !knowsStory(worlds);
  if (byId("tell").hidden) return;
  const world = worlds.find(({ name }) => name === STORY.world);
  const open = (chapter) => turn(chapter === null ? { chapter }
    : { ...STORY, step: CHAPTERS[chapter].step(world), prior: world.prior_variance, chapter });
  const end = () => {
    if (byId("story").contains(document.activeElement)) byId("tell").focus(); // it is about to vanish
    open(null);
  };
  const by = (distance) => {
    const chapter = current() + distance;
    if (chapter >= CHAPTERS.length) end();
    else if (chapter >= 0) open(chapter);
  };
  byId("story-steps").append(...CHAPTERS.map(({ name }, i) => html("li", {},
    html("button", { type: "button", click: () => open(i) }, html("span", { class: "name" }, name)))));
  byId("tell").addEventListener("click", () => { open(0); byId("story-on").focus(); });
  byId("story-back").addEventListener("click", () => by(-1));
  byId("story-on").addEventListener("click", () => by(1));
  byId("story-end").addEventListener("click", end);
  document.addEventListener("keydown", (event) => {
    const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (current() === null || !plain || event.target.closest?.("input, select, .words")) return;
    const distance = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (distance) by(distance);
    else if (event.key === "Escape") end();
    else return;
    event.preventDefault();
    event.stopImmediatePropagation(); // the same keys step through the words
  });
}

// Shows the chapter of a state; `at(step)` gives the answer to the reversed sentence at another stop.
export async function showStory(state, world, at) {
  const chapter = isStory(state) ? state.chapter : null;
  byId("story").hidden = chapter === null;
  byId("results").classList.toggle("telling", chapter !== null);
  byId("tell").setAttribute("aria-pressed", String(chapter !== null));
  if (chapter === null) return;
  byId("story-steps").querySelectorAll("button").forEach((button, i) => {
    if (i === chapter) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  byId("story-back").disabled = chapter === 0;
  byId("story-on").firstChild.textContent = chapter + 1 < CHAPTERS.length ? "Next " : "Try it yourself ";
  const [plain, reversed] = state.answers;
  const [headline, text] = await CHAPTERS[chapter].tell({ plain, reversed, at, world });
  byId("story-headline").textContent = headline;
  byId("story-text").textContent = text;
}

// The word that a chapter points at.
export function positionOf({ chapter, answers: [plain, reversed] }) {
  return chapter === null || !reversed ? null
    : CHAPTERS[chapter].position?.({ plain, reversed }) ?? null;
}

export const goesAlong = ({ chapter }) => chapter !== null && Boolean(CHAPTERS[chapter].along);
