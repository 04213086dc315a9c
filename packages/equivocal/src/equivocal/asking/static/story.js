// story.js: the five steps of the story: what each shows, what it says from the same numbers, and the
// bar that turns them. While the story is open, the page shows little else (style.css, by the `data-view`
// of the body).
//
// `view` names the picture (slides.js); `step` is where the answers are taken, and `stops` are further
// stops that the picture needs. `tell` is given { plain, reversed } (answers of the converged posterior), `at`
// (an answer to the reversed sentence, by `at(step)`) and `world`; it returns [headline, text].

import { byId, html } from "./dom.js";
import { capital, percent, tauOf } from "./look.js";
import { splitDoubt } from "./summary.js";

export const STORY = {
  world: "slips",
  sentence: "during dinner, the woman eats the pizza",
  compare: "during dinner, the pizza eats the woman",
  position: null,
};
const [ROLE, FILLER] = ["agent", "pizza"];
const PARTS = { words: "in the words", between: "between networks", within: "within each network" };
export const CONVERGED = "converged";
export const stopsOf = (world) => [...world.steps.map(({ step }) => step), CONVERGED];

export const CHAPTERS = [
  {
    name: "False certainty",
    view: "certainty",
    step: CONVERGED,
    async tell({ reversed }) {
      const { truth, networks } = lastBelief(reversed);
      const given = listInWords(networks.map(({ mle }) => percent(mle)));
      const who = networks.length > 1 ? `${capital(spellNumber(networks.length))} networks say` : "A network says";
      return [
        `Did the pizza eat the woman? ${who} ${given}. The truth is ${percent(truth, 1)}.`,
        `They heard “${STORY.compare}”. Each gives one number (a dot), as if no other were possible. In this `
          + "small world things act and speakers slip now and then, so the truth is known exactly: the triangle.",
      ];
    },
  },
  {
    name: "Where is the doubt?",
    view: "doubt",
    step: CONVERGED,
    async tell({ plain, reversed }) {
      const doubt = splitDoubt(reversed, reversed.words.length - 1);
      const usual = splitDoubt(plain, plain.words.length - 1);
      const [largest] = Object.keys(PARTS).sort((a, b) => doubt[b] - doubt[a]);
      return [
        `The reversed sentence leaves about ${spellNumber(Math.round(doubt.total / usual.total))} times the doubt, ${
          doubt[largest] > 0.5 ? "most" : "much"} of it ${PARTS[largest]}.`,
        `Each network now has a posterior: all last layers that fit the data, and how well. ${
          percent(doubt.words)} of the doubt is in the words: chance, which no data remove. More data would remove `
          + `the ${percent(doubt.within)} within each network and the ${percent(doubt.between)} between networks.`,
      ];
    },
  },
  {
    name: "The prior",
    view: "prior",
    step: 0,
    async tell({ at }) {
      const start = await at(0);
      const { low, high } = lastBelief(start);
      return [
        "Before the data, almost anything is possible.",
        `A posterior begins with a prior, which lets the last layer vary around the trained weights (variance ${
          start.prior_variance}). Nine in ten of these last layers give the pizza as agent between ${
          percent(low)} and ${percent(high)}: the black lines.`,
      ];
    },
  },
  {
    name: "Along τ",
    view: "along",
    step: CONVERGED,
    stops: stopsOf,
    async tell({ at, world }) {
      const [prior, paper, end] = await Promise.all([0, world.paper_step, CONVERGED].map(at));
      const width = (answer) => percent(lastBelief(answer).high - lastBelief(answer).low);
      return [
        "Step by step, the data narrow it down.",
        `The band holds nine in ten last layers. For the pizza as agent it is ${width(prior)} wide at the prior, ${
          width(paper)} at step ${world.paper_step} (${tauOf(paper.time)}), where the paper stops, and ${
          width(end)} once converged. The slider moves along sampler time τ.`,
      ];
    },
  },
  {
    name: "The truth",
    view: "truth",
    step: CONVERGED,
    stops: (world) => [world.paper_step, CONVERGED],
    async tell({ at, world }) {
      const rivals = compareWithTruth(await Promise.all([world.paper_step, CONVERGED].map(at)), ROLE, FILLER);
      const { belief, kind, name, time, value } = rivals.find((rival) => rival.nearest);
      const nearest = kind === "mle" ? "The trained networks come" : name === CONVERGED
        ? "The converged posterior comes" : `The ensemble at ${name} (${tauOf(time)}) comes`;
      const inside = kind === "bayes" && belief.low <= belief.truth && belief.truth <= belief.high;
      const idle = Math.abs(0.5 - belief.truth) < Math.abs(value - belief.truth);
      return [
        `The truth is ${percent(belief.truth, 1)}. ${nearest} nearest, with ${percent(value, 1)}.`,
        `The pizza as agent: ${rivals.map(({ name: who, time: when, value: found }) =>
          `${who}${when === null ? "" : ` (${tauOf(when)})`} ${percent(found, 1)}`).join(", ")}. ${
          inside ? "Its interval, the black line, holds the truth. " : ""
        }${
          idle ? "Answering 50 % without listening would be nearer still. " : ""
        }One sentence proves little: now ask your own.`,
      ];
    },
  },
];

export const isStory = ({ world, sentence, compare }) =>
  world === STORY.world && sentence === STORY.sentence && compare === STORY.compare;

// The trained belief and those at some stops, as [{ name, time, kind, belief, value, nearest }, …].
export function compareWithTruth(answers, role, filler) {
  const beliefs = answers.map((answer) => findBelief(answer, role, filler));
  const rivals = [
    { name: "trained", time: null, kind: "mle", belief: beliefs[0] },
    ...beliefs.map((belief, i) => ({ belief, kind: "bayes", time: answers[i].time,
      name: answers[i].step === CONVERGED ? CONVERGED : `step ${answers[i].step}` })),
  ].map((rival) => ({ ...rival, value: rival.belief[rival.kind] }));
  const distance = ({ value, belief }) => Math.abs(value - belief.truth);
  const least = Math.min(...rivals.map(distance));
  return rivals.map((rival) => ({ ...rival, nearest: distance(rival) === least }));
}

const findBelief = (answer, role, filler) =>
  answer.words.at(-1).roles[role].find((belief) => belief.filler === filler);

const lastBelief = (answer) => findBelief(answer, ROLE, FILLER);

const spellNumber = (number) => ["no", "one", "two", "three", "four", "five"][number] ?? String(number);

const listInWords = (parts) => (parts.length < 2 ? parts.join("")
  : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`);

const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -1, PageDown: 1 }; // remote controls send the latter

// `turn` is called with a wish for the state; `current` gives the chapter shown, or null.
export function setUpStory(worlds, current, turn) {
  const world = worlds.find(({ name }) => name === STORY.world);
  byId("tell").hidden = !world;
  if (!world) return;
  const open = (chapter) => turn(chapter === null ? { chapter, step: CONVERGED }
    : { ...STORY, step: CHAPTERS[chapter].step, prior: world.prior_variance, chapter });
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

let latest = null; // the state that is shown

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
  const given = { plain: await plain(CONVERGED), reversed: await at(CONVERGED), at, world };
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
