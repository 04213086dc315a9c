// summary.js: the summary after a word in two short lines, worded as in equivocal/asking/summary.py.

const ACTION = "action";

// `found` is what engine.js knows about a sentence; `best(position, role, most)` lists beliefs. The bounds
// in `found.world.rules` are those of summary.py.
export function summarise(found, position, best) {
  const { early, width } = found.world.rules;
  const fit = (begin, wordings) => {
    const lines = wordings.length ? wordings.map((wording) => begin + wording) : [begin];
    return lines.find((line) => line.length <= width) ?? lines.at(-1);
  };
  const whole = findReading(found, position, best);
  const sure = Object.entries(whole).filter(([, { bayes }]) => bayes >= early);
  const reading = Object.fromEntries(sure);
  const rivals = sure.length ? describeRival(found, position, reading, best) : [];
  const { roles } = found.words[position];
  const heard = Object.keys(whole).some((role) => roles[role].some(({ said }) => said));
  const begin = !heard ? "Expects" : sure.length === Object.keys(whole).length ? "Reads" : "Reads so far";
  const first = !sure.length ? "Too early to say who does what."
    : fit(`${begin}: ${say(found, reading)} (${formatBelief(Object.values(reading), !rivals.length)}).`, rivals);
  const second = fit("", describeUndecided(found, position, best));
  const impossible = found.words[position].possible !== false ? []
    : [` Impossible in the world ${found.world.description.name}.`, " Impossible."];
  return `${first}\n${fit(second, impossible)}`;
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

// The reading that syntax indicates, if it differs, or the best other filler: longer wordings first.
function describeRival(found, position, reading, best) {
  const { words, world, heard, indicated } = found;
  const said = new Set(heard.slice(0, position + 1).map(({ word }) => word));
  const ordered = {};
  for (const [role, word] of Object.entries(indicated)) {
    const belief = words[position].roles[role].find(({ filler }) => filler === word);
    if (world.vocabulary.participants.includes(role) && said.has(word) && belief) ordered[role] = belief;
  }
  const both = Object.keys(ordered).filter((role) => role in reading);
  if (both.some((role) => ordered[role].filler !== reading[role].filler)) {
    const whole = ACTION in reading ? { [ACTION]: reading[ACTION], ...ordered } : ordered;
    const believed = formatBelief(Object.values(ordered), false);
    const names = (beliefs) => [...new Set(beliefs.map(({ filler }) => filler))].sort().join("\n");
    const swapped = names(Object.values(ordered)) === names(both.map((role) => reading[role]));
    const said = say(found, whole);
    return [` Syntax: ${said} (${formatBelief(Object.values(ordered), true)}).`,
      ` Syntax: ${said.replace(/\bthe /g, "")} (${believed}).`,
      ...(swapped ? [` Syntax: the reverse (${believed}).`] : []), ` Syntax differs (${believed}).`];
  }
  const others = Object.entries(reading).flatMap(([role, read]) => best(position, role, world.rules.top)
    .filter(({ filler }) => filler !== read.filler)
    .map((belief) => ({ role, belief, strength: Math.max(belief.bayes, belief.truth ?? 0) })));
  const { role, belief, strength } = others.reduce((a, b) => (b.strength > a.strength ? b : a));
  if (strength < world.rules.rival) return [];
  const exchanged = exchange(found, position, reading, role, belief);
  const [name, brief] = exchanged ? [`: ${say(found, { ...reading, ...exchanged })}`, "the reverse"]
    : [` ${role}: ${nameOf(found, role, belief)}`, belief.filler];
  const rival = exchanged ? Object.values(exchanged) : [belief];
  const believed = formatBelief(rival, false);
  return [` Rival${name} (${formatBelief(rival, true)}).`, ` Rival${name} (${believed}).`,
    ` Rival: ${brief} (${believed}).`];
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

// Names the role furthest from the truth among those that are open, to the networks or in truth; longer
// wordings first: with more digits of exact probabilities, with fewer, and with one filler alone.
function describeUndecided({ words, world }, position, best) {
  const { settled, top } = world.rules;
  let [role, chosen, rank] = [null, null, [-1, -1]];
  world.description.roles.forEach((each, r) => {
    const two = chooseTwo(best(position, each, top));
    if (two[0].bayes >= settled && (two[0].truth ?? 1) >= settled) return;
    const gap = Math.max(0, ...two.map(({ bayes, truth }) => (truth === null ? 0 : Math.abs(bayes - truth))));
    const next = [gap, words[position].entropy[r]];
    if (next[0] > rank[0] || (next[0] === rank[0] && next[1] > rank[1])) [role, chosen, rank] = [each, two, next];
  });
  if (!chosen) return ["Nothing is undecided."];
  return [[1, chosen], [0, chosen], [0, chosen.slice(0, 1)]].map(([digits, named]) => {
    const said = named.map(({ filler, bayes }) => `${filler} ${formatPercent(bayes)}`).join(" or ");
    const known = named.filter(({ truth }) => truth !== null);
    const exact = known.map(({ truth }) => formatPercent(truth, digits)).join(" or ");
    return `${chosen[0].bayes < settled ? "Undecided" : "Too sure of the"} ${role}: ${said}${
      exact && ` (exact: ${exact})`}.`;
  });
}

// The filler believed most, and the likeliest in truth or else the next in belief.
function chooseTwo(beliefs) {
  const [first, ...others] = [...beliefs].sort((a, b) => b.bayes - a.bayes);
  const likely = beliefs.reduce((a, b) => ((b.truth ?? 0) > (a.truth ?? 0) ? b : a));
  return likely !== first && likely.truth ? [first, likely] : [first, ...others.slice(0, 1)];
}

// How much of the doubt after a word lies in the words, between networks and within each.
export function describeDoubt(answer, position) {
  const { words, between, within } = splitDoubt(answer, position);
  const number = answer.networks.length;
  return number > 1 ? `Doubt: ${formatPercent(words)} in the words, ${formatPercent(between)} between the ${
    number} networks, ${formatPercent(within)} within each.`
    : `Doubt: ${formatPercent(words)} in the words, ${formatPercent(within)} within the network; only one was asked.`;
}

// The same as shares of the uncertainty, whose `total` is in nats.
export function splitDoubt({ words, networks }, position) {
  const { entropy: total, epistemic } = words[position];
  const inside = networks.reduce((sum, one) => sum + one.words[position].epistemic, 0) / networks.length;
  const share = total > 0 ? epistemic / total : 0;
  const between = total > 0 && networks.length > 1 ? Math.max(0, epistemic - inside) / total : 0;
  return { total, words: 1 - share, between, within: share - between };
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
function formatPercent(value, digits = 0) {
  if (value === 0) return "0 %";
  if (value < 0.0001) return "< 0.01 %";
  if (value > 0.999) return "> 99.9 %";
  if (value < 0.01) return `${Number((100 * value).toPrecision(2))} %`;
  return `${roundEven(100 * value, value > 0.99 ? 1 : digits)} %`;
}

// Rounds as Python does: ties go to the even digit.
function roundEven(value, digits) {
  const scaled = value * 10 ** digits;
  const below = Math.floor(scaled);
  return scaled - below === 0.5 && below % 2 === 0 ? (below / 10 ** digits).toFixed(digits)
    : value.toFixed(digits);
}
