// beliefs.js: the beliefs of Gaussian ensembles, as equivocal/asking/beliefs.py computes them.
//
// The logit of an answer is N(μ, s²) over the last layers of one network; several networks are a
// mixture with equal weights.

import { sigmoid } from "./network.js";

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

// { bayes, entropy, epistemic } of networks with logits N(mean, sd²), given as [{ mean, sd }, …];
// `each` has { bayes, expected } of every network alone.
export function joinBeliefs(moments) {
  const each = moments.map(({ mean, sd }) => average(mean, sd));
  const bayes = meanOf(each, "bayes");
  const entropy = entr(bayes) + entr(1 - bayes);
  return { bayes, entropy, epistemic: Math.max(0, entropy - meanOf(each, "expected")), each };
}

// { low, high } of the same networks. It takes most of the time, and few answers are shown.
export function findInterval(moments) {
  const [low, high] = [-1, 1].map((sign) => sigmoid(moments.length > 1 ? findQuantile(moments, sign)
    : moments[0].mean + sign * QUANTILE * moments[0].sd));
  return { low, high };
}

const meanOf = (all, name) => all.reduce((sum, one) => sum + one[name], 0) / all.length;

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

export const entr = (p) => (p > 0 ? -p * Math.log(p) : 0);

// It lies between the quantiles of the networks, and is found by halving that interval.
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

export function normalCdf(x) {
  const z = Math.abs(x) * Math.SQRT1_2;
  const t = 1 / (1 + 0.5 * z);
  const sum = ERFC.reduceRight((total, c) => total * t + c, 0);
  const tail = (t * Math.exp(-z * z + sum)) / 2;
  return x < 0 ? tail : 1 - tail;
}
