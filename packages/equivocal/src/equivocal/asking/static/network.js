// network.js: Sentence Gestalt networks and what they believe after each word, alone and together, as
// equivocal/asking computes it (ensembles.py). Matrices are flat, row by row.
//
//   h_t = σ(Σ W_i + g_{t−1} V + b₁)    g_t = σ(h_t U + b₂)    ψ = (σ(g_t A + p B + b₃), 1)
//
// The weights of output unit k are N(θ_k + δ_k, v R²) with R = I − Σ a u uᵀ: θ_k is trained, δ_k the
// shift that the data made, v the prior's variance, and u the few directions in which the data changed
// it. So the unit's logit is N(μ, s²) over the last layers of one network; several networks are a
// mixture with equal weights.

const LEVEL = 0.9; // of the intervals
const QUANTILE = 1.6448536269514722; // Φ(1.64…) = (1 + LEVEL) / 2
const HALVINGS = 40; // of the interval in which a quantile is sought
// 2λ and w of the quadrature
const NODES = [
  [0.635143518, 0.000226395627], [0.807403266, 0.01068688], [1.02530622, 0.091364868],
  [1.3161118, 0.265246421], [1.70884514, 0.34150514], [2.228338, 0.21828647],
  [2.88763356, 0.0654852986], [3.70568824, 0.00705564255], [4.75907898, 0.000142893565],
];
const DENSITY = 1 / Math.sqrt(2 * Math.PI);

export const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const sigmoid = (value) => (value < 0 ? Math.exp(value) / (1 + Math.exp(value)) : 1 / (1 + Math.exp(-value)));

// For the constituents `pairs`, [word, marker] token numbers (-1: none): [{ all, alone }, …], one entry
// for each word. `all` is what the networks say together and `alone` what each says: { update, roles,
// entropy, epistemic }, where `roles` has a belief for every candidate of each role, and the last two a
// number for each role.
export function believe(world, pairs, step) {
  const { candidates, places } = world.vocabulary;
  const heard = world.networks.map((network) => {
    const gestalts = hear(network.weights, pairs);
    return { network, gestalts, updates: measureUpdates(gestalts), momentsOf: layersAt(network, step, world.prior_variance) };
  });
  return pairs.map((_, t) => {
    const psis = heard.map(({ network, gestalts }) => probe(network.weights, gestalts[t], candidates.length));
    const moments = candidates.map((fillers, r) => fillers.map((filler) =>
      heard.map(({ momentsOf }, n) => momentsOf(psis[n][r], places[filler]))));
    const voice = (choose) => {
      const roles = moments.map((fillers) => fillers.map((each) => joinBeliefs(choose(each))));
      const sum = (name) => roles.map((beliefs) => beliefs.reduce((total, belief) => total + belief[name], 0));
      return { roles, update: meanOf(choose(heard).map(({ updates }) => updates[t])),
        entropy: sum("entropy"), epistemic: sum("epistemic") };
    };
    return { all: voice((each) => each), alone: heard.map((_each, n) => voice((each) => [each[n]])) };
  });
}

// The gestalt after each constituent.
function hear(weights, pairs) {
  const silence = new Float64Array(weights["update.gestalt_bias"].length);
  const gestalts = [];
  for (const tokens of pairs) {
    const input = Float64Array.from(weights["update.hidden_bias"]);
    for (const token of tokens) if (token >= 0) addRow(input, weights["update.token_weight"], token);
    addProduct(input, gestalts.at(-1) ?? silence, weights["update.recurrent_weight"]);
    const gestalt = Float64Array.from(weights["update.gestalt_bias"]);
    addProduct(gestalt, input.map(sigmoid), weights["update.gestalt_weight"]);
    gestalts.push(gestalt.map(sigmoid));
  }
  return gestalts;
}

// (ψ, 1) for one gestalt and each role.
function probe(weights, gestalt, roles) {
  const fromGestalt = Float64Array.from(weights["query.hidden_bias"]);
  addProduct(fromGestalt, gestalt, weights["query.gestalt_weight"]);
  return Array.from({ length: roles }, (_, role) => {
    const input = fromGestalt.slice();
    addRow(input, weights["query.probe_weight"], role);
    return Float64Array.from([...input.map(sigmoid), 1]);
  });
}

// How far each word moved the gestalt, starting from zero.
const measureUpdates = (gestalts) => gestalts.map((gestalt, t) => gestalt.reduce((sum, value, i) =>
  sum + Math.abs(value - (t ? gestalts[t - 1][i] : 0)), 0));

function addRow(out, matrix, row) {
  const start = row * out.length;
  for (let i = 0; i < out.length; i += 1) out[i] += matrix[start + i];
}

function addProduct(out, vector, matrix) {
  for (let r = 0; r < vector.length; r += 1) {
    const start = r * out.length;
    for (let i = 0; i < out.length; i += 1) out[i] += vector[r] * matrix[start + i];
  }
}

// A function of (ψ, unit) that gives { mle, mean, sd } of the unit's logit at a stop; without numbers of
// its own, the stop is the prior.
function layersAt({ weights, stops }, step, variance) {
  const [output, bias] = [weights["query.output_weight"], weights["query.output_bias"]];
  const layers = stops[step];

  return (psi, unit) => {
    let mle = 0;
    for (let i = 0; i < psi.length - 1; i += 1) mle += psi[i] * output[i * bias.length + unit];
    mle += bias[unit];
    const mean = layers ? mle + dot(psi, layers.shift, unit * psi.length) : mle;
    const left = layers ? reduce(psi, layers, unit) : psi;
    return { mle, mean, sd: Math.sqrt(variance * dot(left, left, 0)) };
  };
}

// R ψ
function reduce(psi, { starts, weight, directions }, unit) {
  const left = psi.slice();
  for (let k = starts[unit]; k < starts[unit + 1]; k += 1) {
    const along = weight[k] * dot(psi, directions, k * psi.length);
    for (let i = 0; i < psi.length; i += 1) left[i] -= along * directions[k * psi.length + i];
  }
  return left;
}

function dot(vector, data, start) {
  let sum = 0;
  for (let i = 0; i < vector.length; i += 1) sum += vector[i] * data[start + i];
  return sum;
}

// { mle, bayes, entropy, epistemic, moments } of networks with logits N(mean, sd²).
function joinBeliefs(moments) {
  let [bayes, expected, mle] = [0, 0, 0];
  for (const each of moments) {
    mle += sigmoid(each.mle) / moments.length;
    for (const [scale, weight] of NODES) {
      const kappa = Math.sqrt(each.sd * each.sd + scale * scale);
      const z = each.mean / kappa;
      bayes += (weight * normalCdf(z)) / moments.length;
      expected += (weight * scale * scale * DENSITY * Math.exp((-z * z) / 2)) / kappa / moments.length;
    }
  }
  const entropy = entr(bayes) + entr(1 - bayes);
  return { mle, bayes, entropy, epistemic: Math.max(0, entropy - expected), moments };
}

const entr = (p) => (p > 0 ? -p * Math.log(p) : 0);

// { low, high } of a belief. It takes most of the time, and is computed for listed beliefs only.
export function findInterval(moments) {
  const [low, high] = [-1, 1].map((sign) => sigmoid(findQuantile(moments, sign)));
  return { low, high };
}

// The quantile of the mixture lies between those of the networks, and is found by halving that interval.
function findQuantile(moments, sign) {
  const share = (1 + sign * LEVEL) / 2;
  const ends = moments.map(({ mean, sd }) => mean + sign * QUANTILE * sd);
  let [low, high] = [Math.min(...ends), Math.max(...ends)];
  for (let halving = 0; halving < HALVINGS && moments.length > 1; halving += 1) {
    const middle = (low + high) / 2;
    const below = meanOf(moments.map(({ mean, sd }) =>
      normalCdf((middle - mean) / Math.max(sd, Number.MIN_VALUE))));
    if (below < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

// Φ, to a relative error of 1.2e-7: the rational approximation of erfc in Numerical Recipes, § 6.2.
const ERFC = [-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
  1.48851587, -0.82215223, 0.17087277];

function normalCdf(x) {
  const z = Math.abs(x) * Math.SQRT1_2;
  const t = 1 / (1 + 0.5 * z);
  const sum = ERFC.reduceRight((total, c) => total * t + c, 0);
  const tail = (t * Math.exp(-z * z + sum)) / 2;
  return x < 0 ? tail : 1 - tail;
}
