// chapters.js: the five steps of the story and what each says, from the numbers that are shown.
//
// `tell` is given { plain, reversed } (the answers shown), `at` (an answer to the reversed sentence at
// another stop, by `at(step)`) and `world`; it returns [headline, text].

import { percent, short } from "./format.js";

export const STORY = {
  world: "slips",
  sentence: "during dinner, the woman eats the pizza",
  compare: "during dinner, the pizza eats the woman",
  position: null,
};
const [ROLE, FILLER] = ["agent", "pizza"];

export const CHAPTERS = [
  {
    name: "False certainty",
    step: (world) => world.paper_step,
    async tell({ reversed }) {
      const { truth, mle, networks = [] } = lastBelief(reversed);
      const many = networks.length > 1;
      const given = many ? list(networks.map((each) => percent(each.mle))) : percent(mle);
      const who = many ? `${capitalised(count(networks.length))} trained networks answer`
        : "The trained network answers";
      return [
        `Did the pizza eat the woman? ${who} ${given}${many ? "; none says" : ". It does not say"} how sure it is.`,
        `${many ? "Each" : "It"} gives one number as if no other were possible: that is the false certainty. In `
          + `this world speakers slip and things act now and then: the exact chance is ${percent(truth, 1)} `
          + "(the triangle).",
      ];
    },
  },
  {
    name: "Where is the doubt?",
    step: (world) => world.paper_step,
    position: ({ plain, reversed }) => mostDoubted(plain, reversed),
    async tell({ plain, reversed }) {
      const at = mostDoubted(plain, reversed);
      const [usual, odd] = [plain.words[at], reversed.words[at]];
      const share = odd.entropy > 0 ? odd.epistemic / odd.entropy : 0;
      return [
        `The doubt comes with “${odd.word}”.`,
        `There, uncertainty is ${short(odd.entropy)} nats in the reversed sentence and `
          + `${short(usual.entropy)} in the plausible one. ${percent(share)} of it is epistemic: `
          + "networks, or last layers that fit the data alike, disagree. The rest is chance in the world.",
      ];
    },
  },
  {
    name: "The prior",
    step: () => 0,
    async tell({ at }) {
      const start = await at(0);
      const { low, high } = lastBelief(start);
      return [
        "Before the data, almost anything is possible.",
        `The prior lets the last layer vary around the trained weights (variance ${
          start.prior_variance}). Nine in ten of these comprehenders give the pizza as agent `
          + `between ${percent(low)} and ${percent(high)}.`,
      ];
    },
  },
  {
    name: "Along τ",
    step: () => "converged",
    along: true,
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
    step: (world) => world.paper_step,
    async tell({ at, world }) {
      const [paper, end] = await Promise.all([world.paper_step, "converged"].map(at));
      const { truth, mle } = lastBelief(paper);
      const rivals = [
        ["trained", mle], [`step ${world.paper_step}`, lastBelief(paper).bayes],
        ["converged", lastBelief(end).bayes],
      ];
      const [nearest] = [...rivals].sort(([, a], [, b]) => Math.abs(a - truth) - Math.abs(b - truth));
      return [
        `The exact answer is ${percent(truth, 1)}. ${capitalised(nearest[0])} comes nearest.`,
        `Pizza as agent: ${rivals.map(([name, value]) => `${name} ${percent(value, 1)}`).join(", ")}. `
          + "One sentence proves little; now ask your own.",
      ];
    },
  },
];

export const knowsStory = (worlds) => worlds.some((world) => world.name === STORY.world);

export const isStory = ({ world, sentence, compare }) =>
  world === STORY.world && sentence === STORY.sentence && compare === STORY.compare;

function lastBelief(answer) {
  return answer.words.at(-1).roles[ROLE].find((belief) => belief.filler === FILLER);
}

// Where the reversed sentence is more uncertain than the plausible one.
function mostDoubted(plain, reversed) {
  const more = reversed.words.map((entry, i) => entry.entropy - plain.words[i].entropy);
  return more.indexOf(Math.max(...more));
}

const count = (number) => ["no", "one", "two", "three", "four", "five"][number] ?? String(number);

const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const list = (parts) => (parts.length < 2 ? parts.join("")
  : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`);
