// network.js: the Sentence Gestalt network, as equivocal/asking/network.py computes it.
//
//   h_t = σ(Σ W_i + g_{t−1} V + b₁)    g_t = σ(h_t U + b₂)    ψ = σ(g_t A + p B + b₃)
//
// `weights` are those of a network file: { name: { shape, data } }, matrices row by row.

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
