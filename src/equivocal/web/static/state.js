// state.js: what the page shows, as plain values, and its way into and out of the address.
//
// A state is { sentence, compare, position, step, prior }: `compare` is null without a second
// sentence, `position` counts words from 0 and null means the last, `step` may be "converged".

const PAIR = "during dinner, the pizza eats the woman";

export function readState(search, world) {
  const query = new URLSearchParams(search);
  const sentence = query.get("sentence")?.trim();
  const word = Number.parseInt(query.get("word"), 10);
  return {
    sentence: sentence || firstSentence(world),
    compare: query.get("compare")?.trim() || null,
    position: sentence && word >= 1 ? word - 1 : null,
    step: knownStep(query.get("step"), world),
    prior: knownPrior(query.get("prior") ?? query.get("prior_variance"), world),
  };
}

function firstSentence(world) {
  return world.name === "paper" ? PAIR : (world.examples[0]?.sentence ?? "");
}

function knownStep(text, world) {
  const known = world.steps.find((entry) => String(entry.step) === text);
  return known ? known.step : "converged";
}

// the API's name for it is understood too
function knownPrior(text, world) {
  return world.prior_variances.find((value) => value === Number(text)) ?? world.prior_variance;
}

export function addressOf(state) {
  const query = new URLSearchParams({ sentence: state.sentence });
  if (state.compare) query.set("compare", state.compare);
  query.set("word", state.position + 1);
  query.set("step", state.step);
  query.set("prior", state.prior);
  return `?${query}`;
}

export const sentencesOf = (state) => [state.sentence, state.compare].filter(Boolean);
