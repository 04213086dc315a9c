// state.js: what the page shows, as plain values; reads it from the address and writes it there.
//
// A state is { world, sentence, compare, position, step, prior, chapter }: `world` is a name, `compare`
// is null without a second sentence, `position` counts words from 0 and null means the last, `step`
// may be "converged", and `chapter` is the step of the story, from 0, or null in free play.

import { CHAPTERS, CONVERGED, isStory, STORY } from "./story.js";

// A file has no query of its own to change, so its state lives behind the #.
const inHash = () => location.protocol === "file:";

export function readState(worlds) {
  const query = new URLSearchParams(inHash() || !location.search
    ? location.hash.slice(1) : location.search);
  const told = worlds.find((world) => world.name === STORY.world);
  if (![...query.keys()].length && told) {
    return { ...STORY, step: CONVERGED, prior: told.prior_variance, chapter: 0 };
  }
  const world = worlds.find(({ name }) => name === query.get("world")) ?? worlds[0];
  const sentence = query.get("sentence")?.trim();
  const word = Number.parseInt(query.get("word"), 10);
  const chapter = told ? readChapter(query.get("story")) : null;
  const state = {
    world: world.name,
    sentence: sentence || firstExample(world).sentence,
    compare: sentence ? query.get("compare")?.trim() || null : firstExample(world).compare,
    position: sentence && word >= 1 ? word - 1 : null,
    step: knownStep(query.get("step") ?? String(CHAPTERS[chapter]?.step ?? CONVERGED), world),
    prior: knownPrior(query.get("prior") ?? query.get("prior_variance"), world),
    chapter,
  };
  return isStory(state) ? state : { ...state, chapter: null };
}

function readChapter(text) {
  const chapter = Number.parseInt(text, 10) - 1;
  return chapter >= 0 && chapter < CHAPTERS.length ? chapter : null;
}

// The sentences that a world opens with: its first example.
export function firstExample(world) {
  const { sentence = "", compare = null } = world.examples[0] ?? {};
  return { sentence, compare };
}

export function knownStep(text, world) {
  const known = world.steps.find((entry) => String(entry.step) === text);
  return known ? known.step : CONVERGED;
}

// The address may use the API's name, prior_variance, as well.
function knownPrior(text, world) {
  return world.prior_variances.find((value) => value === Number(text)) ?? world.prior_variance;
}

function addressOf(state) {
  const query = new URLSearchParams({ sentence: state.sentence });
  if (state.compare) query.set("compare", state.compare);
  query.set("word", state.position + 1);
  query.set("step", state.step);
  query.set("prior", state.prior);
  query.set("world", state.world);
  if (state.chapter !== null) query.set("story", state.chapter + 1);
  return query.toString();
}

export function writeAddress(state) {
  const [sign, before] = inHash() ? ["#", location.hash] : ["?", location.search];
  const address = sign + addressOf(state);
  if (address === before) return;
  try { history.replaceState(null, "", address); } catch { /* a frame may not let us */ }
}

export const sentencesOf = (state) => [state.sentence, state.compare].filter(Boolean);
