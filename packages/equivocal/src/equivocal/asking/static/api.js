// api.js: answers, from the networks inside the page if it holds some, else from the server; the latest
// are cached.

import { loadEngine } from "./engine.js";
import { explainPassive } from "./parsing.js";

const TOP = 4; // fillers of a role; more would not fit beside each other without scrolling
const ROUND = 1e4;
const KEPT = 400; // answers; a slider dragged to and fro over two sentences needs some 80

const kept = new Map();
const engine = loadEngine();

// The descriptions of all worlds that can be asked about.
export async function loadWorlds() {
  return engine ? engine.worlds : (await (await request("api/worlds")).json()).worlds;
}

export async function comprehend(sentence, { world, step, prior }, signal) {
  const key = JSON.stringify([world, sentence, step, prior]);
  if (!kept.has(key)) {
    const answer = engine ? engine.ask(sentence, { world, step, prior, top: TOP })
      : await (await request(`api/comprehend?${queryOf(sentence, { world, step, prior, top: TOP })}`,
        signal)).json();
    attachNetworks(answer);
    kept.set(key, answer);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  }
  return kept.get(key);
}

// Adds the beliefs of each network to those of all networks together.
function attachNetworks({ words, networks }) {
  words.forEach(({ roles }, t) => Object.entries(roles).forEach(([role, beliefs]) =>
    beliefs.forEach((belief, i) => {
      belief.networks = networks.map((network) => network.words[t].roles[role][i]);
    })));
}

export async function csvOf({ sentence, world, step, prior_variance: prior }) {
  if (engine) return engine.tabulate(sentence, { world, step, prior });
  return (await request(`api/comprehend.csv?${queryOf(sentence, { world, step, prior })}`)).text();
}

// `window.equivocal.ask` gives the object that `equivocal ask --json` prints, to four digits after the
// point: at once where the page holds networks, else as a promise. `await` is right for both.
window.equivocal = {
  ask: engine ? (sentence, options) => roundNumbers(engine.ask(sentence, options))
    : async (sentence, options = {}) =>
      roundNumbers(await (await request(`api/comprehend?${queryOf(sentence, options)}`)).json()),
};

function roundNumbers(answer) {
  return JSON.parse(JSON.stringify(answer, (_, value) =>
    (typeof value === "number" ? Math.round(value * ROUND) / ROUND : value)));
}

function queryOf(sentence, { prior, ...options }) {
  const query = { sentence, prior_variance: prior, ...options };
  return new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined));
}

async function request(address, signal) {
  let response;
  try {
    response = await fetch(address, { signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("The server does not answer. Is “equivocal serve” still running?");
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw new Error(error ? forReaders(error) : `The server answers with status ${response.status}.`);
}

// The command line's advice in the words of the page.
function forReaders(error) {
  const passive = error.match(/^unknown word '([^']*)': this world has active/)?.[1];
  if (passive) return explainPassive(passive, "that is served");
  return error.replace(/; `equivocal world show [^`]*` lists the words\.$/,
    ". “Build a sentence from words” lists those it knows.")
    .replace(/ \/api\/openapi\.json describes all parameters\.$/, "")
    .replace(/'([^']*)'/g, "“$1”").replace(/^./, (first) => first.toUpperCase());
}
