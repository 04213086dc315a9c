// chapters.js: the five steps of the story: what each shows, and what it says from the same numbers.
//
// `view` names the picture (slides.js); `step` is where the answers are taken, and `stops` are further
// stops that the picture needs. `tell` is given { plain, reversed } (answers at the paper's step), `at`
// (an answer to the reversed sentence, by `at(step)`) and `world`; it returns [headline, text].

import { capital, percent, short } from "./format.js";
import { splitDoubt } from "./summary.js";

export const STORY = {
  world: "slips",
  sentence: "during dinner, the woman eats the pizza",
  compare: "during dinner, the pizza eats the woman",
  position: null,
};
const [ROLE, FILLER] = ["agent", "pizza"];
const RULED_OUT = 0.05; // a trained network that believes less rules it out

const paperStep = (world) => world.paper_step;
export const stopsOf = (world) => [...world.steps.map(({ step }) => step), "converged"];

export const CHAPTERS = [
  {
    name: "False certainty",
    view: "certainty",
    step: paperStep,
    async tell({ reversed }) {
      const { truth, networks } = lastBelief(reversed);
      const given = networks.map(({ mle }) => mle);
      const refused = given.filter((value) => value < RULED_OUT);
      const number = count(given.length);
      const who = given.length > 1 ? `${capital(number)} networks, ${number} answers.` : "One network, one answer.";
      const worst = refused.length ? `${capital(count(refused.length))} rule${refused.length > 1 ? "" : "s"} it out (${
        list(refused.map((value) => percent(value)))})` : `They say ${list(given.map((value) => percent(value)))}`;
      return [
        `${who} ${worst}; the truth is ${percent(truth, 1)}.`,
        `Did the pizza eat the woman? Trained alike, they say ${list(given.map((value) => percent(value)))
        }, each as if no other number were possible. The triangle is the exact chance: in this world speakers `
          + "slip, and things act, now and then.",
      ];
    },
  },
  {
    name: "Where is the doubt?",
    view: "doubt",
    step: paperStep,
    async tell({ plain, reversed }) {
      const { total, words, between, within } = splitDoubt(reversed, reversed.words.length - 1);
      const usual = splitDoubt(plain, plain.words.length - 1);
      return [
        `${percent(within)} within each network, ${percent(between)} between networks, ${
          percent(words)} in the words.`,
        `A posterior over the last layer says how unsure it is: ${short(total)} nats where the pizza eats, ${
          short(usual.total)} where the woman does. More data would remove doubt within and between networks; `
          + "doubt in the words is chance in this world.",
      ];
    },
  },
  {
    name: "The prior",
    view: "prior",
    step: () => 0,
    async tell({ at }) {
      const start = await at(0);
      const { low, high } = lastBelief(start);
      return [
        "Before the data, almost anything is possible.",
        `The prior lets the last layer vary around the trained weights (variance ${
          start.prior_variance}). Nine in ten of these comprehenders give the pizza as agent `
          + `between ${percent(low)} and ${percent(high)}: the black lines.`,
      ];
    },
  },
  {
    name: "Along τ",
    view: "along",
    step: () => "converged",
    stops: stopsOf,
    async tell({ at, world }) {
      const [prior, paper, end] = await Promise.all([0, world.paper_step, "converged"].map(at));
      const width = (answer) => percent(lastBelief(answer).high - lastBelief(answer).low);
      return [
        "The data narrow it down, step by step.",
        `Along sampler time τ the 90 % interval for the pizza as agent goes from ${width(prior)} wide `
          + `at the prior to ${width(paper)} at step ${world.paper_step}, where the paper stops, and `
          + `${width(end)} once converged. The slider moves along τ.`,
      ];
    },
  },
  {
    name: "The truth",
    view: "truth",
    step: paperStep,
    stops: (world) => [world.paper_step, "converged"],
    async tell({ at, world }) {
      const rivals = compareWithTruth(await Promise.all([world.paper_step, "converged"].map(at)), ROLE, FILLER);
      const nearest = rivals.find((rival) => rival.nearest);
      return [
        `The exact answer is ${percent(nearest.belief.truth, 1)}. ${capital(nearest.name)} comes nearest.`,
        `The pizza as agent: ${rivals.map(({ name, value }) => `${name} ${percent(value, 1)}`).join(", ")}. `
          + "One sentence proves little; now ask your own.",
      ];
    },
  },
];

export const knowsStory = (worlds) => worlds.some((world) => world.name === STORY.world);

export const isStory = ({ world, sentence, compare }) =>
  world === STORY.world && sentence === STORY.sentence && compare === STORY.compare;

// The trained belief and those at some stops, as [{ name, kind, belief, value, nearest }, …].
export function compareWithTruth(answers, role, filler) {
  const beliefs = answers.map((answer) => findBelief(answer, role, filler));
  const rivals = [
    { name: "trained", kind: "mle", belief: beliefs[0] },
    ...beliefs.map((belief, i) => ({ belief, kind: "bayes",
      name: answers[i].step === "converged" ? "converged" : `step ${answers[i].step}` })),
  ].map((rival) => ({ ...rival, value: rival.belief[rival.kind] }));
  const distance = ({ value, belief }) => Math.abs(value - belief.truth);
  const least = Math.min(...rivals.map(distance));
  return rivals.map((rival) => ({ ...rival, nearest: distance(rival) === least }));
}

const findBelief = (answer, role, filler) =>
  answer.words.at(-1).roles[role].find((belief) => belief.filler === filler);

const lastBelief = (answer) => findBelief(answer, ROLE, FILLER);

const count = (number) => ["no", "one", "two", "three", "four", "five"][number] ?? String(number);

const list = (parts) => (parts.length < 2 ? parts.join("")
  : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`);
