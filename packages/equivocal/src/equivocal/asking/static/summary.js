// summary.js: the summary after a word in short lines, worded as in equivocal/asking/summary.py.

import { formatPercent } from "dom";

const ACTION = "action";
const ORDER = ["agent", ACTION, "patient"]; // roles whose fillers make a sentence

// `found` is what engine.js knows about a sentence; `best(position, role, most)` lists beliefs; `readings`
// are those of `findReadings`. The bounds in `found.world.rules` are those of summary.py.
export function summarise(found, position, readings, best) {
  const [reading, rival] = readings;
  const lines = [reading ? describeReading(found, position, reading.parts) : "Too early to say who does what."];
  if (rival) lines.push(describeRival(found, reading, rival));
  if (found.words[position].possible === false) {
    lines.push(`Impossible in the world ${found.world.name}.`);
  } else if (reading && reading.truth !== null) {
    lines.push(`Exact probability of the reading ${formatPercent(reading.truth, 1)}${
      rival ? `, of the other ${formatPercent(rival.truth, 1)}` : ""}.`);
  }
  return [...lines, describeUndecided(found, position, best)].join("\n");
}

const listAsked = ({ vocabulary, roles }) =>
  [...vocabulary.participants, ...roles.filter((role) => role === ACTION)];

// [{ kind, parts, truth }, …]: the reading after a word, and its rival if it has one; `parts` are beliefs by
// role, `truth` is the exact probability of all together.
export function findReadings(found, position, best) {
  const { world, truths } = found;
  const parts = Object.fromEntries(listAsked(world).map((role) => [role,
    found.words[position].all.roles[role].reduce((a, b) => (b.bayes > a.bayes ? b : a))])
    .filter(([, { bayes }]) => bayes >= world.rules.early));
  if (!Object.keys(parts).length) return [];
  const kinds = { reading: parts, ...findRival(found, position, parts, best) };
  const number = (role, { filler }) =>
    [world.roles.indexOf(role), world.vocabulary.fillers.indexOf(filler)];
  return Object.entries(kinds).map(([kind, read]) => ({ kind, parts: read,
    truth: truths?.[position] ? truths[position].joint(Object.fromEntries(
      Object.entries(read).map(([role, belief]) => number(role, belief)))) : null }));
}

// { syntax: parts }, the reading that syntax indicates, if it differs, or { rival: parts } with the best
// other filler, or {}.
function findRival({ words, world, indicated }, position, reading, best) {
  const { participants } = world.vocabulary;
  const { roles } = words[position].all;
  const ordered = {};
  for (const role of listAsked(world)) {
    const belief = roles[role].find(({ filler, said }) => said && filler === indicated[role]);
    if (belief) ordered[role] = belief;
  }
  if (Object.keys(ordered).some((role) => role in reading && ordered[role].filler !== reading[role].filler)) {
    return { syntax: ordered };
  }
  const others = Object.entries(reading).flatMap(([role, read]) => best(position, role, world.rules.top)
    .filter(({ filler }) => filler !== read.filler)
    .map((belief) => ({ role, belief, strength: Math.max(belief.bayes, belief.truth ?? 0) })));
  const { role, belief, strength } = others.reduce((a, b) => (b.strength > a.strength ? b : a));
  if (strength < world.rules.rival) return {};
  const rival = { ...reading, [role]: belief };
  for (const other of Object.keys(reading)) {
    if (reading[other].filler === belief.filler && participants.includes(role) && participants.includes(other)) {
      rival[other] = roles[other].find(({ filler }) => filler === reading[role].filler);
    }
  }
  return { rival };
}

// What is read, or expected where no word was heard that could be part of it.
function describeReading(found, position, parts) {
  const { world, words } = found;
  const roles = listAsked(world);
  const done = Object.keys(parts).length === roles.length || position + 1 === words.length;
  const heard = roles.some((role) => words[position].all.roles[role].some(({ said }) => said));
  const begin = !heard ? "Expects" : done ? "Reads" : "Reads so far";
  const named = Object.keys(parts).filter((role) => role !== ACTION || parts[role].bayes < world.rules.settled);
  return `${begin}: ${phrase(found, parts, named.length ? named : Object.keys(parts))}.`;
}

// Beliefs are given for the parts in which the rival differs.
function describeRival(found, reading, rival) {
  const named = Object.keys(rival.parts).filter((role) =>
    reading.parts[role]?.filler !== rival.parts[role].filler);
  return `${rival.kind === "syntax" ? "Syntax" : "Rival"}: ${phrase(found, rival.parts, named)}.`;
}

// Who does what to whom, with the beliefs in the named parts; all parts, where there are other roles.
function phrase({ world }, parts, named) {
  const share = (role) => `${role} ${parts[role].filler} ${formatPercent(parts[role].bayes)}`;
  const roles = Object.keys(parts);
  if (!roles.every((role) => ORDER.includes(role))) return roles.map(share).join(", ");
  const word = (role) => (role !== ACTION ? `${world.vocabulary.article}${parts[role].filler}`
    : world.vocabulary.verbs[parts[role].filler] ?? parts[role].filler);
  return `${ORDER.filter((role) => role in parts).map(word).join(" ")} (${named.map(share).join(", ")})`;
}

// What a learner who counted the same sentences believes, of the participants read.
export function describeWarranted({ world }, position, parts, best) {
  const said = world.vocabulary.participants.filter((role) => role in parts).flatMap((role) => {
    const known = best(position, role, world.rules.top).filter(({ warranted }) => warranted !== null);
    if (!known.length) return [];
    const { filler, warranted } = known.reduce((a, b) => (b.warranted[0] - a.warranted[0] > 1e-9 ? b : a));
    if (warranted[0] < world.rules.early) return [];
    const [belief, low, high] = warranted.map((value) => formatPercent(value));
    return [`${role} ${filler} ${belief}${low === high ? "" : ` (${low} to ${high})`}`];
  });
  const heard = `${world.learner?.sentences.toLocaleString("en")} sentences that they heard`;
  return said.length ? `\nWarranted by the ${heard}: ${said.join(", ")}.` : "";
}

// Names the role furthest from the truth among those that are open, to the networks or in truth.
function describeUndecided({ words, world }, position, best) {
  const { settled, top } = world.rules;
  let [role, chosen, rank] = [null, null, [-1, -1]];
  world.roles.forEach((each, r) => {
    const two = chooseTwo(best(position, each, top));
    if (two[0].bayes >= settled && (two[0].truth ?? 1) >= settled) return;
    const gap = Math.max(0, ...two.map(({ bayes, truth }) => (truth === null ? 0 : Math.abs(bayes - truth))));
    const next = [gap, words[position].all.entropy[r]];
    if (next[0] > rank[0] || (next[0] === rank[0] && next[1] > rank[1])) [role, chosen, rank] = [each, two, next];
  });
  if (!chosen) return "Nothing is undecided.";
  const said = chosen.map(({ filler, bayes }) => `${filler} ${formatPercent(bayes)}`).join(" or ");
  const known = chosen.filter(({ truth }) => truth !== null);
  const exact = known.map(({ truth }) => formatPercent(truth, 1)).join(" or ");
  return `${chosen[0].bayes < settled ? "Undecided" : "Too sure of the"} ${role}: ${said}${
    exact && ` (exact: ${exact})`}.`;
}

// The filler believed most, and the likeliest in truth or else the next in belief.
function chooseTwo(beliefs) {
  const [first, ...others] = [...beliefs].sort((a, b) => b.bayes - a.bayes);
  const likely = beliefs.reduce((a, b) => ((b.truth ?? 0) > (a.truth ?? 0) ? b : a));
  return likely !== first && likely.truth ? [first, likely] : [first, ...others.slice(0, 1)];
}

// How much of the doubt after a word lies in the words, between networks and within each; and between which
// beliefs single networks lie, for the participants of the reading.
export function describeDoubt(answer, position) {
  const { words, between, within } = splitDoubt(answer, position);
  const number = answer.networks.length;
  if (number < 2) {
    return `Doubt: ${formatPercent(words)} in the words, ${formatPercent(within)} within the network; only one was asked.`;
  }
  const doubt = `Doubt: ${formatPercent(words)} in the words, ${formatPercent(between)} between the ${
    number} networks, ${formatPercent(within)} within each.`;
  const ranges = Object.entries(answer.words[position].readings[0]?.parts ?? {})
    .filter(([role]) => role !== ACTION)
    .map(([role, { filler, networks }]) => `${role} ${filler} ${
      [...new Set([Math.min, Math.max].map((end) => formatPercent(end(...networks))))].join(" to ")}`);
  return ranges.length ? `${doubt}\nNetworks alone: ${ranges.join(", ")}.` : doubt;
}

// The same as shares of the uncertainty, whose `total` is in nats.
export function splitDoubt({ words, networks }, position) {
  const { entropy: total, epistemic } = words[position];
  const inside = networks.reduce((sum, one) => sum + one.words[position].epistemic, 0) / networks.length;
  const share = total > 0 ? epistemic / total : 0;
  const between = total > 0 && networks.length > 1 ? Math.max(0, epistemic - inside) / total : 0;
  return { total, words: 1 - share, between, within: share - between };
}
