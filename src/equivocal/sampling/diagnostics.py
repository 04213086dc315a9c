"""Whether a Gaussian is enough: how far the posterior's variances are from those of N(m, P).

A few short chains of the exact posterior (`engine.hamiltonian`) start at draws from the Gaussian.
In its coordinates z the Gaussian has the covariance I. By Stein's identity the posterior's own
exceeds it, on the average over the D directions, by docs/maths.md (27),

    shift = (E[z·∇u] − |E[∇u]|²) / D,          u(z) = ½|z|² − U(z),

where u is constant if the posterior is the Gaussian: the estimate has no noise then, and little
where u is small, other than |z|²/D − 1 has. Chains run in pairs with opposite momenta, whose odd
parts cancel; |E[∇u]|² is a product of averages over two halves of the pairs, so that their noise
does not add to it.

`benchmarks/sampler/verdict.py` compares the estimate with long chains. Above `TOO_FAR` the verdict
says that a Gaussian is not enough.
"""

import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.hamiltonian import (
    Rule,
    centre,
    make_target,
    run_chains,
    start_chains,
)
from equivocal.sampling.engine.placement import find_largest_anywhere
from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.settings import Outcome, RunSettings, make_keys
from equivocal.sampling.engine.streaming import iterate_outputs

TOO_FAR = 1 / 8  # of a variance
NUM_CHAINS = 8
FEWEST, MOST = 4, 48  # transitions
SKIPPED = 1  # of them: the chains are still near their starts
WORK = 4e7  # rows × outputs × draws to spend: about a second on two cores


def is_far(outcome: Outcome) -> np.ndarray:
    """Return for which outputs a Gaussian is not enough, (K,)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(outcome.covariance_shift > TOO_FAR)


def diagnose_gaussian(problem: Problem, outcome: Outcome, settings: RunSettings) -> np.ndarray:
    """Return the covariance shift of each output; NaN but for Gaussians of full rank."""
    K, D = outcome.mean.shape
    shift = np.full(K, np.nan)
    mean, factor = outcome.mean, outcome.factor
    if factor is None or factor.shape[-1] < D:
        return shift
    joint = problem.likelihood is Likelihood.SOFTMAX
    rule = Rule(adapt=True, mirrored=True, joint=joint)
    plan = make_plan(
        problem,
        settings.memory_budget,
        per_output=4 * D * D + 8 * NUM_CHAINS * D,
        per_row=4 * NUM_CHAINS,
        pad=True,
    )
    rows_everywhere = float(find_largest_anywhere(problem.num_rows))
    affordable = WORK / (rows_everywhere * K * NUM_CHAINS)
    number = int(np.clip(affordable, FEWEST, MOST))
    for some, rows in iterate_outputs(centre(problem, mean), plan, K if joint else plan.slots):
        own = slice(some.start, some.stop)
        keys = make_keys(settings.seed + 1, some)  # other draws than the particles
        target = make_target(
            rows, jnp.asarray(mean[own]), jnp.asarray(factor[own]), plan.num_features
        )
        chains = start_chains(keys, target, NUM_CHAINS, rule)
        z, gradient = map(np.asarray, run_chains(keys, chains, target, 1, number, rule)[1:])
        shift[own] = estimate_shift(z[SKIPPED:], gradient[SKIPPED:], joint)
    return shift


def estimate_shift(z: np.ndarray, gradient: np.ndarray, joint: bool) -> np.ndarray:
    """Return the shift of each output from z and ∇U of its chains, (T, K, C, D)."""
    _, K, C, D = z.shape
    bend = z - gradient  # ∇u
    inward = (z * bend).mean(axis=(0, 2)).sum(axis=-1)
    quarter = C // 4  # chains c and c + C/2 are a pair
    by_pairs = bend.reshape(len(z), K, 2, 2, quarter, D).mean(axis=(0, 2, 4))
    found = inward - (by_pairs[:, 0] * by_pairs[:, 1]).sum(axis=-1)
    if joint:
        found = np.full(K, found.mean())
    return np.abs(found) / D
