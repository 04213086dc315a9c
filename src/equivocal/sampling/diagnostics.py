"""Whether a Gaussian is enough: how far the posterior's variances are from those of N(m, P).

In coordinates z of the Gaussian its covariance is I. By Stein's identity the posterior's own
exceeds it, on the average over the D directions, by docs/maths.md (27),

    shift = (E[z·∇u] − |E[∇u]|²) / D,          u(z) = ½|z|² − U(z),

where u is constant if the posterior is the Gaussian. Where u varies little, the shift is E|∇u|²/D
under the Gaussian, which a few draws from it tell. Outputs for which that is not small (`SLIGHT`)
get a few short chains of the exact posterior (`engine.hamiltonian`). Four things keep the noise of
their estimate down:

- z·∇u has little of it where u is small, other than |z|² − D has.
- Chains run in pairs with opposite momenta, whose odd parts cancel; |E[∇u]|² is a product of
  averages over two halves of the pairs, so that their noise does not add to it.
- Every point of a trajectory counts, weighed by how likely the trajectory is to pass its test
  (`hamiltonian._weigh_path`): two fifths of the variance less, with the same gradients.
- Effort goes where it decides: outputs whose estimate lies near the limit share all chains of a
  second look, and those still near it the chains of a third. Their new chains go on from where
  those before ended, and need no warm-up.

The same functions of a chain of the Gaussian with the same momenta would be control variates with
known means. They do not help: the Gaussian reaches where rows are no longer saturated and ∇u is
large, and the posterior does not.

`benchmarks/sampler/verdict.py` compares the estimate with long chains. Above `TOO_FAR` the verdict
says that a Gaussian is not enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.hamiltonian import (
    Chains,
    Rule,
    Target,
    centre,
    draw_gradients,
    make_target,
    start_chains,
    watch_chains,
)
from equivocal.sampling.engine.placement import find_largest_anywhere
from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import Outcome, RunSettings, make_keys
from equivocal.sampling.engine.shapes import PRNGKey
from equivocal.sampling.engine.streaming import iterate_outputs

TOO_FAR = 1 / 8  # of a variance
CALLED_FAR = 0.95 * TOO_FAR  # a miss is worse than a false alarm, and far outputs are fewer
SLIGHT = 0.01  # a shift that draws from the Gaussian are enough for
NUM_DRAWS = 8
NUM_CHAINS = 4  # the fewest with two halves of pairs; longer chains tell more than many
FEWEST, MOST = 6, 384  # transitions
SKIPPED = 2  # of them: the chains are still near their starts
PER_FEATURE = 1 / 12  # transitions; the flow's products grow with D as well, and cost thrice these
WORK = 4e6  # rows × outputs × draws that take no time worth saving
# Transitions of the looks, as shares of all; a factor from the limit that asks for the next look.
LOOKS, NEAR = (3 / 8, 1 / 4, 1 / 4), (1.5, 1.25)
FEWEST_SEEN = 3  # transitions of the first look


def is_far(outcome: Outcome) -> np.ndarray:
    """Return for which outputs a Gaussian is not enough, (K,)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(outcome.covariance_shift > CALLED_FAR)


def diagnose_gaussian(
    problem: Problem, outcome: Outcome, settings: RunSettings, *, slight: float = SLIGHT
) -> np.ndarray:
    """Return the covariance shift of each output, maths (27); NaN but for Gaussians of full rank.

    Outputs get chains unless draws from the Gaussian estimate a shift below `slight`.
    """
    K, D = outcome.mean.shape
    if outcome.factor is None or outcome.factor.shape[-1] < D:
        return np.full(K, np.nan)
    joint = problem.likelihood is Likelihood.SOFTMAX
    rule, every = Rule(adapt=True, mirrored=True, watched=True, joint=joint), np.arange(K)
    shift = np.zeros(K)
    for own, target in _iterate_targets(problem, outcome, settings, every):
        keys = make_keys(settings.seed + 1, own)  # other draws than the particles
        z, gradient = map(np.asarray, draw_gradients(keys, target, NUM_DRAWS, rule))
        shift[own] = ((z - gradient) ** 2).mean(axis=(1, 2))
    shift = np.full(K, shift.mean()) if joint else shift
    doubtful = near = np.flatnonzero(~(shift < slight))  # NaN is doubtful, too
    tally = Tally(np.zeros(K), np.zeros((K, 2, D)), np.zeros(K, int))
    first = 1 + SKIPPED
    for number, factor in zip(_count_transitions(problem), (*NEAR, 1.0), strict=True):
        if not len(near):
            break
        # streamed rows have their own order, and are read for all outputs alike
        near = near if problem.in_memory and not joint else every
        # as many chains as at the first look, dealt evenly to those that are left
        slots = np.tile(near, max(len(doubtful) // len(near), 1))
        _watch(problem, outcome, settings, rule, slots, tally, first, number)
        first += number
        shift[near] = estimate_shift(tally, near, joint)
        with np.errstate(divide="ignore"):
            near = near[np.abs(np.log(shift[near] / CALLED_FAR)) < np.log(factor)]
    return shift


@dataclass
class Tally:
    """What the chains of all outputs have told so far."""

    inward: np.ndarray  # (K,), sums of z·∇u over chains and transitions
    bend: np.ndarray  # (K, 2, D), sums of ∇u over either half of the pairs
    number: np.ndarray  # (K,), chains × transitions
    chains: Chains | None = None  # where they ended, (K, …)

    def keep(self, outputs: np.ndarray, which: np.ndarray, ended: Chains) -> None:
        """Keep where chains of some outputs ended, one set for each of them."""
        if self.chains is None:
            K = len(self.number)
            self.chains = Chains(*(np.zeros((K, *part.shape[1:]), part.dtype) for part in ended))
        for kept, part in zip(self.chains, ended, strict=True):
            np.asarray(kept)[outputs[which]] = part[which]


def _count_transitions(problem: Problem) -> list[int]:
    """Return how many transitions each look takes, alike however the rows are dealt."""
    rows_everywhere = float(find_largest_anywhere(problem.num_rows)) * jax.process_count()
    cheap = WORK / (rows_everywhere * problem.num_outputs * NUM_CHAINS)
    number = np.clip(max(problem.num_features * PER_FEATURE, cheap), FEWEST, MOST)
    first, *others = (int(share * int(number)) for share in LOOKS)
    return [max(first, FEWEST_SEEN), *others]


def _watch(
    problem: Problem,
    outcome: Outcome,
    settings: RunSettings,
    rule: Rule,
    slots: np.ndarray,
    tally: Tally,
    first: int,
    number: int,
) -> None:
    """Run the chains of some outputs, each as often as it is listed, and add to the tally."""
    K, D = outcome.mean.shape
    copies = np.zeros(len(slots), int)
    for k in np.unique(slots):
        own = slots == k
        copies[own] = np.arange(own.sum())
    inward, bend = np.zeros(len(slots)), np.zeros((len(slots), 2, D))
    ended = tally.chains
    for some, target in _iterate_targets(problem, outcome, settings, slots):
        own = slots[some]
        keys = make_keys(settings.seed + 1, own + K * copies[some])
        if ended is None:
            chains = start_chains(keys, target, NUM_CHAINS, rule)
            chains, _ = watch_chains(keys, chains, target, 1, SKIPPED, rule)
        else:
            chains = Chains(*(jnp.asarray(part[own]) for part in ended))
        chains, path = watch_chains(keys, chains, target, first, number, rule)
        inward[some] = np.asarray(path.inward, float).sum(axis=(1, 2))
        pairs = np.asarray(path.bend, float).reshape(len(own), 2, 2, NUM_CHAINS // 4, D)
        bend[some] = pairs.sum(axis=(1, 3))  # chains c and c + C/2 are a pair
        tally.keep(own, copies[some] == 0, jax.device_get(chains))
    np.add.at(tally.inward, slots, inward)
    np.add.at(tally.bend, slots, bend)
    np.add.at(tally.number, slots, NUM_CHAINS * number)


def _iterate_targets(
    problem: Problem, outcome: Outcome, settings: RunSettings, outputs: np.ndarray
) -> Iterator[tuple[np.ndarray, Target]]:
    """Yield a list of outputs in groups of one size: their places in the list, and posteriors.

    The last group is filled up with the list's beginning, so that nothing compiles anew.
    """
    K, D = outcome.mean.shape
    assert outcome.factor is not None, "a Gaussian has a factor"
    plan = make_plan(
        problem,
        settings.memory_budget,
        per_output=4 * D * D + 8 * NUM_DRAWS * D,
        per_row=4 * NUM_DRAWS,
        pad=True,
    )
    together = K if problem.likelihood is Likelihood.SOFTMAX else min(plan.slots, K)
    centred, places = centre(problem, outcome.mean), np.arange(K)
    if not np.array_equal(outputs, places):
        places = np.resize(np.arange(len(outputs)), -(-len(outputs) // together) * together)
        centred = centred.select(outputs[places])
    for some, rows in iterate_outputs(centred, plan, together):
        here = places[some.start : some.stop]
        own = outputs[here]
        mean, factor = jnp.asarray(outcome.mean[own]), jnp.asarray(outcome.factor[own])
        yield here, make_target(rows, mean, factor, plan.num_features)


def estimate_shift(tally: Tally, outputs: np.ndarray, joint: bool) -> np.ndarray:
    """Return the shifts of some outputs, maths (27)."""
    number, D = tally.number[outputs], tally.bend.shape[-1]
    halves = tally.bend[outputs] / (number[:, None, None] / 2)
    found = tally.inward[outputs] / number - (halves[:, 0] * halves[:, 1]).sum(axis=-1)
    if joint:
        found = np.full(len(found), found.mean())
    return np.abs(found) / D
