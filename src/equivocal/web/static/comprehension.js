// comprehension.js: what the networks of a world believe after each word, as
// equivocal/asking/comprehender.py computes it.

import { joinBeliefs } from "./beliefs.js";
import { layersAt, openNetworks } from "./layers.js";
import { hear, probe, semanticUpdates, sigmoid } from "./network.js";

// { words: [{ update, entropy, epistemic, roles: [[belief, …], …] }, …] } for the constituents
// `pairs`; the beliefs of a role are those of its candidates, in their order, without intervals.
export function believe(world, pairs, step, prior) {
  world.opened ??= openNetworks(world.tensors);
  const heard = world.opened.map((network) => {
    const gestalts = hear(network.weights, pairs);
    return { gestalts, updates: semanticUpdates(gestalts), weights: network.weights,
      moments: layersAt(network, prior, step) };
  });
  const { candidates, places } = world.vocabulary;
  const words = pairs.map((_, t) => {
    const psi = heard.map(({ weights, gestalts }) => probe(weights, gestalts[t], candidates.length));
    const roles = candidates.map((fillers, r) => fillers.map((filler) =>
      joinNetworks(heard.map(({ moments }, n) => moments(psi[n][r], places[filler])))));
    const perRole = (name) => meanOf(roles.map((beliefs) =>
      beliefs.reduce((sum, belief) => sum + belief[name], 0)));
    return { roles, update: meanOf(heard.map(({ updates }) => updates[t])),
      entropy: perRole("entropy"), epistemic: perRole("epistemic") };
  });
  return { words };
}

function joinNetworks(moments) {
  const joined = joinBeliefs(moments);
  const mles = moments.map(({ mle }) => sigmoid(mle));
  return { mle: meanOf(mles), ...joined, moments,
    networks: joined.each.map(({ bayes }, n) => ({ mle: mles[n], bayes })) };
}

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
