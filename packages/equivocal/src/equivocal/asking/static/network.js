// network.js: Sentence Gestalt networks and their last layers, as equivocal/asking/ensembles.py computes them
// and docs/stored_networks.md stores them: { name: { shape, data } }, matrices row by row.
//
//   h_t = σ(Σ W_i + g_{t−1} V + b₁)    g_t = σ(h_t U + b₂)    ψ = σ(g_t A + p B + b₃)
//
// The weights of output unit k are N(θ_k + δ_k, v R_k²) with R_k = I − Σ_j w_j d_j d_jᵀ: θ_k is trained,
// δ_k the shift that the data made, v the prior's variance, and d_j the few directions in which the
// data changed the prior.

export const sigmoid = (value) => (value < 0
  ? Math.exp(value) / (1 + Math.exp(value)) : 1 / (1 + Math.exp(-value)));

// The gestalt after each constituent, given as [word, marker] token numbers (-1: none).
export function hear(weights, pairs) {
  const silence = new Float64Array(weights["update.gestalt_bias"].data.length);
  const gestalts = [];
  for (const tokens of pairs) {
    const input = Float64Array.from(weights["update.hidden_bias"].data);
    for (const token of tokens) if (token >= 0) addRow(input, weights["update.token_weight"], token);
    addProduct(input, gestalts.at(-1) ?? silence, weights["update.recurrent_weight"]);
    const gestalt = Float64Array.from(weights["update.gestalt_bias"].data);
    addProduct(gestalt, input.map(sigmoid), weights["update.gestalt_weight"]);
    gestalts.push(gestalt.map(sigmoid));
  }
  return gestalts;
}

// (ψ, 1) for one gestalt and each of the first `roles` probes; there is a row of weights for each.
export function probe(weights, gestalt, roles) {
  const fromGestalt = Float64Array.from(weights["query.hidden_bias"].data);
  addProduct(fromGestalt, gestalt, weights["query.gestalt_weight"]);
  return Array.from({ length: roles }, (_, role) => {
    const input = fromGestalt.slice();
    addRow(input, weights["query.probe_weight"], role);
    const psi = new Float64Array(input.length + 1);
    psi.set(input.map(sigmoid));
    psi[input.length] = 1;
    return psi;
  });
}

// How far each word moved the gestalt, starting from zero.
export function semanticUpdates(gestalts) {
  return gestalts.map((gestalt, t) => gestalt.reduce((sum, value, i) =>
    sum + Math.abs(value - (t ? gestalts[t - 1][i] : 0)), 0));
}

function addRow(out, { data }, row) {
  const start = row * out.length;
  for (let i = 0; i < out.length; i += 1) out[i] += data[start + i];
}

function addProduct(out, vector, { data }) {
  for (let r = 0; r < vector.length; r += 1) {
    const value = vector[r];
    const start = r * out.length;
    for (let i = 0; i < out.length; i += 1) out[i] += value * data[start + i];
  }
}

// The networks of a file: [{ weights, … }], each with what `layersAt` needs.
export function openNetworks(tensors) {
  const header = JSON.parse(tensors.metadata.equivocal);
  return Array.from({ length: header.networks }, (_, number) => {
    const own = Object.fromEntries(Object.entries(tensors)
      .filter(([name]) => name.startsWith(`${number}/`))
      .map(([name, tensor]) => [name.slice(`${number}/`.length), tensor]));
    return { header, weights: own, starts: runningSum(own.rank.data) };
  });
}

function runningSum(ranks) {
  const starts = new Uint32Array(ranks.length + 1);
  for (let i = 0; i < ranks.length; i += 1) starts[i + 1] = starts[i] + ranks[i];
  return starts;
}

// A function of (ψ, unit) that gives mean and standard deviation of the unit's logit at one stop.
export function layersAt({ header, weights, starts }, prior, step) {
  const { shape: [, stops, units, size], data: shifts } = weights.shift;
  const { data: output } = weights["query.output_weight"];
  const { data: bias } = weights["query.output_bias"];
  const place = header.prior_variances.indexOf(prior) * stops + header.stops.indexOf(step);

  function trained(psi, unit) {
    let sum = bias[unit];
    for (let i = 0; i < size - 1; i += 1) sum += psi[i] * output[i * units + unit];
    return sum;
  }

  function moments(psi, unit) {
    const mle = trained(psi, unit);
    if (step === 0) return { mle, mean: mle, sd: Math.sqrt(prior * dot(psi, psi, 0, size)) };
    const at = place * units + unit;
    const mean = mle + dot(psi, shifts, at * size, size);
    const left = reduce(psi, weights, starts[at], starts[at + 1], size);
    return { mle, mean, sd: Math.sqrt(prior * dot(left, left, 0, size)) };
  }
  return moments;
}

// R ψ
function reduce(psi, { directions, weight }, from, to, size) {
  const left = psi.slice();
  for (let k = from; k < to; k += 1) {
    const along = weight.data[k] * dot(psi, directions.data, k * size, size);
    for (let i = 0; i < size; i += 1) left[i] -= along * directions.data[k * size + i];
  }
  return left;
}

function dot(vector, data, start, size) {
  let sum = 0;
  for (let i = 0; i < size; i += 1) sum += vector[i] * data[start + i];
  return sum;
}

// The sampler's time τ at a step; null where it has converged.
export function timeAt({ header, weights }, prior, step) {
  if (step === 0) return 0;
  const { shape: [, steps], data } = weights.time;
  const place = header.stops.indexOf(step);
  return place < steps ? data[header.prior_variances.indexOf(prior) * steps + place] : null;
}
