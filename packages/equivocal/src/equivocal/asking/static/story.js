// story.js: the five steps of the story: what each shows, and what it says from the same numbers.
//
// `view` names the picture (pictures.js); `step` is where the answers are taken, and `stops` are those
// that the picture needs. `tell` is given { plain, reversed } (answers of the converged posterior), `at`
// (the answer to the reversed sentence at a step) and `world`; it returns [headline, text].

import { byId, capital, formatTime, html, percent } from "dom";
import { compareWithTruth, PICTURES } from "pictures";
import { splitDoubt } from "summary";
import { section, table } from "view";

export const STORY = {
  world: "slips",
  sentence: "during dinner, the woman eats the pizza",
  compare: "during dinner, the pizza eats the woman",
};
const PARTS = { words: "in the words", between: "between networks", within: "within each network" };
const CONVERGED = "converged";

export const CHAPTERS = [
  {
    name: "False certainty",
    view: "certainty",
    step: CONVERGED,
    tell({ reversed }) {
      const given = reversed.networks.map((network) => percent(findPizza(network).mle));
      return [
        `Did the pizza eat the woman? ${capital(spellNumber(given.length))} networks say ${given.slice(0, -1).join(", ")} and ${
          given.at(-1)}. The truth is ${percent(findPizza(reversed).truth, 1)}.`,
        `They heard “${STORY.compare}”. Each gives one number (a dot), as if no other were possible. In this `
          + "small world things act and speakers slip now and then, so the truth is known exactly: the triangle.",
      ];
    },
  },
  {
    name: "Where is the doubt?",
    view: "doubt",
    step: CONVERGED,
    tell({ plain, reversed }) {
      const [usual, doubt] = [plain, reversed].map((answer) => splitDoubt(answer, answer.words.length - 1));
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
    tell({ at, world }) {
      const { low, high } = findPizza(at(0));
      return [
        "Before the data, almost anything is possible.",
        `A posterior begins with a prior, which lets the last layer vary around the trained weights (variance ${
          world.prior_variance}). Nine in ten of these last layers give the pizza as agent between ${
          percent(low)} and ${percent(high)}: the black lines.`,
      ];
    },
  },
  {
    name: "Along τ",
    view: "along",
    step: CONVERGED,
    stops: ({ steps }) => steps,
    tell({ at, world }) {
      const [prior, paper, end] = [0, world.paper_step, CONVERGED].map(at);
      const width = (answer) => percent(findPizza(answer).high - findPizza(answer).low);
      return [
        "Step by step, the data narrow it down.",
        `The band holds nine in ten last layers. For the pizza as agent it is ${width(prior)} wide at the prior, ${
          width(paper)} at step ${world.paper_step} (τ = ${formatTime(paper.time)}), where the paper stops, and ${
          width(end)} once converged. The slider moves along sampler time τ.`,
      ];
    },
  },
  {
    name: "The truth",
    view: "truth",
    step: CONVERGED,
    stops: ({ paper_step: paper }) => [paper, CONVERGED],
    tell({ at, world }) {
      const rivals = compareWithTruth([world.paper_step, CONVERGED].map(at));
      const { belief, kind, name, time, value } = rivals.find((rival) => rival.nearest);
      const nearest = kind === "mle" ? "The trained networks come" : name === CONVERGED
        ? "The converged posterior comes" : `The ensemble at ${name} (τ = ${formatTime(time)}) comes`;
      const inside = kind === "bayes" && belief.low <= belief.truth && belief.truth <= belief.high;
      const idle = Math.abs(0.5 - belief.truth) < Math.abs(value - belief.truth);
      const listed = rivals.map((rival) => `${rival.name}${
        rival.time === null ? "" : ` (τ = ${formatTime(rival.time)})`} ${percent(rival.value, 1)}`);
      return [
        `The truth is ${percent(belief.truth, 1)}. ${nearest} nearest, with ${percent(value, 1)}.`,
        `The pizza as agent: ${listed.join(", ")}. ${inside ? "Its interval, the black line, holds the truth. " : ""}${
          idle ? "Answering 50 % without listening would be nearer still. " : ""
        }One sentence proves little: now ask your own.`,
      ];
    },
  },
];

export const isStory = ({ world, sentence, compare }) =>
  world === STORY.world && sentence === STORY.sentence && compare === STORY.compare;

// Only the networks of the package have all steps of the paper's sampler that the story needs.
export const hasStory = (world) => world?.name === STORY.world && world.steps.includes(world.paper_step);

const findPizza = ({ words }) => words.at(-1).roles.agent.find(({ filler }) => filler === "pizza");

const spellNumber = (number) => ["no", "one", "two", "three", "four", "five"][number] ?? String(number);

const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -1, PageDown: 1 }; // remote controls send the latter

// `current` gives the chapter shown, or null; `turn` is called with the chapter to show.
export function setUpStory(current, turn) {
  const by = (distance) => {
    const chapter = current() + distance;
    if (chapter >= CHAPTERS.length) turn(null);
    else if (chapter >= 0) turn(chapter);
  };
  byId("story-steps").append(...CHAPTERS.map(({ name }, i) => html("li", {},
    html("button", { type: "button", click: () => turn(i) }, html("span", {}, name)))));
  byId("tell").addEventListener("click", () => turn(current() === null ? 0 : null));
  byId("story-back").addEventListener("click", () => by(-1));
  byId("story-on").addEventListener("click", () => by(1));
  byId("story-end").addEventListener("click", () => turn(null));
  document.addEventListener("keydown", (event) => {
    if (current() === null || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const own = event.key.startsWith("Page") ? "input[type=text]" : "input, select"; // keys of their own
    if (event.key === "Escape") turn(null);
    else if (event.key in KEYS && !event.target.closest?.(own)) by(KEYS[event.key]);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation(); // the same keys step through the words
  });
}

// Shows a chapter; `ask(sentence, step)` answers. Returns the sections with its pictures.
export function showStory(chapter, answers, world, ask) {
  const { view, stops = () => [], tell } = CHAPTERS[chapter];
  byId("story-steps").querySelectorAll("button").forEach((button, i) => {
    if (i === chapter) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
  });
  byId("story-back").disabled = chapter === 0;
  byId("story-on").firstChild.textContent = chapter + 1 < CHAPTERS.length ? "Next " : "Try it ";
  const at = (step) => ask(STORY.compare, step);
  const [headline, text] = tell({ plain: ask(STORY.sentence, CONVERGED), reversed: at(CONVERGED), at, world });
  byId("story-headline").textContent = headline;
  byId("story-text").textContent = text;
  const most = Math.max(...answers.map(({ words }) => words.at(-1).entropy));
  return answers.map((answer) => section(answer, true,
    ...PICTURES[view](answer, stops(world).map((step) => ask(answer.sentence, step)), most),
    table(answer, answer.words.length - 1)));
}
