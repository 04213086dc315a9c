"""The flow of small problems in NumPy: a few matrix products a step, and nothing to compile.

The fixed point is that of `flow`, docs/maths.md (5), in the same coordinates of G. There is only
one: for yes/no outputs the bound (4) is concave in m and in a factor of P (Challis and Barber
2013, JMLR 14:2239). Each step is (15) with s = 1 for P, then corrections of the mean as in
`flow.correct_mean`, neither with a look at the bound. That is enough for most problems; an output
that does not converge is left to `flow`.

From where on a problem is no longer small may be changed here.
"""

from typing import NamedTuple

import numpy as np

from equivocal.sampling.engine.flow import CLOSE, LONGEST, LONGEST_CORRECTION
from equivocal.sampling.engine.likelihoods import FlowRule, average_by_quadrature
from equivocal.sampling.engine.placement import count_shards
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.settings import Outcome, RunSettings
from equivocal.sampling.engine.small_moments import compute_small_moments
from equivocal.sampling.engine.starts import Start

__all__ = ["flow_small", "is_small"]

MOST_WORK = 1 << 29  # K N D²; there a step takes a core about 30 ms, and compiling takes seconds
STEPS = 20  # what needs more is left to `flow`
CORRECTIONS = 4  # of the mean in each step
COARSE = 1e-3  # a tolerance for which single precision is enough


class Rows(NamedTuple):
    """Rows that count, for the outputs that are still to converge."""

    features: np.ndarray  # (N, D), ψ √v
    counts: np.ndarray  # (1, N) or (K, N)
    targets: np.ndarray  # (K, N)
    offsets: np.ndarray  # (1, N) or (K, N)

    def select(self, outputs: np.ndarray) -> "Rows":
        """Return the rows of some outputs."""
        K = len(self.targets)
        own = (part if len(part) < K else part[outputs] for part in self[1:])
        return Rows(self.features, *own)

    def average(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return g̃, (K, D), and what each row weighs in the curvature, (K, N)."""
        mu = mean @ self.features.T + self.offsets
        tail, slope, _ = compute_small_moments(mu, variance)
        c, t = self.counts, self.targets
        error = np.where(mu > 0, (c - t) - c * tail, c * tail - t)  # c E[y] − t
        return error @ self.features + mean, c * slope


class Step(NamedTuple):
    """Where (15) leads to, and how far that is."""

    mean: np.ndarray  # (K, D)
    factor: np.ndarray  # (K, D, D)
    mean_residual: np.ndarray  # (K,)
    covariance_residual: np.ndarray  # (K,)


def is_small(problem: Problem, rule: FlowRule, settings: RunSettings) -> bool:
    """Return whether `flow_small` serves the problem, so that no program need be compiled."""
    served = rule.expectation is average_by_quadrature and settings.precision is Precision.FULL
    if not (served and settings.num_steps is None and problem.in_memory and count_shards() == 1):
        return False
    return problem.num_outputs * problem.num_rows * problem.num_features**2 <= MOST_WORK


def flow_small(problem: Problem, tolerance: float, start_of: Start) -> Outcome:
    """Flow every output to its fixed point; `converged` says which of them got there."""
    K = problem.num_outputs
    kind = np.float32 if tolerance >= COARSE else problem.dtype
    starts = zip(*(start_of(k) for k in range(K)), strict=True)
    m, G = (np.stack(part).astype(kind) for part in starts)
    outcome = _prepare_outcome(problem)
    rows, left = _lay_out(problem, kind), np.arange(K)
    for number in range(1, STEPS + 1):
        try:
            with np.errstate(all="ignore"):
                step = _take_step(rows, m, G, correct=number > 1)
        except np.linalg.LinAlgError:
            break
        residual = np.maximum(step.mean_residual, step.covariance_residual)
        going = ~(residual <= tolerance)  # NaN is going, too
        for name, found in step._asdict().items():
            getattr(outcome, name)[left] = found
        outcome.converged[left], outcome.steps[left] = ~going, number - 1
        left, rows = left[going], rows.select(going)
        m, G = step.mean[going], step.factor[going]
        if not len(left) or not np.isfinite(residual).all():
            break
    outcome.time = -np.log1p(-LONGEST) * outcome.steps
    return outcome


def _prepare_outcome(problem: Problem) -> Outcome:
    K, D = problem.num_outputs, problem.num_features
    return Outcome(
        mean=np.zeros((K, D), problem.dtype),
        factor=np.zeros((K, D, D), problem.dtype),
        converged=np.zeros(K, bool),
        steps=np.zeros(K, int),
        time=np.zeros(K),
        mean_residual=np.full(K, np.inf),
        covariance_residual=np.full(K, np.inf),
    )


def _lay_out(problem: Problem, kind: np.dtype) -> Rows:
    """Return the rows that count, scaled by the prior."""
    counted = problem.row_counts > 0
    psi, c, t = (part[counted] for part in (problem.features, problem.counts, problem.targets))
    offsets = problem.compute_offsets()[counted]
    columns = (np.ascontiguousarray(part.reshape(len(psi), -1).T, kind) for part in (c, t, offsets))
    return Rows((psi * problem.prior_scale).astype(kind), *columns)


def _take_step(rows: Rows, m: np.ndarray, G: np.ndarray, *, correct: bool) -> Step:
    """Correct the mean if asked to, sum the rows there, and apply (15) with s = 1."""
    B = np.matmul(rows.features, G)
    v = np.einsum("knd,knd->kn", B, B)
    if correct:
        m = _correct_mean(rows, m, G, v)
    gradient, weights = rows.average(m, v)
    B *= np.sqrt(weights)[..., None]
    S = np.matmul(B.swapaxes(1, 2), B) + np.matmul(G.swapaxes(1, 2), G)
    root = np.linalg.inv(np.linalg.cholesky(S)).swapaxes(1, 2)  # C Cᵀ = S⁻¹
    newton = np.matmul(np.matmul(gradient[:, None], G), root)
    factor = np.matmul(G, root)
    return Step(
        m - np.matmul(newton, factor.swapaxes(1, 2))[:, 0],
        factor,
        np.linalg.norm(newton[:, 0], axis=1),
        np.linalg.norm(S - np.eye(S.shape[-1], dtype=S.dtype), axis=(1, 2)),
    )


def _correct_mean(rows: Rows, m: np.ndarray, G: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Take steps m ← m − α P g̃(m) at fixed P, with Newton's α along the line."""
    for _ in range(CORRECTIONS):
        gradient, weights = rows.average(m, v)
        along = np.matmul(gradient[:, None], G)
        direction = np.matmul(along, G.swapaxes(1, 2))[:, 0]
        slope = (along[:, 0] ** 2).sum(axis=1)
        curvature = (weights * (direction @ rows.features.T) ** 2).sum(axis=1)
        curvature += (direction**2).sum(axis=1)
        length = np.minimum(slope / np.maximum(curvature, np.finfo(m.dtype).tiny), LONGEST_CORRECTION)
        m = m - length[:, None] * direction
        if not (slope > CLOSE**2).any():
            break
    return m
