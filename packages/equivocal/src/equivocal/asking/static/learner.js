// learner.js: what the sentences that networks heard warrant: the beliefs of a learner who counted them, as
// equivocal/world/learner.py and hearing.py compute them, for `learner` of warranted.py.
//
//   P(words, event) = Σ_terms ± P(noise) P(construction | action) Π_r u_r(f_r) P(f_r | f_1 … f_{r−1})
//
// Every choice has a Dirichlet prior of total α, updated by counts. A belief is the sum with posterior
// means; its interval is that of the same sums for draws of all choices. A vector has an entry for each
// draw, or one for the means. Draws begin at a seed made of the choice, so that they are always the same.

const [SAID, SKIPPED] = ["said", "skipped"];
const ABSENT = -1; // in place of a filler
const ANY = null; // in place of the filler asked for, where it comes later
const MOST_DRAWS = 200_000; // more keep their means, as in learner.py
const FEWEST = 1e-300;
const ENDS = [0.05, 0.95]; // of the 90 % interval

// For the constituents `pairs`: a list by role of a function of a filler's number that gives [belief, low,
// high], or of null where no construction has these words. Null before the action has been heard, or
// without a learner.
export function findWarranted({ learner, grammar, roles }, pairs) {
  if (!learner || !pairs.some(([word]) => grammar.actions.includes(word))) return null;
  const terms = [...listTerms(grammar, learner.disturbances, pairs)];
  const [means, draws] = [1, learner.draws].map((size) => new Choices(learner, grammar, size));
  return roles.map((_, role) => {
    const [mean, drawn] = [means, draws].map((choices) => share(terms, choices, role));
    return mean && drawn && ((filler) => [mean(filler)[0], ...ENDS.map((end) => quantile(drawn(filler), end))]);
  });
}

// The share of each filler, by draw; words with the same unit count together. Null if nothing fits.
function share(terms, choices, role) {
  const sums = new Map();
  for (const term of terms) {
    const noise = term.noise ? choices.noise(term.noise) : choices.ones;
    for (const [word, sum] of addUp(term, choices, role)) {
      if (word !== ABSENT) add(sums, word, sum, noise.map((value) => value * term.factor));
    }
  }
  const total = choices.ones.map((_, draw) => [...sums.values()].reduce((all, sum) => all + sum[draw], 0));
  if (!total.every((value) => value > 0)) return null;
  return (filler) => total.map((all, draw) =>
    choices.learner.meanings[filler].reduce((own, word) => own + (sums.get(word)?.[draw] ?? 0), 0) / all);
}

function quantile(values, at) {
  const sorted = values.slice().sort();
  const place = at * (sorted.length - 1);
  const below = Math.floor(place);
  return sorted[below] + (place - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}

// ---- in which ways the words can have come about

// A term is { meant, noise, factor, roles }: a construction, at most one noise, and for each role that is
// not open [SAID or SKIPPED, the words that it may have (null: all)].
function* listTerms({ constructions, plain }, disturbances, pairs) {
  for (let meant = 0; meant < plain; meant += 1) {
    const noise = disturbances.filter((each) => each.meant === meant);
    for (const roles of align(constructions[meant], pairs)) {
      yield { meant, noise: "", factor: 1, roles };
      yield* disturb(constructions[meant], noise, roles, -1);
    }
    for (const each of noise) {
      for (const roles of align(constructions[each.heard], pairs)) {
        yield* disturb(constructions[meant], [each], roles, 1);
      }
    }
  }
}

function* disturb({ order }, noise, roles, factor) {
  for (const { meant, name, needs } of noise) {
    const needed = { ...roles };
    for (const [role, words] of needs) {
      const [kind, said] = roles[role] ?? [order.includes(role) ? SAID : SKIPPED, words];
      needed[role] = [kind, said ? said.filter((word) => words.includes(word)) : words];
    }
    if (needs.every(([role]) => needed[role][0] === SAID && needed[role][1].length)) {
      yield { meant, noise: name, factor, roles: needed };
    }
  }
}

// The roles in which a construction, from a place of its order on, can have these words.
function* align({ order, markers }, pairs, place = 0) {
  if (!pairs.length) yield {};
  else if (place < order.length) {
    const role = order[place];
    for (const rest of align({ order, markers }, pairs, place + 1)) yield { [role]: [SKIPPED, null], ...rest };
    const [[word, marker], ...left] = pairs;
    if (markers[role][word] !== marker) return;
    for (const rest of align({ order, markers }, left, place + 1)) yield { [role]: [SAID, [word]], ...rest };
  }
}

// ---- the sum of one term over all events

// Map(filler of the role that is asked for → sum).
function addUp(term, choices, asked) {
  const { order, support, tree } = choices.learner;
  const factors = order.map((role) => choices.factor(term, role));
  const at = order.indexOf(asked);
  const last = Math.max(at, factors.findLastIndex(Boolean));
  const alike = []; // sums in contexts that were never heard and keep their means, by place

  // `contexts` says among how many that were never heard this one is.
  function visit(place, node, path, contexts) {
    if (place > last) return new Map([[ANY, choices.ones]]);
    const words = support[place];
    const drawn = node || (choices.size > 1 && choices.size * contexts * words.length <= MOST_DRAWS);
    if (!drawn && alike[place]) return alike[place];
    const chance = choices.dirichlet(drawn ? `4 ${path}` : null,
      words.map((word) => (node?.get(word)?.count ?? 0) + choices.learner.alpha / words.length));
    const weights = words.map((word, i) => (factors[place] ? multiply(chance[i], factors[place](word)) : chance[i]));
    const unheard = words.filter((word, i) => !node?.get(word)?.next && weights[i].some(Boolean)).length;
    const sums = new Map();
    words.forEach((word, i) => {
      if (!weights[i].some(Boolean)) return;
      const next = node?.get(word)?.next;
      const rest = visit(place + 1, next, [...path, word], next ? 1 : drawn ? contexts * unheard : Infinity);
      for (const [answer, sum] of rest) add(sums, place === at ? word : answer, sum, weights[i]);
    });
    if (!drawn) alike[place] = sums;
    return sums;
  }
  return visit(0, tree, [], 1);
}

function add(sums, key, sum, weight) {
  const own = sums.get(key) ?? new Float64Array(sum.length);
  for (let draw = 0; draw < own.length; draw += 1) own[draw] += sum[draw] * weight[draw];
  sums.set(key, own);
}

const multiply = (a, b) => a.map((value, draw) => value * b[draw]);

// Posterior means of all choices, or draws of them.
class Choices {
  constructor(learner, grammar, size) {
    learner.tree ??= growTree(learner);
    Object.assign(this, { learner, grammar, size, ones: new Float64Array(size).fill(1), kept: new Map() });
  }

  // A vector for each of some outcomes; without a key, the means.
  dirichlet(key, alpha) {
    const total = alpha.reduce((a, b) => a + b);
    if (key === null || this.size === 1) return alpha.map((each) => this.ones.map(() => each / total));
    if (!this.kept.has(key)) this.kept.set(key, drawShares(key, alpha, this.size));
    return this.kept.get(key);
  }

  // The probability of the first of some outcomes, the others being alike.
  beta(key, [yes, no], outcomes = 2) {
    const alpha = this.learner.alpha / outcomes;
    return this.dirichlet(key, [yes + alpha, no + alpha * (outcomes - 1)])[0];
  }

  // At most one noise strikes, so those of all sum to at most 1.
  noise(name) {
    const counts = Object.entries(this.learner.noise);
    const drawn = counts.map(([each, count]) => this.beta(`1 ${each}`, count, counts.length + 1));
    const own = drawn[counts.findIndex(([each]) => each === name)];
    return own.map((value, draw) => value / Math.max(1, drawn.reduce((sum, each) => sum + each[draw], 0)));
  }

  // What a filler of a role contributes to a term, as a function of the filler; null for 1.
  factor({ meant, roles }, role) {
    const { learner, grammar: { plain, constructions } } = this;
    const [kind, words] = roles[role] ?? [];
    const counts = learner.mentions[meant][role];
    const mention = kind && (Array.isArray(counts) ? this.beta(`2 ${meant} ${role}`, counts)
      : this.ones.map(() => counts));
    const none = this.ones.map(() => 0);
    const said = (word) => {
      if (!kind) return this.ones;
      if (word === ABSENT) return kind === SKIPPED ? this.ones : none;
      if (words && !words.includes(word)) return none;
      return kind === SAID ? mention : mention.map((value) => 1 - value);
    };
    const chosen = role === constructions[0].action && plain > 1;
    if (chosen) return (word) => multiply(said(word), this.construction(word, meant));
    return kind ? said : null;
  }

  // The probability of a construction, given the action.
  construction(action, number) {
    const counts = Object.entries(this.learner.shares[action]);
    const place = counts.findIndex(([each]) => Number(each) === number);
    if (place < 0) return this.ones.map(() => 0);
    const alpha = this.learner.alpha / counts.length;
    return this.dirichlet(`3 ${action}`, counts.map(([, count]) => count + alpha))[place];
  }
}

// Counts of a role's fillers after the same fillers of the roles before it: Map(filler → { count, next }).
function growTree({ rows, counts, order }) {
  const tree = new Map();
  counts.forEach((count, row) => {
    let node = tree;
    for (let place = 0; place < order.length; place += 1) {
      const filler = rows[row * order.length + place];
      if (!node.has(filler)) node.set(filler, { count: 0, next: place + 1 < order.length ? new Map() : null });
      node.get(filler).count += count;
      node = node.get(filler).next;
    }
  });
  return tree;
}

// ---- draws

function drawShares(key, alpha, size) {
  const random = makeRandom(key);
  const drawn = alpha.map((each) => Float64Array.from({ length: size }, () => drawGamma(each, random) + FEWEST));
  const totals = drawn[0].map((_, draw) => drawn.reduce((sum, each) => sum + each[draw], 0));
  return drawn.map((each) => each.map((value, draw) => value / totals[draw]));
}

// Marsaglia and Tsang's method; below 1, by a variate of α + 1.
function drawGamma(alpha, random) {
  if (alpha < 1) return drawGamma(alpha + 1, random) * random() ** (1 / alpha);
  const d = alpha - 1 / 3;
  for (;;) {
    const x = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
    const v = (1 + x / Math.sqrt(9 * d)) ** 3;
    if (v > 0 && Math.log(random()) < (x * x) / 2 + d * (1 - v + Math.log(v))) return d * v;
  }
}

// Uniform variates in (0, 1) from a text: splitmix32, begun at its FNV-1a hash.
function makeRandom(text) {
  let state = 0x811c9dc5;
  for (const letter of text) state = Math.imul(state ^ letter.codePointAt(0), 0x01000193);
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32 + 2 ** -33;
  };
}
