"""Runs the flow for many outputs: a few in flight, each replaced by the next when it is done.

Outputs need different numbers of steps. A fixed group would wait for its slowest; here a slot that
has finished takes the next output, so one compiled program is always full. No output's result
depends on its neighbours.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.flow import FlowInfo, FlowRule, FlowState, flow_step, start_flow
from equivocal.sampling.inputs import fail
from equivocal.sampling.plan import Plan
from equivocal.sampling.problem import Problem
from equivocal.sampling.result import Outcome
from equivocal.sampling.rows import Rows, in_blocks, lay_out, offsets_of
from equivocal.sampling.shapes import Array, Int

__all__ = ["run_flow"]

WIDEST_LOGIT = 3.0
SMALLEST_DAMPING = 1e-6  # a line search that ends here has stalled


def run_flow(
    problem: Problem,
    plan: Plan,
    rule: FlowRule,
    *,
    tolerance: float,
    num_steps: int,
    nodes_of: Callable[[int], np.ndarray] | None = None,
    start_of: Callable[[int], tuple[np.ndarray, np.ndarray]] | None = None,
) -> Outcome:
    """Flow every output to its fixed point.

    `nodes_of(k)` gives what the expectations of output k draw on, `start_of(k)` the mean and factor
    it starts from (None: the prior, or narrower, see `near_prior`).
    """
    K, wide = problem.num_outputs, plan.num_features
    start_of = start_of or near_prior(problem, wide)
    slots = K if rule.joint else plan.slots
    rows = lay_out(problem, slice(0, slots), plan.block_rows, num_features=wide)
    rows = _widened(rows, slots)
    state = _start(range(slots), K, start_of)
    nodes = None if nodes_of is None else jnp.stack([nodes_of(k % K) for k in range(slots)])
    held = np.array([k if k < K else -1 for k in range(slots)])  # which output each slot works on
    queue = iter(range(slots, K))
    steps = np.zeros(slots, int)
    done = _Collector(problem, state.factor.shape[-1], num_steps)
    while (held >= 0).any():
        state, info = flow_step(state, rows, rule, nodes)
        steps += 1
        finished = _finished(state, info, steps, tolerance, num_steps, held)
        if rule.joint and not finished.all():
            continue
        for slot in map(int, np.flatnonzero(finished)):
            done.take(int(held[slot]), slot, state, info, int(steps[slot]), tolerance)
            held[slot] = k = next(queue, -1)
            steps[slot] = 0
            if k < 0:
                continue
            rows = _load(rows, slot, *_columns(problem, k, plan.block_rows))
            state = _restart(state, _start(range(k, k + 1), K, start_of), slot)
            if nodes_of is not None and nodes is not None:
                nodes = nodes.at[slot].set(nodes_of(k))
    return done.outcome()


def near_prior(problem: Problem, wide: int) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """The prior, narrowed where it would give logits a standard deviation above `WIDEST_LOGIT`.

    The fixed point does not depend on the start, but from logits of ±1e12 no step finds the way.
    """
    D = problem.num_features
    with np.errstate(divide="ignore"):
        largest = np.abs(problem.features).max(axis=0) * problem.prior_scale * np.sqrt(D)
        narrow = np.minimum(1, WIDEST_LOGIT / largest)
    factor = np.eye(wide, dtype=problem.dtype)
    factor[np.arange(D), np.arange(D)] = narrow
    mean = np.zeros(wide, problem.dtype)
    return lambda _: (mean, factor)


def _start(
    outputs: range,
    num_outputs: int,
    start_of: Callable[[int], tuple[np.ndarray, np.ndarray]],
) -> FlowState:
    means, factors = zip(*(start_of(k % num_outputs) for k in outputs), strict=True)
    return start_flow(jnp.stack(means), jnp.stack(factors))


def _widened(rows: Rows, slots: int) -> Rows:
    """Slots beyond the outputs hold rows without targets; offsets get their own columns."""
    targets = jnp.pad(rows.targets, ((0, 0), (0, slots - rows.targets.shape[1]), (0, 0)))
    offsets = rows.offsets
    if offsets.shape[1] > 1:
        offsets = jnp.pad(offsets, ((0, 0), (0, slots - offsets.shape[1]), (0, 0)))
    return rows._replace(targets=targets, offsets=offsets)


def _columns(problem: Problem, k: int, block_rows: int) -> tuple[np.ndarray, np.ndarray | None]:
    blocks = -(-len(problem.features) // block_rows)
    one = slice(k, k + 1)
    targets = in_blocks(problem.targets[:, one], blocks, block_rows)[:, 0]
    if len(problem.prior_mean) == 1:
        return targets, None
    return targets, in_blocks(offsets_of(problem, one), blocks, block_rows)[:, 0]


@partial(jax.jit, donate_argnums=0)
def _set_column(stacked: Array, slot: Int[Array, ""] | int, column: Array) -> Array:
    return stacked.at[:, slot].set(column)


def _load(rows: Rows, slot: int, targets: np.ndarray, offsets: np.ndarray | None) -> Rows:
    rows = rows._replace(targets=_set_column(rows.targets, slot, targets))
    if offsets is None:
        return rows
    return rows._replace(offsets=_set_column(rows.offsets, slot, offsets))


@partial(jax.jit, donate_argnums=0)
def _restart(state: FlowState, fresh: FlowState, slot: Int[Array, ""] | int) -> FlowState:
    return jax.tree.map(lambda all_, one: all_.at[slot].set(one[0]), state, fresh)


def _finished(
    state: FlowState,
    info: FlowInfo,
    steps: np.ndarray,
    tolerance: float,
    num_steps: int,
    held: np.ndarray,
) -> np.ndarray:
    mean_residual, covariance_residual, damping, bound = jax.device_get(
        (info.mean_residual, info.covariance_residual, state.damping, state.bound)
    )
    if ((bound == -np.inf) & (held >= 0)).any():
        fail(
            "the likelihood is not finite at the prior; rescale the features, narrow "
            'prior_variance, or pass dtype="float64".'
        )
    converged = np.maximum(mean_residual, covariance_residual) <= tolerance
    # refused again and again, or relaxed to nothing because changes are noise
    stalled = (damping > 0) & (damping < SMALLEST_DAMPING)
    # The first evaluation is not a step that the caller asked for.
    return (converged | stalled | (steps > num_steps)) & (held >= 0)


class _Collector:
    """Finished outputs, on the host."""

    def __init__(self, problem: Problem, rank: int, num_steps: int) -> None:
        self.num_steps = num_steps
        K, D = problem.num_outputs, problem.num_features
        self.mean = np.zeros((K, D), problem.dtype)
        self.factor = np.zeros((K, D, min(rank, D)), problem.dtype)
        self.converged = np.zeros(K, bool)
        self.steps = np.zeros(K, int)
        self.time, self.mean_residual, self.covariance_residual = np.zeros((3, K))

    def take(
        self, k: int, slot: int, state: FlowState, info: FlowInfo, steps: int, tolerance: float
    ) -> None:
        """Copy one output's state; columns of padding are left behind."""
        _, D, r = self.factor.shape
        self.mean[k] = state.mean[slot, :D]
        self.factor[k] = state.factor[slot, :D, :r]
        self.time[k] = state.time[slot]
        self.steps[k] = steps - 1
        self.mean_residual[k] = info.mean_residual[slot]
        self.covariance_residual[k] = info.covariance_residual[slot]
        worst = max(self.mean_residual[k], self.covariance_residual[k])
        self.converged[k] = worst <= tolerance

    def _stop_reason(self) -> str:
        if self.converged.all():
            return ""
        if (self.steps[~self.converged] >= self.num_steps).any():
            return "the number of steps ran out"
        return "no step raises the evidence bound any more: round-off; try dtype='float64'"

    def outcome(self) -> Outcome:
        """All outputs together."""
        return Outcome(
            mean=self.mean,
            factor=self.factor,
            converged=self.converged,
            steps=self.steps,
            time=self.time,
            mean_residual=self.mean_residual,
            covariance_residual=self.covariance_residual,
            stop_reason=self._stop_reason(),
        )
