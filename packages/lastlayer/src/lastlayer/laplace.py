"""Laplace's approximation: a Gaussian at the mode, with the curvature found there.

    m = argmax log p(t | θ) + log N(θ; m₀, P₀)          P⁻¹ = Ψᵀ diag(c y(1−y)) Ψ + P₀⁻¹ at m

which is maths.md (5) with the averages of (6) taken at the mean.

L-BFGS finds all modes at once (`prior.Fit`), in coordinates where one
eigenbasis makes every posterior nearly round; one pass sums the curvature of each output, K N D²;
and a few steps with that curvature end at the mode. Another pass follows only where these steps
change the curvature.

The cheapest method, and the default of `LastLayer.fit` where a problem is large. Where the
posterior rests on few rows, mode and mean lie far apart (1.5 posterior sd on separable data) and
probabilities are overconfident.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from lastlayer.machine import count_cores
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.prior import Fit, compare_answers
from lastlayer.problem import Problem
from lastlayer.variational import FlowConfig

ROWS = 2_048  # of which curvature is summed at a time
TOGETHER = 1 << 25  # rows × outputs that are fitted at once
PASSES, STEPS = 8, 20  # the most passes over the curvature, and steps with each
NEAR = 2.0  # tolerances: where L-BFGS leaves the rest to the curvature


def run(problem: Problem, config: FlowConfig, settings: RunSettings) -> Outcome:
    """Fit outputs together, as many as memory holds, until their curvature does not change."""
    del config
    K, D = problem.num_outputs, problem.num_features
    outcome = Outcome(
        mean=np.empty((K, D), problem.dtype),
        factor=np.empty((K, D, D), problem.dtype),
        stop_reason="the curvature still changes; narrow prior_variance or pass dtype='float64'",
    )
    groups = -(-K * problem.num_rows // TOGETHER)
    for own in np.array_split(np.arange(K), groups):
        some = problem if groups == 1 else problem.select(own)
        _fit_group(some, outcome, own, settings)
        settings.tell(int(own[-1]) + 1, K)
    change, residual = outcome.covariance_residual, outcome.mean_residual
    outcome.converged = np.maximum(change, residual) <= settings.tolerance
    return outcome


def _fit_group(problem: Problem, outcome: Outcome, own: np.ndarray, settings: RunSettings) -> None:
    """Fit some outputs at once; passes over the curvature go on until it does not change."""
    scale, tolerance = problem.prior_scale, settings.tolerance
    fit = Fit(problem, scale.astype(np.float64) ** 2, average=False)
    fit.move_to(scale**2.0, NEAR * tolerance)
    w = fit.u @ (fit.B / scale[:, None]).T
    del fit  # as large as the features
    offsets, counts = problem.compute_offsets(), problem.counts.reshape(problem.num_rows, -1)
    factor = outcome.factor[own[0] : own[-1] + 1]
    for passes in range(1, 1 + (settings.num_steps or PASSES)):  # noqa: B007
        slope = _sum_errors(problem, offsets, w)[1]
        _factorize_curvature(problem, counts * slope, factor)
        for _ in range(STEPS):
            error, after = _sum_errors(problem, offsets, w)
            gradient = error.T @ problem.features * scale + w
            along = np.matmul(gradient[:, None], factor)
            residual = np.sqrt((along**2).sum(axis=(1, 2)))
            if residual.max() <= tolerance:
                break
            w = w - np.matmul(along, factor.swapaxes(1, 2))[:, 0]
        weight = np.maximum((counts * slope).sum(axis=0), np.finfo(problem.dtype).tiny)
        change = (counts * np.abs(after - slope)).sum(axis=0) / weight
        if change.max() <= tolerance:
            break
    outcome.mean[own], outcome.steps[own] = w, passes
    outcome.mean_residual[own], outcome.covariance_residual[own] = residual, change


def _sum_errors(
    problem: Problem, offsets: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return c y − t and y(1 − y) of each row and output, (N, K)."""
    y, _ = compare_answers(problem, offsets + problem.features @ (w * problem.prior_scale).T)
    return problem.counts.reshape(len(y), -1) * y - problem.targets, y * (1 - y)


def _factorize_curvature(problem: Problem, weights: np.ndarray, factor: np.ndarray) -> None:
    """Set lower triangular G with GGᵀ = (Ψᵀ diag(r_k) Ψ + I)⁻¹ for each output, (K, D, D).

    With the features in reverse order, H = U Uᵀ for an upper triangular U, and G = U⁻ᵀ.
    """
    from scipy.linalg import solve_triangular  # JAX requires SciPy, but does not load it

    psi, scale = problem.features, problem.prior_scale.astype(np.float64)
    identity = np.eye(psi.shape[1])

    def factorize(k: int) -> None:
        H = np.zeros(identity.shape)
        root = np.sqrt(weights[:, k])
        for start in range(0, len(psi), ROWS):
            some = psi[start : start + ROWS] * root[start : start + ROWS, None]
            H += some.T @ some
        H *= scale
        H *= scale[:, None]
        H += identity
        U = np.linalg.cholesky(H[::-1, ::-1])[::-1, ::-1]
        factor[k] = solve_triangular(U, identity, trans="T", lower=False)

    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(factorize, range(len(factor))))
