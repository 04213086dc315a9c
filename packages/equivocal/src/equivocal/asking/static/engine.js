// engine.js: answers sentences by itself, from the networks that `equivocal page` puts into the page.
//
// An answer is the object that `equivocal ask --json` prints (equivocal/asking/answer.py).

import { believe, meanOf, show } from "./beliefs.js";
import { timeAt } from "./network.js";
import { findIndicated, findTruths, parse } from "./parsing.js";
import { describeDoubt, findReadings, summarise } from "./summary.js";
import { readTensors, unpack } from "./tensors.js";

const DATA = "equivocal-data"; // id of the element that holds them; equivocal/web/page.py writes it
const COLUMNS = ["position", "word", "role", "filler", "mle", "bayes", "low", "high", "truth"];

// The engine of this page, or null where a server answers.
export function loadEngine() {
  const element = document.getElementById(DATA);
  return element ? new Engine(JSON.parse(element.textContent)) : null;
}

class Engine {
  // `rules` are what equivocal/web/page.py takes from Python: which fillers are listed, and the bounds
  // of the summary.
  constructor({ worlds, rules }) {
    this.all = Object.fromEntries(worlds.map((world) => [world.description.name, { ...world, rules }]));
    this.rules = rules;
    this.worlds = worlds.map(({ description }) => description);
    this.names = Object.keys(this.all);
  }

  ask(sentence, { world, step, prior, top = this.rules.top } = {}) {
    return listAnswer(comprehend(sentence, this.open(world), step, prior), top);
  }

  // Every candidate of every role after every word, as CSV.
  tabulate(sentence, { world, step, prior } = {}) {
    const { words, heard } = comprehend(sentence, this.open(world), step, prior);
    const rows = words.flatMap(({ roles }, i) => Object.entries(roles).flatMap(
      ([role, beliefs]) => beliefs.map(show).map(({ filler, mle, bayes, low, high, truth }) =>
        [i + 1, heard[i].text, role, filler, mle, bayes, low, high, truth ?? ""])));
    return `${[COLUMNS, ...rows].map((row) => row.map(cell).join(",")).join("\n")}\n`;
  }

  open(name = this.names[0]) {
    const world = this.all[name];
    if (!world) throw new Error(`There is no world “${name}” here; choose from ${this.names.join(", ")}.`);
    world.tensors ??= readTensors(unpack(world.networks));
    world.events ??= JSON.parse(new TextDecoder().decode(unpack(world.truth)));
    return world;
  }
}

const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);

// Everything about a sentence. `words` has, for each word, the beliefs of all networks together by the
// name of their role, and those of each network `alone`, in the same order.
function comprehend(text, world, step = "converged",
  prior = world.description.prior_variance) {
  const { description, grammar, vocabulary } = world;
  check("prior variance", prior, description.prior_variances);
  check("step", step, [...description.steps.map((entry) => entry.step), "converged"]);
  const heard = parse(text, grammar);
  const token = (name) => (name === null ? -1 : grammar.tokens.indexOf(name));
  const pairs = heard.map(({ word, marker }) => [token(word), token(marker)]);
  const truths = findTruths(pairs, world.events);
  const words = believe(world, pairs, step, prior).map(({ all, alone }, t) => {
    const said = new Set(heard.slice(0, t + 1).map(({ word }) => word));
    const label = (one) => ({ ...one, roles: Object.fromEntries(description.roles.map((role, r) =>
      [role, one.roles[r].map((belief, c) => {
        const number = vocabulary.candidates[r][c];
        const filler = vocabulary.fillers[number];
        const truth = truths?.[t]?.roles[r] ? truths[t].roles[r].get(number) ?? 0 : null;
        return { ...belief, filler, truth, said: said.has(filler) };
      })])) });
    return { ...label(all), alone: alone.map(label), possible: truths ? truths[t] !== null : null };
  });
  const indicated = findIndicated(heard, pairs, { roles: description.roles, grammar });
  return { sentence: text.trim(), world, heard, words, step, prior, indicated, truths };
}

function check(name, value, known) {
  if (!known.includes(value)) throw new Error(`There is no ${name} ${value}; choose from ${known.join(", ")}.`);
}

function listAnswer(found, top) {
  const { world, words, step, prior, heard } = found;
  const { description, opened } = world;
  const best = (position, role, most) => listBeliefs(found, position, role, most);
  const listed = words.map(({ roles }, t) => Object.fromEntries(Object.keys(roles).map((role) =>
    [role, new Set(best(t, role, top).map(({ filler }) => filler))])));
  const list = (one, t) => ({
    word: heard[t].text,
    roles: Object.fromEntries(Object.entries(one.roles).map(([role, beliefs]) => [role,
      [...listed[t][role]].map((filler) => show(beliefs.find((belief) => belief.filler === filler)))])),
    semantic_update: one.update, entropy: meanOf(one.entropy), epistemic: meanOf(one.epistemic),
  });
  const readings = words.map((_, t) => findReadings(found, t, best));
  const times = opened.map((network) => timeAt(network, prior, step));
  const answer = {
    sentence: found.sentence, world: description.name, network: description.network,
    prior_variance: prior, step, time: times[0] === null ? null : meanOf(times),
    words: words.map((one, t) => ({ ...list(one, t), possible: one.possible,
      readings: readings[t].map((reading) => listReading(reading, one)), summary: summarise(found, t, readings[t], best) })),
    indicated: found.indicated,
    summary: null,
    networks: opened.map((_, n) => ({ network: `network ${n}`, time: times[n],
      words: words.map(({ alone }, t) => list(alone[n], t)) })),
  };
  answer.words.forEach((word, t) => { word.summary += `\n${describeDoubt(answer, t)}`; });
  answer.summary = answer.words.at(-1).summary;
  return answer;
}

// A reading with the belief in each part, of all networks together and of each.
function listReading({ kind, parts, truth }, { alone }) {
  const list = (role, { filler, bayes }) => ({ filler, bayes, networks: alone.map(({ roles }) =>
    roles[role].find((belief) => belief.filler === filler).bayes) });
  return { kind, parts: Object.fromEntries(Object.entries(parts).map(([role, belief]) =>
    [role, list(role, belief)])), truth };
}

// The fillers believed most, the heard words that could take part, and the most probable fillers.
function listBeliefs({ words, heard, world }, position, role, top) {
  const beliefs = words[position].roles[role];
  const strongest = (of) => [...beliefs].sort((a, b) => of(b) - of(a)).slice(0, top);
  const best = strongest(({ mle, bayes }) => Math.max(mle, bayes));
  const more = strongest(({ truth }) => truth ?? 0).filter(({ truth }) => truth >= world.rules.notable);
  if (world.vocabulary.participants.includes(role)) {
    const said = heard.slice(0, position + 1).map(({ word }) => word);
    more.unshift(...said.flatMap((word) => beliefs.filter(({ filler }) => filler === word)));
  }
  return [...new Set([...best, ...more])];
}
