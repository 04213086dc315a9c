// beliefs.js: what an ensemble believes of one filler, as equivocal/asking/network.py computes it.

import { sigmoid } from "./network.js";

const LEVEL = 0.9; // of the intervals

// { bayes, low, high, entropy, epistemic } of the logits of all comprehenders, which are sorted.
export function summariseLogits(logits) {
  logits.sort();
  let [bayes, expected] = [0, 0];
  for (const value of logits) {
    // e^−|a| serves the answer and its entropy alike: H = |a| e/(1 + e) + log(1 + e)
    const magnitude = Math.abs(value);
    const small = Math.exp(-magnitude);
    const unlikely = small / (1 + small);
    bayes += value > 0 ? 1 - unlikely : unlikely;
    expected += magnitude * unlikely + Math.log1p(small);
  }
  bayes /= logits.length;
  const entropy = entr(bayes) + entr(1 - bayes);
  return {
    bayes, entropy, low: sigmoid(quantile(logits, (1 - LEVEL) / 2)),
    high: sigmoid(quantile(logits, (1 + LEVEL) / 2)),
    epistemic: Math.max(0, entropy - expected / logits.length),
  };
}

export const entr = (p) => (p > 0 ? -p * Math.log(p) : 0);

function quantile(ordered, share) {
  const place = share * (ordered.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, ordered.length - 1);
  return ordered[below] + (ordered[above] - ordered[below]) * (place - below);
}
