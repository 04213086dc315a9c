// story.js: the bar of the story: five steps, a headline, and the keys that turn them. While it is
// told, the page shows little else (style.css, by the `data-view` of the body).

import { CHAPTERS, STORY, knowsStory } from "./chapters.js";
import { byId, html } from "./dom.js";

const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -1, PageDown: 1 }; // the latter of remote controls

// `turn` is called with a wish for the state; `current` gives the chapter shown, or null.
export function setUpStory(worlds, current, turn) {
  byId("tell").hidden = !knowsStory(worlds);
  if (byId("tell").hidden) return;
  const world = worlds.find(({ name }) => name === STORY.world);
  const open = (chapter) => turn(chapter === null ? { chapter, step: world.paper_step }
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
  byId("tell").addEventListener("click", () => {
    if (current() !== null) return end();
    open(0);
    return byId("story-on").focus();
  });
  byId("story-back").addEventListener("click", () => by(-1));
  byId("story-on").addEventListener("click", () => by(1));
  byId("story-end").addEventListener("click", end);
  // a slider that keeps the focus would keep the arrow keys
  byId("slider").addEventListener("change", () => { if (current() !== null) byId("slider").blur(); });
  document.addEventListener("keydown", (event) => {
    if (current() === null || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const own = event.key.startsWith("Page") ? "input[type=text]" : "input, select";
    if (event.key === "Escape") end();
    else if (event.key in KEYS && !event.target.closest?.(own)) by(KEYS[event.key]);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation(); // the same keys step through the words
  });
}

let latest = null; // the state that is told

// Shows the chapter of a state; `at(step)` gives the answer to the reversed sentence at another stop.
export async function showStory(state, world, { plain, at }) {
  const { chapter } = state;
  latest = state;
  byId("story").hidden = chapter === null;
  byId("tell").setAttribute("aria-pressed", String(chapter !== null));
  if (chapter === null) {
    delete document.body.dataset.view;
    return;
  }
  document.body.dataset.view = CHAPTERS[chapter].view;
  byId("story-steps").querySelectorAll("button").forEach((button, i) => {
    if (i === chapter) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  byId("story-back").disabled = chapter === 0;
  byId("story-on").firstChild.textContent = chapter + 1 < CHAPTERS.length ? "Next " : "Try it ";
  const given = { plain: await plain(world.paper_step), reversed: await at(world.paper_step), at, world };
  const told = await Promise.all(CHAPTERS.map(({ tell }) => tell(given)));
  if (latest !== state) return;
  const [headline, text] = told[chapter];
  byId("story-headline").textContent = headline;
  byId("story-text").textContent = text;
  // unseen below it, so that the longest has room and turning moves nothing
  byId("story-room").replaceChildren(...told.map(([first, second]) => html("div", {},
    html("p", { class: "story-headline" }, first), html("p", { class: "story-text" }, second))));
}

export const chapterOf = ({ chapter }) => (chapter === null ? null : CHAPTERS[chapter]);
