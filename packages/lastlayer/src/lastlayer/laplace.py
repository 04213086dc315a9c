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

ROWS = 8_192  # of which curvature is summed at a time
PASSES, STEPS = 8, 20  # the most passes over the curvature, and steps with each


def run(problem: Problem, config: FlowConfig, settings: RunSettings) -> Outcome:
    """Fit all outputs at once; passes over the curvature go on until it does not change."""
    del config
    K, scale = problem.num_outputs, problem.prior_scale
    fit, variance = Fit(problem, scale.astype(np.float64) ** 2, average=False), scale**2.0
    for _ in range(2):  # the second begins where the first has learnt how narrow posteriors are
        fit.move_to(variance, settings.tolerance / 5)
    w = fit.u @ (fit.B / scale[:, None]).T
    del fit  # as large as the features
    psi, offsets = problem.features * scale, problem.compute_offsets()
    counts = problem.counts.reshape(len(psi), -1)
    for passes in range(1, 1 + (settings.num_steps or PASSES)):  # noqa: B007
        slope = _sum_errors(problem, psi, offsets, w)[1]
        factor = _factorize_curvature(psi, counts * slope)
        for _ in range(STEPS):
            error, after = _sum_errors(problem, psi, offsets, w)
            along = np.matmul((error.T @ psi + w)[:, None], factor)
            residual = np.sqrt((along**2).sum(axis=(1, 2)))
            if residual.max() <= settings.tolerance:
                break
            w = w - np.matmul(along, factor.swapaxes(1, 2))[:, 0]
        weight = np.maximum((counts * slope).sum(axis=0), np.finfo(psi.dtype).tiny)
        change = (counts * np.abs(after - slope)).sum(axis=0) / weight
        if change.max() <= settings.tolerance:
            break
    settings.tell(K, K)
    return Outcome(
        mean=w,
        factor=factor,
        converged=(residual <= settings.tolerance) & (change <= settings.tolerance),
        steps=np.full(K, passes),
        time=np.full(K, np.nan),
        mean_residual=residual.astype(np.float64),
        covariance_residual=change.astype(np.float64),
        stop_reason="the curvature still changes; narrow prior_variance or pass dtype='float64'",
    )


def _sum_errors(
    problem: Problem, psi: np.ndarray, offsets: np.ndarray, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return c y − t and y(1 − y) of each row and output, (N, K)."""
    y, _ = compare_answers(problem, offsets + psi @ w.T)
    return problem.counts.reshape(len(y), -1) * y - problem.targets, y * (1 - y)


def _factorize_curvature(psi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return lower triangular G with GGᵀ = (Ψᵀ diag(r_k) Ψ + I)⁻¹ for each output, (K, D, D).

    With the features in reverse order, H = U Uᵀ for an upper triangular U, and G = U⁻ᵀ.
    """
    from scipy.linalg import solve_triangular  # JAX requires SciPy, but does not load it

    K, D = weights.shape[1], psi.shape[1]
    factor, identity = np.empty((K, D, D), psi.dtype), np.eye(D)

    def factorize(k: int) -> None:
        H = np.eye(D)
        root = np.sqrt(weights[:, k])
        for start in range(0, len(psi), ROWS):
            some = psi[start : start + ROWS] * root[start : start + ROWS, None]
            H += some.T @ some
        U = np.linalg.cholesky(H[::-1, ::-1])[::-1, ::-1]
        factor[k] = solve_triangular(U, identity, trans="T", lower=False)

    with ThreadPoolExecutor(count_cores()) as pool:
        list(pool.map(factorize, range(K)))
    return factor
