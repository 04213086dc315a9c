"""Whether a Gaussian is enough: how far the posterior's variances are from those of N(m, P).

In coordinates z of the Gaussian its covariance is I. By Stein's identity the posterior's own
exceeds it, on the average over the D directions, by docs/maths.md (27),

    shift = (E[z·∇u] − |E[∇u]|²) / D,          u(z) = ½|z|² − U(z),

where u is constant if the posterior is the Gaussian. Where u varies little, the shift is E|∇u|²/D
under the Gaussian, which a few draws from it tell. Outputs for which that is not small (`SLIGHT`)
get a few short chains of the exact posterior (`engine.hamiltonian`). Their estimate has little
noise where u is small, other than |z|²/D − 1 has. Chains run in pairs with opposite momenta, whose
odd parts cancel; |E[∇u]|² is a product of averages over two halves of the pairs, so that their
noise does not add to it.

`benchmarks/sampler/verdict.py` compares the estimate with long chains. Above `TOO_FAR` the verdict
says that a Gaussian is not enough.
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.hamiltonian import (
    Rule,
    Target,
    centre,
    draw_gradients,
    make_target,
    run_chains,
    start_chains,
)
from equivocal.sampling.engine.placement import find_largest_anywhere
from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import Outcome, RunSettings, make_keys
from equivocal.sampling.engine.shapes import PRNGKey
from equivocal.sampling.engine.streaming import iterate_outputs

TOO_FAR = 1 / 8  # of a variance
# Short chains underestimate shifts near the limit, by 2 % in the median of three networks. The
# margin was chosen on one of them, and keeps misses and false alarms of each below 5 %; on two
# other networks misses are 13 % (docs/speed.md).
CALLED_FAR = 0.95 * TOO_FAR
SLIGHT = 0.01  # a shift that draws from the Gaussian are enough for
NUM_DRAWS = 8
NUM_CHAINS = 4  # the fewest with two halves of pairs; longer chains tell more than many
FEWEST, MOST = 6, 384  # transitions
SKIPPED = 1  # of them: the chains are still near their starts
PER_FEATURE = 1 / 12  # transitions; the flow's products grow with D as well, and cost thrice these
WORK = 4e6  # rows × outputs × draws that take no time worth saving


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
    rule, every = Rule(adapt=True, mirrored=True, joint=joint), np.arange(K)
    shift = np.zeros(K)
    for own, keys, target in _iterate_targets(problem, outcome, settings, every):
        z, gradient = map(np.asarray, draw_gradients(keys, target, NUM_DRAWS, rule))
        shift[own] = ((z - gradient) ** 2).mean(axis=(1, 2))
    shift = np.full(K, shift.mean()) if joint else shift
    doubtful = np.flatnonzero(~(shift < slight))  # NaN is doubtful, too
    if not len(doubtful):
        return shift
    # streamed rows have their own order, and are read for all outputs alike
    doubtful = doubtful if problem.in_memory and not joint else every
    # of all processes together, so that the chains are as long however the rows are dealt
    rows_everywhere = float(find_largest_anywhere(problem.num_rows)) * jax.process_count()
    cheap = WORK / (rows_everywhere * K * NUM_CHAINS)
    number = int(np.clip(max(D * PER_FEATURE, cheap), FEWEST, MOST))
    for own, keys, target in _iterate_targets(problem, outcome, settings, doubtful):
        chains = start_chains(keys, target, NUM_CHAINS, rule)
        z, gradient = map(np.asarray, run_chains(keys, chains, target, 1, number, rule)[1:])
        shift[own] = estimate_shift(z[SKIPPED:], gradient[SKIPPED:], joint)
    return shift


def _iterate_targets(
    problem: Problem, outcome: Outcome, settings: RunSettings, outputs: np.ndarray
) -> Iterator[tuple[np.ndarray, PRNGKey, Target]]:
    """Yield some outputs in groups of one size: their numbers, keys and posteriors.

    The last group is filled up with outputs that had their turn, so that nothing compiles anew.
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
    centred = centre(problem, outcome.mean)
    if len(outputs) < K:
        outputs = np.resize(outputs, -(-len(outputs) // together) * together)
        centred = centred.select(outputs)
    for some, rows in iterate_outputs(centred, plan, together):
        own = outputs[some.start : some.stop]
        keys = make_keys(settings.seed + 1, own)  # other draws than the particles
        mean, factor = jnp.asarray(outcome.mean[own]), jnp.asarray(outcome.factor[own])
        yield own, keys, make_target(rows, mean, factor, plan.num_features)


def estimate_shift(z: np.ndarray, gradient: np.ndarray, joint: bool) -> np.ndarray:
    """Return the shift of each output, maths (27), from z and ∇U of its chains, (T, K, C, D)."""
    _, K, C, D = z.shape
    bend = z - gradient  # ∇u
    inward = (z * bend).mean(axis=(0, 2)).sum(axis=-1)
    quarter = C // 4  # chains c and c + C/2 are a pair
    by_pairs = bend.reshape(len(z), K, 2, 2, quarter, D).mean(axis=(0, 2, 4))
    found = inward - (by_pairs[:, 0] * by_pairs[:, 1]).sum(axis=-1)
    if joint:
        found = np.full(K, found.mean())
    return np.abs(found) / D
