// engine.js: answers sentences from the networks that `equivocal page` puts into the page. An answer is
// the object that `equivocal ask --json` prints (equivocal/asking/rendering.py).

import { findWarranted } from "learner";
import { believe, findInterval, meanOf } from "network";
import { findIndicated, findTruths, parse } from "parsing";
import { describeDoubt, describeWarranted, findReadings, summarise } from "summary";

const TYPES = { Float32: Float32Array, Int16: Int16Array, Uint32: Uint32Array };

// Every world of the page, with its networks, as page.py describes them; the first is the default.
export async function openWorlds() {
  return Promise.all([...document.querySelectorAll("script.world")].map(openWorld));
}

async function openWorld(element) {
  const packed = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const block = await new Response(unpacked).arrayBuffer();
  const start = 4; // bytes of the arrays' size
  const size = new DataView(block).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(block, start + size));
  return JSON.parse(text, (_, value) => {
    if (!value?.array) return value;
    const [type, offset, length] = value.array;
    return new TYPES[type](block, start + offset, length);
  });
}

// The answer of a world's networks to a sentence; throws an Error that says what is wrong with it.
export function answer(text, world, step = "converged", top = world.rules.top) {
  if (!world.steps.includes(step)) {
    throw new Error(`There is no step ${step}; choose from ${world.steps.join(", ")}.`);
  }
  const found = comprehend(text, world, step);
  const { words, heard } = found;
  const best = (position, role, most) => listBeliefs(found, position, role, most);
  const listed = words.map((_, t) => Object.fromEntries(world.roles.map((role) =>
    [role, best(t, role, top).map(({ filler }) => filler)])));
  const list = (voice, t) => ({
    word: heard[t].text,
    roles: Object.fromEntries(Object.entries(voice.roles).map(([role, beliefs]) => [role,
      listed[t][role].map((name) => {
        const { filler, mle, bayes, moments, truth, warranted, said } = beliefs.find((each) => each.filler === name);
        return { filler, mle, bayes, ...findInterval(moments), truth, warranted, said };
      })])),
    semantic_update: voice.update, entropy: meanOf(voice.entropy), epistemic: meanOf(voice.epistemic),
  });
  const readings = words.map((_, t) => findReadings(found, t, best));
  const times = world.networks.map(({ stops }) => (step === 0 ? 0 : stops[step].time));
  const result = {
    sentence: text.trim(), world: world.name, network: world.network,
    prior_variance: world.prior_variance, step, time: times[0] === null ? null : meanOf(times),
    words: words.map((word, t) => ({ ...list(word.all, t), possible: word.possible,
      readings: readings[t].map((reading) => listReading(reading, word.alone)),
      summary: summarise(found, t, readings[t], best) })),
    indicated: found.indicated,
    summary: null,
    networks: world.member_names.map((name, n) => ({ network: name, time: times[n],
      words: words.map(({ alone }, t) => list(alone[n], t)) })),
  };
  result.words.forEach((word, t) => {
    word.summary += `\n${describeDoubt(result, t)}${describeWarranted(found, t, readings[t][0]?.parts ?? {}, best)}`;
  });
  result.summary = result.words.at(-1).summary;
  return result;
}

// Everything about a sentence. `words` has, for each word, the beliefs of `all` networks together by the
// name of their role, and those of each network `alone`, in the same order.
function comprehend(text, world, step) {
  const { grammar, vocabulary } = world;
  const heard = parse(text, grammar);
  const token = (name) => (name === null ? -1 : grammar.tokens.indexOf(name));
  const pairs = heard.map(({ word, marker }) => [token(word), token(marker)]);
  const truths = findTruths(pairs, world.truth);
  const words = believe(world, pairs, step).map(({ all, alone }, t) => {
    const warranted = warrantedAfter(pairs.slice(0, t + 1), world);
    const said = new Set(heard.slice(0, t + 1).map(({ word }) => word));
    const label = (voice) => ({ ...voice, roles: Object.fromEntries(world.roles.map((role, r) =>
      [role, voice.roles[r].map((belief, c) => {
        const number = vocabulary.candidates[r][c];
        const filler = vocabulary.fillers[number];
        const truth = truths?.[t]?.roles[r] ? truths[t].roles[r].get(number) ?? 0 : null;
        return { ...belief, filler, truth, warranted: warranted?.[r]?.(number) ?? null, said: said.has(filler) };
      })])) });
    return { all: label(all), alone: alone.map(label), possible: truths ? truths[t] !== null : null };
  });
  return { world, heard, words, indicated: findIndicated(heard, pairs, world), truths };
}

const kept = new Map(); // what is warranted depends on the words alone, not on the sampler's step

function warrantedAfter(pairs, world) {
  const key = `${world.name} ${pairs}`;
  if (!kept.has(key)) kept.set(key, findWarranted(world, pairs));
  return kept.get(key);
}

// A reading with the belief in each part, of all networks together and of each.
function listReading({ kind, parts, truth }, alone) {
  const list = (role, { filler, bayes }) => ({ filler, bayes, networks: alone.map(({ roles }) =>
    roles[role].find((belief) => belief.filler === filler).bayes) });
  return { kind, parts: Object.fromEntries(Object.entries(parts).map(([role, belief]) =>
    [role, list(role, belief)])), truth };
}

// The fillers believed most, the heard words that could take part, and the most probable fillers.
function listBeliefs({ words, heard, world }, position, role, top) {
  const beliefs = words[position].all.roles[role];
  const strongest = (of) => [...beliefs].sort((a, b) => of(b) - of(a)).slice(0, top);
  const best = strongest(({ mle, bayes }) => Math.max(mle, bayes));
  const probable = strongest(({ truth }) => truth ?? 0).filter(({ truth }) => truth >= world.rules.notable);
  const said = world.vocabulary.participants.includes(role) ? heard.slice(0, position + 1) : [];
  const taking = said.flatMap(({ word }) => beliefs.filter(({ filler }) => filler === word));
  return [...new Set([...best, ...taking, ...probable])];
}
