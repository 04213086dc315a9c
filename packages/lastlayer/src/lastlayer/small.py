"""The flow of small problems in NumPy: a few matrix products per step, and nothing to compile.

The fixed point is that of `flow`, docs/maths.md (5), in the same coordinates of G. For yes/no
outputs there is only one, since the bound (4) is concave in m and in a factor of P (Challis and
Barber 2013, JMLR 14:2239). Each step is (15) with s near 1, followed by corrections of the mean as
in `flow.correct_mean`; neither checks the bound. That is enough for most problems; outputs that do
not converge are solved by `flow`.

`MOST_WORK` sets the largest problem that is solved here, and may be changed.
"""

from typing import NamedTuple

import numpy as np

from lastlayer.devices import count_shards
from lastlayer.flow import LONGEST
from lastlayer.likelihoods import FlowRule, average_by_quadrature
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Problem, Start
from lastlayer.products import Precision
from lastlayer.rows import SmallRows

__all__ = ["count_bytes", "flow_small", "invert_triangular", "is_small"]

# Largest K N (D² + AVERAGING): a step then takes a core about 30 ms, where compiling takes seconds.
MOST_WORK, AVERAGING = 1 << 29, 1 << 12
STEPS = 40  # outputs that need more are solved by `flow`
CORRECTIONS = 8  # largest number of corrections of the mean after each step
SHORT = 0.1  # posterior sd: after a correction shorter than this, no other follows
LEAST_DAMPING = 0.1
COARSE = 1e-3  # from this tolerance on, single precision is enough


class State(NamedTuple):
    """The Gaussian after a step of (15), with the residuals of that step."""

    mean: np.ndarray  # (K, D), m
    factor: np.ndarray  # (K, D, D), G
    damping: np.ndarray  # (K,), s; 0 at a start from which the mean is not corrected
    misfit: np.ndarray  # (K, D, D), S − I before the step
    mean_residual: np.ndarray  # (K,), as in `flow.FlowInfo`, where the step began
    covariance_residual: np.ndarray  # (K,)


def is_small(problem: Problem, rule: FlowRule, settings: RunSettings) -> bool:
    """Return whether `flow_small` can solve the problem, so that no program need be compiled."""
    free = settings.num_steps is None and not settings.compiled
    plain = free and settings.precision is Precision.FULL
    known = rule.expectation is average_by_quadrature
    if not (plain and known and problem.in_memory and count_shards() == 1):
        return False
    K, N, D = problem.num_outputs, problem.num_rows, problem.num_features
    return K * N * (D * D + AVERAGING) <= MOST_WORK


def count_bytes(problem: Problem) -> int:
    """Return the bytes that `flow_small` holds."""
    K, N, D = problem.num_outputs, problem.num_rows, problem.num_features
    return problem.dtype.itemsize * (K * N * (D + 8) + 2 * N * D + 8 * K * D * D)


def flow_small(
    problem: Problem,
    tolerance: float,
    start_of: Start,
    *,
    near: bool = False,
) -> Outcome:
    """Flow every output to its fixed point; `converged` says which of them reached it.

    From a start that is `near`, the mean of a yes/no output is corrected before the first step.
    """
    K = problem.num_outputs
    kind = np.dtype(np.float32) if tolerance >= COARSE else problem.dtype
    starts = zip(*(start_of(k) for k in range(K)), strict=True)
    m, G = (np.stack(part).astype(kind) for part in starts)
    state = State(m, G, np.full(K, near, kind), np.zeros_like(G), np.zeros(K), np.zeros(K))
    rows, left = SmallRows.lay_out(problem, kind), np.arange(K)
    room = np.empty((K, *rows.features.shape), kind)
    outcome = _prepare_outcome(problem)
    for number in range(STEPS + 1):
        try:
            with np.errstate(all="ignore"):
                state = _take_step(rows, state, room[: len(left)])
        except np.linalg.LinAlgError:  # S is not positive
            break
        residual = np.maximum(state.mean_residual, state.covariance_residual)
        going = ~(residual <= tolerance)  # NaN is going, too
        if number:
            outcome.time[left] -= np.log1p(-np.minimum(state.damping, LONGEST))
        for name in ("mean", "factor", "mean_residual", "covariance_residual"):
            getattr(outcome, name)[left] = getattr(state, name)
        # a last step corrects no mean, which may then be off as far as the covariance was
        outcome.mean_residual[left[~going]] = residual[~going]
        outcome.converged[left], outcome.steps[left] = ~going, number
        if not (going.any() and np.isfinite(residual).all()):
            break
        left, rows = left[going], rows.select(going)
        state = State(*(part[going] for part in state))
    return outcome


def _prepare_outcome(problem: Problem) -> Outcome:
    """Return an outcome to be filled in, in which no output has converged."""
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


def _take_step(rows: SmallRows, state: State, room: np.ndarray) -> State:
    """Correct the mean, sum over the rows, and apply (15); `room`, (K, N, D), is overwritten."""
    m, G = state.mean, state.factor
    B = np.matmul(rows.features, G, out=room)
    v = np.einsum("knd,knd->kn", B, B)
    if state.damping.all():
        m = _correct_mean(rows, m, G, v)
    found = rows.average(m, v)
    B *= np.sqrt(found.weights)[..., None]
    identity = np.eye(G.shape[-1], dtype=G.dtype)
    misfit = np.matmul(B.swapaxes(1, 2), B) + np.matmul(G.swapaxes(1, 2), G) - identity
    s = _choose_damping(state, misfit)
    L = np.linalg.cholesky(identity + s[:, None, None] * misfit)
    root = invert_triangular(L).swapaxes(1, 2)
    newton = np.matmul(np.matmul(found.gradient[:, None], G), root)
    factor = np.matmul(G, root)
    return State(
        mean=m - np.matmul(newton, factor.swapaxes(1, 2))[:, 0],
        factor=factor,
        damping=s,
        misfit=misfit,
        mean_residual=np.linalg.norm(newton[:, 0], axis=1),
        covariance_residual=np.linalg.norm(misfit, axis=(1, 2)),
    )


def _choose_damping(state: State, misfit: np.ndarray) -> np.ndarray:
    """Return s: 1 at first, then by Aitken's rule, which gives less where P oscillates."""
    change = misfit - state.misfit
    along, square = -(state.misfit * change).sum(axis=(1, 2)), (change**2).sum(axis=(1, 2))
    best = state.damping * along / np.maximum(square, np.finfo(misfit.dtype).tiny)
    return np.where(best > 0, np.clip(best, LEAST_DAMPING, 1), 1).astype(misfit.dtype)


def _correct_mean(rows: SmallRows, m: np.ndarray, G: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Take steps m ← m − α P g̃(m) at fixed P, with Newton's α ≤ 1 along the line."""
    for _ in range(CORRECTIONS):
        found = rows.average(m, v)
        along = np.matmul(found.gradient[:, None], G)
        direction = np.matmul(along, G.swapaxes(1, 2))[:, 0]
        slope, curvature = (along[:, 0] ** 2).sum(axis=1), rows.compute_curvature(found, direction)
        length = slope / np.maximum(curvature, np.finfo(m.dtype).tiny)
        m = m - np.minimum(length, 1)[:, None] * direction
        if not (slope > SHORT**2).any():
            break
    return m


def invert_triangular(L: np.ndarray) -> np.ndarray:
    """Return L⁻¹ by halves: NumPy's inverse ignores triangles, and takes four times as long."""
    D = L.shape[-1]
    if D <= 32:
        return np.linalg.inv(L)
    half = D // 2
    found = np.zeros_like(L)
    upper, lower = invert_triangular(L[:, :half, :half]), invert_triangular(L[:, half:, half:])
    found[:, :half, :half], found[:, half:, half:] = upper, lower
    found[:, half:, :half] = -np.matmul(lower, np.matmul(L[:, half:, :half], upper))
    return found
