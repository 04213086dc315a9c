// beliefs.js: the beliefs of the networks of a world after each word, and of all together, as
// equivocal/asking computes them (beliefs.py, ensembles.py).
//
// The logit of an answer is N(μ, s²) over the last layers of one network; several networks are a
// mixture with equal weights.

import { hear, layersAt, openNetworks, probe, semanticUpdates, sigmoid } from "./network.js";

const LEVEL = 0.9; // of the intervals
const QUANTILE = 1.6448536269514722; // Φ(1.64…) = (1 + LEVEL) / 2
const HALVINGS = 30; // of the interval in which a quantile is sought
// 2λ and w of the quadrature
const NODES = [
  [0.635143518, 0.000226395627], [0.807403266, 0.01068688], [1.02530622, 0.091364868],
  [1.3161118, 0.265246421], [1.70884514, 0.34150514], [2.228338, 0.21828647],
  [2.88763356, 0.0654852986], [3.70568824, 0.00705564255], [4.75907898, 0.000142893565],
];
const DENSITY = 1 / Math.sqrt(2 * Math.PI);

// { bayes, entropy, epistemic } of networks with logits N(mean, sd²), given as [{ mean, sd }, …].
function joinBeliefs(moments) {
  const each = moments.map(({ mean, sd }) => average(mean, sd));
  const bayes = meanOf(each.map((one) => one.bayes));
  const entropy = entr(bayes) + entr(1 - bayes);
  return { bayes, entropy, epistemic: Math.max(0, entropy - meanOf(each.map((one) => one.expected))) };
}

// { low, high } of the same networks. This takes most of the time, and is computed for listed beliefs only.
function findInterval(moments) {
  const [low, high] = [-1, 1].map((sign) => sigmoid(moments.length > 1 ? findQuantile(moments, sign)
    : moments[0].mean + sign * QUANTILE * moments[0].sd));
  return { low, high };
}

// E[y] and E[H(y)] of y = σ(a).
function average(mean, sd) {
  let [bayes, expected] = [0, 0];
  for (const [scale, weight] of NODES) {
    const kappa = Math.sqrt(sd * sd + scale * scale);
    const z = mean / kappa;
    bayes += weight * normalCdf(z);
    expected += (weight * scale * scale * DENSITY * Math.exp((-z * z) / 2)) / kappa;
  }
  return { bayes, expected };
}

const entr = (p) => (p > 0 ? -p * Math.log(p) : 0);

// The quantile of the mixture lies between those of the networks, and is found by halving that interval.
function findQuantile(moments, sign) {
  const share = (1 + sign * LEVEL) / 2;
  const ends = moments.map(({ mean, sd }) => mean + sign * QUANTILE * sd);
  let [low, high] = [Math.min(...ends), Math.max(...ends)];
  for (let i = 0; i < HALVINGS; i += 1) {
    const middle = (low + high) / 2;
    const below = moments.reduce((sum, { mean, sd }) =>
      sum + normalCdf((middle - mean) / Math.max(sd, Number.MIN_VALUE)), 0) / moments.length;
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

// For the constituents `pairs`: [{ all, alone }, …], one entry for each word. `all` is what the
// networks say together and `alone` what each says: { update, roles, entropy, epistemic }, where
// `roles` has a belief for every candidate of each role, and the others a number for each role.
export function believe(world, pairs, step, prior) {
  world.opened ??= openNetworks(world.tensors);
  const { candidates, places } = world.vocabulary;
  const heard = world.opened.map((network) => {
    const gestalts = hear(network.weights, pairs);
    return { network, gestalts, updates: semanticUpdates(gestalts),
      momentsOf: layersAt(network, prior, step) };
  });
  return pairs.map((_, t) => {
    const alone = heard.map(({ network, gestalts, updates, momentsOf }) => {
      const psi = probe(network.weights, gestalts[t], candidates.length);
      const roles = candidates.map((fillers, r) => fillers.map((filler) => {
        const moments = momentsOf(psi[r], places[filler]);
        return { ...joinBeliefs([moments]), mle: sigmoid(moments.mle), moments: [moments] };
      }));
      return sumUp(roles, updates[t]);
    });
    return { alone, all: alone.length > 1 ? join(alone) : alone[0] };
  });
}

function join(alone) {
  const roles = alone[0].roles.map((beliefs, r) => beliefs.map((_, c) => {
    const each = alone.map((one) => one.roles[r][c]);
    const moments = each.map((belief) => belief.moments[0]);
    return { ...joinBeliefs(moments), mle: meanOf(each.map(({ mle }) => mle)), moments };
  }));
  return sumUp(roles, meanOf(alone.map(({ update }) => update)));
}

function sumUp(roles, update) {
  const perRole = (name) => roles.map((beliefs) =>
    beliefs.reduce((sum, belief) => sum + belief[name], 0));
  return { roles, update, entropy: perRole("entropy"), epistemic: perRole("epistemic") };
}

// A belief as an answer lists it, with its interval.
export function show({ filler, mle, bayes, moments, truth, said }) {
  return { filler, mle, bayes, ...findInterval(moments), truth, said };
}

export const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
