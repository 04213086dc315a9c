// engine.js: answers sentences by itself, from the networks that `equivocal page` puts into the page.
//
// An answer is the object that `equivocal ask --json` prints (equivocal/asking/answer.py).

import { findInterval } from "./beliefs.js";
import { believe } from "./comprehension.js";
import { findIndicated, findTruths } from "./events.js";
import { parse } from "./parsing.js";
import { summarise } from "./summary.js";
import { decodeBase64, readTensors } from "./tensors.js";

const DATA = "equivocal-data"; // id of the element that holds them; equivocal/web/bundle.py writes it
const DEFAULT = "slips"; // the world that is asked unless another is named, where it is there
const TOP = 4;
const ROUND = 1e4;
const COLUMNS = ["position", "word", "role", "filler", "mle", "bayes", "low", "high", "truth"];

// The engine of this page, or null where a server answers.
export function loadEngine() {
  const element = globalThis.document?.getElementById(DATA);
  return element ? new Engine(JSON.parse(element.textContent)) : null;
}

export class Engine {
  constructor({ worlds }) {
    this.all = Object.fromEntries(worlds.map((world) => [world.description.name, { ...world }]));
    this.worlds = worlds.map(({ description }) => description);
    this.names = Object.keys(this.all);
  }

  ask(sentence, { world, step = "converged", prior, top = TOP } = {}) {
    const chosen = this.open(world);
    const found = comprehend(sentence, chosen, step, prior ?? chosen.description.prior_variance);
    return listAnswer(found, chosen, top);
  }

  // As the command prints it, to four digits after the point.
  askRounded(sentence, options) {
    return JSON.parse(JSON.stringify(this.ask(sentence, options), (_, value) =>
      (typeof value === "number" ? Math.round(value * ROUND) / ROUND : value)));
  }

  // Every candidate of every role after every word, as CSV.
  tabulate(sentence, { world, step = "converged", prior } = {}) {
    const chosen = this.open(world);
    const { positions } = comprehend(sentence, chosen, step, prior ?? chosen.description.prior_variance);
    const rows = positions.flatMap(({ word, roles }, i) => Object.entries(roles).flatMap(
      ([role, beliefs]) => beliefs.map(show).map((belief) => [i + 1, word, role, belief.filler,
        belief.mle, belief.bayes, belief.low, belief.high, belief.truth ?? ""])));
    return `${[COLUMNS, ...rows].map((row) => row.map(cell).join(",")).join("\n")}\n`;
  }

  open(name = this.names.includes(DEFAULT) ? DEFAULT : this.names[0]) {
    const world = this.all[name];
    if (!world) throw new Error(`There is no world “${name}” here; choose from ${this.names.join(", ")}.`);
    world.tensors ??= readTensors(decodeBase64(world.networks));
    return world;
  }
}

const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);

function comprehend(text, world, step, prior) {
  const { description, grammar, vocabulary } = world;
  check("prior variance", prior, description.prior_variances);
  check("step", step, [...description.steps.map((entry) => entry.step), "converged"]);
  const heard = parse(text, grammar);
  const token = (name) => (name === null ? -1 : grammar.tokens.indexOf(name));
  const pairs = heard.map(({ word, marker }) => [token(word), token(marker)]);
  const truths = findTruths(pairs, world.truth);
  const found = believe(world, pairs, step, prior);
  const positions = heard.map((part, t) => {
    const said = new Set(heard.slice(0, t + 1).map(({ word }) => word));
    const roles = Object.fromEntries(description.roles.map((role, r) => [role,
      vocabulary.candidates[r].map((filler, c) => ({
        filler: vocabulary.fillers[filler], ...found.words[t].roles[r][c],
        truth: truths?.[t]?.[r] ? truths[t][r].get(filler) ?? 0 : null,
        said: said.has(vocabulary.fillers[filler]),
      }))]));
    return { ...found.words[t], word: part.text, roles,
      possible: truths ? truths[t] !== null : null };
  });
  return { sentence: text.trim(), heard, positions, step, prior,
    indicated: findIndicated(heard, pairs, { roles: description.roles, grammar }) };
}

function check(name, value, known) {
  if (!known.includes(value)) throw new Error(`There is no ${name} ${value}; choose from ${known.join(", ")}.`);
}

function listAnswer(found, world, top) {
  const { description, vocabulary } = world;
  const times = description.steps.find((entry) => entry.step === found.step)?.times;
  const [, time = null] = Object.entries(times ?? {}).find(([value]) => Number(value) === found.prior) ?? [];
  const words = found.positions.map(({ word, possible, roles, update, entropy, epistemic }, t) => ({
    word, possible,
    roles: Object.fromEntries(Object.entries(roles).map(([role, beliefs]) =>
      [role, listBeliefs(beliefs, role, found.heard.slice(0, t + 1), vocabulary, top)])),
    semantic_update: update, entropy, epistemic,
  }));
  const answer = { sentence: found.sentence, world: description.name, network: description.network,
    prior_variance: found.prior, step: found.step, time, words, indicated: found.indicated };
  return { ...answer, summary: summarise(found, world) };
}

// The fillers believed most; a heard word that could take part is listed for every such role.
export function listBeliefs(beliefs, role, heard, { participants }, top) {
  const strength = ({ mle, bayes }) => Math.max(mle, bayes);
  const best = [...beliefs].sort((a, b) => strength(b) - strength(a)).slice(0, top);
  if (participants.includes(role)) {
    for (const { word } of heard) {
      const one = beliefs.find((belief) => belief.filler === word);
      if (one && !best.includes(one)) best.push(one);
    }
  }
  return best.map(show);
}

// A belief as an answer lists it.
function show({ filler, mle, bayes, moments, truth, said, networks }) {
  const { low, high } = findInterval(moments);
  return { filler, mle, bayes, low, high, truth, said, networks };
}
