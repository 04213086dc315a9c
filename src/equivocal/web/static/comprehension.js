// comprehension.js: what the networks of a world believe after each word, as
// equivocal/asking/listening.py computes it.

import { findInterval, joinBeliefs } from "./beliefs.js";
import { layersAt, openNetworks } from "./layers.js";
import { hear, probe, semanticUpdates, sigmoid } from "./network.js";

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

// A belief as an answer lists it: intervals take most of the time, and few are listed.
export function show({ filler, mle, bayes, moments, truth, said }) {
  return { filler, mle, bayes, ...findInterval(moments), truth, said };
}

export const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
