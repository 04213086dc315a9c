"""Whether a Gaussian is enough: how far the posterior's variances are from those of N(m, P).

In coordinates z of the Gaussian its covariance is I. By Stein's identity the posterior's own
exceeds it, on the average over the D directions, by docs/maths.md (24),

    shift = (E[z·∇u] − |E[∇u]|²) / D,          u(z) = ½|z|² − U(z),

where u is constant if the posterior is the Gaussian. Where u varies little, the shift is E|∇u|²/D
under the Gaussian, which a few draws from it tell. Outputs for which that is not small
(`SLIGHT_SHIFT`) get a few short chains of the exact posterior (`trajectories`). Four things keep
the noise of their estimate down:

- z·∇u has little of it where u is small, other than |z|² − D has.
- Chains run in pairs with opposite momenta, whose odd parts cancel; |E[∇u]|² is a product of
  averages over two halves of the pairs, so that their noise does not add to it.
- Every point of a trajectory counts, weighed by how likely the trajectory is to pass its test
  (`trajectories._weigh_path`): two fifths of the variance less, with the same gradients.
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
from typing import Any

import jax
import numpy as np

from lastlayer.outcome import CALLED_FAR, TOO_FAR, Outcome, RunSettings, make_keys
from lastlayer.plan import Plan, divide_evenly, make_plan
from lastlayer.problem import Problem
from lastlayer.trajectories import (
    Chains,
    Rule,
    Target,
    draw_and_start,
    iterate_targets,
    watch_chains,
)

__all__ = ["CALLED_FAR", "TOO_FAR", "diagnose_gaussian", "estimate_shift"]

# Relative variance of the estimate from one trajectory: 0.5 to 0.9 on one network, three priors.
TRAJECTORY_NOISE = 0.75
FEWEST_ALIKE, LEAST_SHIFT = 8, 1e-3
SLIGHT_SHIFT = 0.01  # a shift that draws from the Gaussian are enough for
NUM_DRAWS = 8
GROUP = 96  # outputs together on a CPU, where those with as many leaps should not wait for others
NUM_CHAINS = 4  # the fewest with two halves of pairs; longer chains tell more than many
FEWEST, MOST = 6, 384  # transitions
SKIPPED = 2  # of them: the chains are still near their starts
PER_FEATURE = 1 / 12  # transitions; the flow's products grow with D as well, and cost thrice these
WORK = 4e6  # rows × outputs × draws that take no time worth saving
# Transitions of the looks, as shares of all; a factor from the limit that asks for the next look.
LOOKS, LOOK_AGAIN = (3 / 8, 1 / 8, 1 / 8, 1 / 8), (1.8, 1.4, 1.2)


def diagnose_gaussian(
    problem: Problem, outcome: Outcome, settings: RunSettings, *, slight: float = SLIGHT_SHIFT
) -> np.ndarray:
    """Return the covariance shift of each output, maths (24); NaN but for Gaussians of full rank.

    Outputs get chains unless draws from the Gaussian estimate a shift below `slight`.
    """
    K, D = outcome.mean.shape
    if outcome.factor is None or outcome.factor.shape[-1] < D:
        return np.full(K, np.nan)
    rule, every = Rule(adapt=True, mirrored=True, watched=True), np.arange(K)
    shift, tally = np.zeros(K), Tally(np.zeros(K), np.zeros((K, 2, D)), np.zeros(K, int))
    for own, target in _iterate_targets(problem, outcome, settings, every):
        keys = make_keys(settings.seed + 1, own)  # other draws than the particles
        bend, chains = draw_and_start(keys, target, NUM_DRAWS, NUM_CHAINS, rule)
        shift[own] = (np.asarray(bend)[..., :D] ** 2).mean(axis=(1, 2))
        tally.keep(own, chains)
    doubtful = near = np.flatnonzero(~(shift < slight))  # NaN is doubtful, too
    first = 1
    for number, factor in zip(_count_transitions(problem), (*LOOK_AGAIN, 1.0), strict=True):
        if not len(near):
            break
        # as many chains as at the first look, dealt evenly to those that are left
        copies = max(len(doubtful) // len(near), 1)
        _watch(problem, outcome, settings, rule, near, copies, tally, first, number)
        first += number
        shift[doubtful] = estimate_shift(tally, doubtful)
        with np.errstate(divide="ignore"):
            near = near[np.abs(np.log(shift[near] / CALLED_FAR)) < np.log(factor)]
    return average_alike(problem, shift)


def average_alike(problem: Problem, shift: np.ndarray) -> np.ndarray:
    """Give outputs with the same rows and prior, hence the same posterior, one estimate."""
    if not problem.in_memory:
        return shift
    columns = [problem.targets, np.broadcast_to(problem.counts.T, problem.targets.T.shape).T]
    columns.append(np.broadcast_to(problem.prior_mean, (len(shift), problem.num_features)).T)
    same = [b"".join(part[:, k].tobytes() for part in columns) for k in range(len(shift))]
    _, group = np.unique([hash(each) for each in same], return_inverse=True)
    return np.asarray((np.bincount(group, shift) / np.bincount(group))[group])


@dataclass
class Tally:
    """Running totals of the statistics of the chains, one entry per output."""

    inward: np.ndarray  # (K,), sums of z·∇u over chains and transitions
    bend: np.ndarray  # (K, 2, D), sums of ∇u over either half of the pairs
    number: np.ndarray  # (K,), chains × transitions
    chains: Chains | None = None  # their last states, (K, …), on the host

    def keep(self, outputs: np.ndarray, chains: Chains) -> None:
        """Keep where the chains of some outputs are."""
        here, K = jax.device_get(chains), len(self.number)
        if self.chains is None:
            blank: Any = (np.zeros((K, *part.shape[1:]), part.dtype) for part in here)
            self.chains = Chains(*blank)
        for kept, part in zip(self.chains, here, strict=True):
            np.asarray(kept)[outputs] = part

    def take(self, outputs: np.ndarray) -> Chains:
        """Return the chains of some outputs, on the device."""
        assert self.chains is not None, "chains are started first"
        return Chains(*(jax.device_put(part[outputs]) for part in self.chains))


def _count_transitions(problem: Problem) -> list[int]:
    """Return how many transitions each look takes, alike however the rows are dealt."""
    cheap = WORK / (problem.num_rows * problem.num_outputs * NUM_CHAINS)
    number = np.clip(max(problem.num_features * PER_FEATURE, cheap), FEWEST, MOST)
    first, *others = (int(share * int(number)) for share in LOOKS)
    return [SKIPPED + max(first, min(int(cheap), MOST)), *(max(other, 1) for other in others)]


def _watch(
    problem: Problem,
    outcome: Outcome,
    settings: RunSettings,
    rule: Rule,
    outputs: np.ndarray,
    copies: int,
    tally: Tally,
    first: int,
    number: int,
) -> None:
    """Run some copies of the chains of some outputs, and add what they tell to the tally."""
    K, D = outcome.mean.shape
    assert tally.chains is not None, "chains are started first"
    which = np.repeat(np.arange(copies), len(outputs))
    outputs = np.tile(outputs, copies)
    # neighbours then take about as many leaps
    order = np.argsort(-np.asarray(tally.chains.step_size)[outputs], kind="stable")
    outputs, which = outputs[order], which[order]
    inward, bend = np.zeros(len(outputs)), np.zeros((len(outputs), 2, D))
    ended = []
    for some, target in _iterate_targets(problem, outcome, settings, outputs):
        own = outputs[some]
        keys = make_keys(settings.seed + 1, own + K * which[some])
        chains, path = watch_chains(keys, tally.take(own), target, first, number, SKIPPED, rule)
        kept = np.flatnonzero(which[some] == 0)
        ended.append((own[kept], Chains(*(part[kept] for part in jax.device_get(chains)))))
        inward[some] = np.asarray(path.inward, float).sum(axis=(1, 2))
        pairs = np.asarray(path.bend, float)[..., :D].reshape(len(own), 2, 2, NUM_CHAINS // 4, D)
        bend[some] = pairs.sum(axis=(1, 3))  # chains c and c + C/2 are a pair
    for own, chains in ended:  # only now: all copies start where the last look ended
        tally.keep(own, chains)
    np.add.at(tally.inward, outputs, inward)
    np.add.at(tally.bend, outputs, bend)
    np.add.at(tally.number, outputs, NUM_CHAINS * (number - max(SKIPPED + 1 - first, 0)))


def _iterate_targets(
    problem: Problem, outcome: Outcome, settings: RunSettings, outputs: np.ndarray
) -> Iterator[tuple[np.ndarray, Target]]:
    """Yield a list of outputs in groups: their places in the list, and posteriors."""
    assert outcome.factor is not None, "a Gaussian has a factor"
    plan = plan_diagnosis(problem, settings)
    together = divide_evenly(len(outcome.mean), plan.slots)
    return iterate_targets(problem, outcome.mean, outcome.factor, plan, outputs, together)


def plan_diagnosis(problem: Problem, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time."""
    D = problem.num_features
    return make_plan(
        problem,
        settings.memory_budget,
        per_output=4 * D * D + 8 * (NUM_DRAWS + NUM_CHAINS) * D,
        per_row=4 * (NUM_DRAWS + NUM_CHAINS),
        cpu_slots=GROUP,
    )


def estimate_shift(tally: Tally, outputs: np.ndarray) -> np.ndarray:
    """Return the shifts of some outputs, maths (24)."""
    number, D = tally.number[outputs], tally.bend.shape[-1]
    halves = tally.bend[outputs] / (number[:, None, None] / 2)
    found = tally.inward[outputs] / number - (halves[:, 0] * halves[:, 1]).sum(axis=-1)
    return shrink_to_mean(np.abs(found) / D, number)


def shrink_to_mean(shift: np.ndarray, number: np.ndarray) -> np.ndarray:
    """Shrink the estimates of one problem towards their mean, by as much as their noise warrants.

    Empirical Bayes on the logarithm (Efron and Morris 1973, JASA 68:117): outputs that share their
    features have similar shifts, and one that stands out does so by its noise as well. `number` is
    how many trajectories each is an average of. A few outputs say nothing of each other.
    """
    if len(shift) < FEWEST_ALIKE:
        return shift
    noise = TRAJECTORY_NOISE / number
    # the logarithm of what is noisy is too low
    y = np.log(np.maximum(shift, LEAST_SHIFT)) + noise / 2
    spread = max(np.var(y, ddof=1) - noise.mean(), 0.0)
    weight = 1 / (spread + noise)
    mean = (weight * y).sum() / weight.sum()
    return np.asarray(np.exp(weight * (spread * y + noise * mean)))
