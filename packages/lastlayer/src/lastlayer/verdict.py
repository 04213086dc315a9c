"""Whether a Gaussian is enough: how far the posterior's variances are from those of N(m, P).

In coordinates z of the Gaussian its covariance is I. By Stein's identity the posterior's own
exceeds it, on the average over the D directions, by maths.md (24),

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
- Outputs that share their features have similar shifts (`shrink_to_mean`).

The same functions of a chain of the Gaussian with the same momenta would be control variates with
known means. They do not help: the Gaussian reaches where rows are no longer saturated and ∇u is
large, and the posterior does not.

`benchmarks/sampler/verdict.py` compares the estimate with long chains. Above `TOO_FAR` the verdict
says that a Gaussian is not enough.
"""

import jax
import numpy as np

from lastlayer.outcome import CALLED_FAR, TOO_FAR, Outcome, RunSettings, make_keys
from lastlayer.problem import Problem
from lastlayer.rows import Plan, divide_evenly, make_plan
from lastlayer.trajectories import Rule, iterate_targets, measure_bend, watch_chains

__all__ = ["CALLED_FAR", "TOO_FAR", "diagnose_gaussian"]

# Relative variance of the estimate from one trajectory: 0.5 to 0.9 on one network, three priors.
TRAJECTORY_NOISE = 0.75
FEWEST_ALIKE, LEAST_SHIFT = 8, 1e-3
SLIGHT_SHIFT = 0.01  # a shift that draws from the Gaussian are enough for
NUM_DRAWS = 8
GROUP = 96  # outputs together on a CPU, where those with as many leaps should not wait for others
NUM_CHAINS = 4  # the fewest with two halves of pairs; longer chains tell more than many
FEWEST, MOST = 4, 384  # transitions that count
SKIPPED = 2  # before them: the chains are still near their starts
PER_FEATURE = 1 / 24  # transitions; the flow's products grow with D as well, and cost thrice these
WORK = 4e6  # rows × outputs × draws that take no time worth saving


def diagnose_gaussian(
    problem: Problem, outcome: Outcome, settings: RunSettings, *, slight: float = SLIGHT_SHIFT
) -> np.ndarray:
    """Return the covariance shift of each output, maths (24); NaN but for Gaussians of full rank.

    Outputs get chains unless draws from the Gaussian estimate a shift below `slight`.
    """
    K, D = outcome.mean.shape
    if outcome.factor is None or outcome.factor.shape[-1] < D:
        return np.full(K, np.nan)
    plan, shift, every = plan_diagnosis(problem, settings), np.zeros(K), np.arange(K)
    gaussian = problem, outcome.mean, outcome.factor, plan
    together, rule = divide_evenly(K, plan.slots), Rule(adapt=True, mirrored=True, watched=True)
    for own, target in iterate_targets(*gaussian, every, together):
        keys = make_keys(settings.seed + 1, own)  # other draws than the particles
        bend = np.asarray(measure_bend(keys, target, NUM_DRAWS, rule))[..., :D]
        shift[own] = (bend**2).mean(axis=(1, 2))
    doubtful = np.flatnonzero(~(shift < slight))  # NaN is doubtful, too
    if not len(doubtful):
        return average_alike(problem, shift)
    number, found = count_transitions(problem), np.zeros(len(doubtful))
    for places, target in iterate_targets(*gaussian, doubtful, together):
        keys = make_keys(settings.seed + 1, doubtful[places])
        path = watch_chains(keys, target, NUM_CHAINS, number + SKIPPED, SKIPPED, rule)
        inward, bend = (np.asarray(part, float) / number for part in jax.device_get(path))
        # chains c and c + C/2 are a pair; each half of the pairs has an average of its own
        pairs = bend[..., :D].reshape(len(places), 2, 2, NUM_CHAINS // 4, D).mean(axis=(1, 3))
        found[places] = inward.mean(axis=(1, 2)) - (pairs[:, 0] * pairs[:, 1]).sum(axis=-1)
    shift[doubtful] = shrink_to_mean(np.abs(found) / D, NUM_CHAINS * number)
    return average_alike(problem, shift)


def average_alike(problem: Problem, shift: np.ndarray) -> np.ndarray:
    """Give outputs with the same rows and prior, hence the same posterior, one estimate."""
    columns = [problem.targets, np.broadcast_to(problem.counts.T, problem.targets.T.shape).T]
    columns.append(np.broadcast_to(problem.prior_mean, (len(shift), problem.num_features)).T)
    same = [b"".join(part[:, k].tobytes() for part in columns) for k in range(len(shift))]
    _, group = np.unique([hash(each) for each in same], return_inverse=True)
    return np.asarray((np.bincount(group, shift) / np.bincount(group))[group])


def count_transitions(problem: Problem) -> int:
    """Return how many transitions of a chain count, more where rows are few."""
    cheap = WORK / (problem.num_rows * problem.num_outputs * NUM_CHAINS)
    return int(np.clip(max(problem.num_features * PER_FEATURE, cheap), FEWEST, MOST))


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


def shrink_to_mean(shift: np.ndarray, number: int) -> np.ndarray:
    """Shrink the estimates of one problem towards their mean, by as much as their noise warrants.

    Empirical Bayes on the logarithm (Efron and Morris 1973, JASA 68:117): outputs that share their
    features have similar shifts, and one that stands out does so by its noise as well. Each is an
    average of `number` trajectories. A few outputs say nothing of each other.
    """
    if len(shift) < FEWEST_ALIKE:
        return shift
    noise = TRAJECTORY_NOISE / number
    # the logarithm of what is noisy is too low
    y = np.log(np.maximum(shift, LEAST_SHIFT)) + noise / 2
    spread = max(np.var(y, ddof=1) - noise, 0.0)
    return np.asarray(np.exp((spread * y + noise * y.mean()) / (spread + noise)))
