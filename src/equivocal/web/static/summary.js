// summary.js: the outcome after a word in two short lines, as equivocal/asking/summary.py words it.

import { entr } from "./beliefs.js";

const ACTION = "action";

// `found` is what engine.js knows about a sentence; `best(position, role, most)` lists beliefs. The bounds
// in `found.world.rules` are those of summary.py.
export function summarise(found, position, best) {
  const whole = findReading(found, position, best);
  const sure = Object.entries(whole).filter(([, { bayes }]) => bayes >= found.world.rules.early);
  const reading = Object.fromEntries(sure);
  const rival = sure.length ? describeRival(found, position, reading, best) : "";
  const begin = sure.length === Object.keys(whole).length ? "Reads" : "Reads so far";
  const first = !sure.length ? "Too early to say who does what."
    : `${begin}: ${say(found, reading)} (${formatBelief(Object.values(reading), !rival)}).`;
  const impossible = found.words[position].possible !== false ? ""
    : ` No event of the world ${found.world.description.name} is said this way.`;
  return `${first}${rival}\n${describeUndecided(found, position, best)}${impossible}`;
}

// { role: belief }: the fillers of action and participants that are believed most together. A reading
// is believed no more than its least believed part.
function findReading({ world }, position, best) {
  const { participants } = world.vocabulary;
  let readings = [{}];
  for (const role of participants) {
    const beliefs = best(position, role, world.rules.tried);
    readings = readings.flatMap((reading) => beliefs
      .filter(({ filler }) => !Object.values(reading).some((other) => other.filler === filler))
      .map((belief) => ({ ...reading, [role]: belief })));
  }
  const worst = (reading) => leastOf(Object.values(reading), "bayes");
  const sum = (reading) => Object.values(reading).reduce((total, { bayes }) => total + bayes, 0);
  const reading = readings.reduce((a, b) =>
    (worst(b) > worst(a) || (worst(b) === worst(a) && sum(b) > sum(a)) ? b : a));
  if (world.description.roles.includes(ACTION)) [reading[ACTION]] = best(position, ACTION, 1);
  return reading;
}

const leastOf = (beliefs, name) => Math.min(...beliefs.map((belief) => belief[name]));

// What word order says where it says something else, or the best other filler.
function describeRival(found, position, reading, best) {
  const { words, world, heard, indicated } = found;
  const said = new Set(heard.slice(0, position + 1).map(({ word }) => word));
  const ordered = {};
  for (const [role, word] of Object.entries(indicated)) {
    const belief = words[position].roles[role].find(({ filler }) => filler === word);
    if (world.vocabulary.participants.includes(role) && said.has(word) && belief) ordered[role] = belief;
  }
  if (Object.entries(ordered).some(([role, { filler }]) => role in reading && filler !== reading[role].filler)) {
    const whole = ACTION in reading ? { [ACTION]: reading[ACTION], ...ordered } : ordered;
    return ` Word order says ${say(found, whole)} (${formatBelief(Object.values(ordered), true)}).`;
  }
  const others = Object.entries(reading).flatMap(([role, read]) => best(position, role, world.rules.top)
    .filter(({ filler }) => filler !== read.filler)
    .map((belief) => ({ role, belief, strength: Math.max(belief.bayes, belief.truth ?? 0) })));
  const { role, belief, strength } = others.reduce((a, b) => (b.strength > a.strength ? b : a));
  if (strength < world.rules.rival) return "";
  const exchanged = exchange(found, position, reading, role, belief);
  if (exchanged) {
    return ` Rival: ${say(found, { ...reading, ...exchanged })} (${
      formatBelief(Object.values(exchanged), true)}).`;
  }
  return ` Rival ${role}: ${nameOf(found, role, belief)} (${formatBelief([belief], true)}).`;
}

// Where the rival is another participant of the reading, both exchange their roles.
function exchange({ words, world }, position, reading, role, belief) {
  const { participants } = world.vocabulary;
  const other = Object.keys(reading).find((each) => reading[each].filler === belief.filler);
  if (!participants.includes(role) || !participants.includes(other)) return null;
  const { roles } = words[position];
  return { [role]: belief,
    [other]: roles[other].find(({ filler }) => filler === reading[role].filler) };
}

// The role with the most doubt, in the networks or in truth, and whether networks disagree or each is
// unsure.
function describeUndecided(found, position, best) {
  const { entropy, roles } = found.words[position];
  const doubts = Object.values(roles).map((beliefs, r) => Math.max(entropy[r],
    beliefs.reduce((sum, { truth }) => sum + (truth ? entr(truth) + entr(1 - truth) : 0), 0)));
  const r = doubts.indexOf(Math.max(...doubts));
  const role = found.world.description.roles[r];
  const { rules } = found.world;
  const two = best(position, role, rules.top).sort((a, b) => b.bayes - a.bayes).slice(0, 2);
  const said = two.map(({ filler, bayes }) => `${filler} ${formatPercent(bayes)}`).join(" or ");
  const exact = two.filter(({ truth }) => truth !== null).map(({ truth }) => formatPercent(truth));
  const known = exact.length ? ` (exact: ${exact.join(" or ")})` : "";
  const [{ bayes, truth }] = two;
  if (bayes < rules.settled) {
    return `Undecided: the ${role}, ${said}${known}. ${locateDoubt(found.words[position], r, rules)}`;
  }
  if (truth !== null && truth < rules.settled) return `Too sure of the ${role}: ${said}${known}.`;
  return "Nothing is undecided.";
}

// Where the doubt about a role lies: in what was said, within or between networks.
function locateDoubt({ entropy, epistemic, alone }, r, { mostly }) {
  if (epistemic[r] < entropy[r] / 2) return "The words leave it open.";
  const number = alone.length;
  if (number < 2) return "The network is unsure of its weights.";
  const within = alone.reduce((sum, one) => sum + one.epistemic[r], 0) / number;
  const share = 1 - within / epistemic[r];
  if (share >= mostly) return `The ${number} networks disagree.`;
  if (share <= 1 - mostly) return `Each of the ${number} networks is unsure of its weights.`;
  return `The ${number} networks disagree, and each is unsure of its weights.`;
}

// Who does what to whom; where there are other participants, their roles are named.
function say(found, reading) {
  const named = Object.fromEntries(Object.entries(reading).map(([role, belief]) =>
    [role, nameOf(found, role, belief)]));
  const order = ["agent", ACTION, "patient"];
  if (Object.keys(named).every((role) => order.includes(role))) {
    return order.filter((role) => role in named).map((role) => named[role]).join(" ");
  }
  return Object.entries(named).map(([role, filler]) => `${role} ${filler}`).join(", ");
}

const nameOf = ({ world }, role, { filler }) => (role !== ACTION ? `the ${filler}`
  : world.vocabulary.verbs[filler] ?? filler);

function formatBelief(beliefs, exact) {
  const believed = formatPercent(leastOf(beliefs, "bayes"));
  if (!exact || beliefs.some(({ truth }) => truth === null)) return believed;
  return `${believed}; exact: ${formatPercent(leastOf(beliefs, "truth"), 1)}`;
}

// A logistic unit is never quite certain, so nothing is 100 %.
export function formatPercent(value, digits = 0) {
  if (value === 0) return "0 %";
  if (value < 0.0001) return "< 0.01 %";
  if (value > 0.999) return "> 99.9 %";
  if (value < 0.01) return `${Number((100 * value).toPrecision(2))} %`;
  return `${roundEven(100 * value, value > 0.99 ? 1 : digits)} %`;
}

// As Python rounds: what lies in the middle goes to the even digit.
function roundEven(value, digits) {
  const scaled = value * 10 ** digits;
  const below = Math.floor(scaled);
  return scaled - below === 0.5 && below % 2 === 0 ? (below / 10 ** digits).toFixed(digits)
    : value.toFixed(digits);
}
