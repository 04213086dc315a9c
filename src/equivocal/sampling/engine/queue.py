"""Runs the flow for many outputs: a few in flight, each replaced by the next when it is done.

Outputs need different numbers of steps. A fixed group would wait for its slowest; here a slot that
has finished takes the next output, so one compiled program is always full. No output's result
depends on its neighbours.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.flow import FlowInfo, FlowState, flow_step, start_flow
from equivocal.sampling.engine.flow_rule import FlowRule
from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.engine.plan import Plan, power_of_two
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.result import Outcome
from equivocal.sampling.engine.rows import in_blocks, lay_out, local_blocks, offsets_of, turned
from equivocal.sampling.engine.shapes import Array, Int
from equivocal.sampling.engine.streaming import FromDisk, StreamedProblem

__all__ = ["Start", "run_flow"]

Start = Callable[[int], tuple[np.ndarray, np.ndarray]]  # mean and factor of an output

WIDEST_LOGIT = 3.0
SMALLEST_DAMPING = 1e-6  # a line search that ends here has stalled
PATIENCE = 6  # steps
CHEAP_TO_COPY = 1 << 26  # bytes of state that go to the host whole


def run_flow(
    problem: Problem,
    plan: Plan,
    rule: FlowRule,
    *,
    tolerance: float,
    num_steps: int,
    nodes_of: Callable[[int], np.ndarray] | None = None,
    start_of: Start | None = None,
) -> Outcome:
    """Flow every output to its fixed point.

    `nodes_of(k)` gives what the expectations of output k draw on, `start_of(k)` the mean and factor
    it starts from (None: the prior, or narrower, see `near_prior`).
    """
    K, wide = problem.num_outputs, plan.num_features
    start_of = start_of or near_prior(problem, wide)
    slots = K if rule.joint else plan.slots
    data: InMemory | FromDisk
    if isinstance(problem, StreamedProblem):
        data = FromDisk(problem, plan, slots)
    else:
        data = InMemory(problem, plan, slots)
    state = _start(range(slots), K, start_of)
    nodes = None if nodes_of is None else jnp.stack([nodes_of(k % K) for k in range(slots)])
    held = np.array([k if k < K else -1 for k in range(slots)])  # which output each slot works on
    queue = iter(range(slots, K))
    steps = np.zeros(slots, int)
    done = _Collector(problem, state.factor.shape[-1], num_steps, rule.precision)
    patience = _Patience(slots)
    while (held >= 0).any():
        state, info = flow_step(state, data.rows, rule, nodes)
        steps += 1
        finished = _finished(state, info, steps, tolerance, num_steps, held)
        if rule.precision is not Precision.FULL:
            finished |= patience.lost(info) & (held >= 0)
        if rule.joint and not finished.all():
            continue
        if finished.any():
            done.take(held[finished], np.flatnonzero(finished), state, info, steps, tolerance)
        free = np.flatnonzero(finished)
        held[free], steps[free] = -1, 0
        patience.renew(free)
        following = list(islice(queue, len(free)))
        if not following:
            continue
        size = _padded_size(len(following), slots)
        free, outputs = np.resize(free[: len(following)], size), np.resize(following, size)
        held[free] = outputs
        data.load(free, outputs)
        state = _restart(state, _start(outputs, K, start_of), free)
        if nodes_of is not None and nodes is not None:
            nodes = nodes.at[free].set(jnp.stack([nodes_of(int(k)) for k in outputs]))
    return done.outcome()


def near_prior(problem: Problem, wide: int) -> Start:
    """The prior, narrowed where it would give logits a standard deviation above `WIDEST_LOGIT`.

    The fixed point does not depend on the start, but from logits of ±1e12 no step finds the way.
    """
    D = problem.num_features
    with np.errstate(divide="ignore"):
        largest = problem.largest * problem.prior_scale * np.sqrt(D)
        narrow = np.minimum(1, WIDEST_LOGIT / largest)
    factor = np.eye(wide, dtype=problem.dtype)
    factor[np.arange(D), np.arange(D)] = narrow
    mean = np.zeros(wide, problem.dtype)
    return lambda _: (mean, factor)


def _start(
    outputs: Iterable[int] | np.ndarray,
    num_outputs: int,
    start_of: Start,
) -> FlowState:
    means, factors = zip(*(start_of(k % num_outputs) for k in outputs), strict=True)
    # stacked on the host: handing arrays to a GPU one by one takes longer than the flow
    return start_flow(jnp.asarray(np.stack(means)), jnp.asarray(np.stack(factors)))


class InMemory:
    """The rows of the outputs in flight, and how a slot gets another output."""

    def __init__(self, problem: Problem, plan: Plan, slots: int) -> None:
        self._problem, self._block_rows = problem, plan.block_rows
        rows = lay_out(problem, slice(0, slots), plan.block_rows, num_features=plan.num_features)
        # slots beyond the outputs hold rows without targets; offsets get their own columns
        targets = _widened(rows.targets, slots)
        offsets = rows.offsets if rows.offsets.shape[1] == 1 else _widened(rows.offsets, slots)
        self.rows = rows._replace(targets=targets, offsets=offsets)

    def load(self, slots: np.ndarray, outputs: np.ndarray) -> None:
        """Give slots to other outputs."""
        targets = self._columns(self._problem.targets[:, outputs])
        self.rows = self.rows._replace(targets=_set_columns(self.rows.targets, slots, targets))
        if len(self._problem.prior_mean) > 1:
            offsets = self._columns(offsets_of(self._problem, outputs))
            self.rows = self.rows._replace(offsets=_set_columns(self.rows.offsets, slots, offsets))

    def _columns(self, columns: np.ndarray) -> Array:
        blocks = local_blocks(self._problem, self._block_rows)
        return turned(in_blocks(columns, blocks, self._block_rows))


def _widened(columns: Array, slots: int) -> Array:
    return jnp.pad(columns, ((0, 0), (0, slots - columns.shape[1]), (0, 0)))


@partial(jax.jit, donate_argnums=0)
def _set_columns(stacked: Array, slots: Int[Array, " n"], columns: Array) -> Array:
    return stacked.at[:, slots].set(columns)


@partial(jax.jit, donate_argnums=0)
def _restart(state: FlowState, fresh: FlowState, slots: Int[Array, " n"]) -> FlowState:
    return jax.tree.map(lambda every, some: every.at[slots].set(some), state, fresh)


def _padded_size(number: int, most: int) -> int:
    """The next of 1, 16, 256, …, or the most there can be, so that few programs are compiled."""
    size = 1
    while size < number:
        size *= 16
    return min(size, most)


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


class _Patience:
    """Tells where rounded products keep the residuals from falling any further."""

    def __init__(self, slots: int) -> None:
        self._least, self._waited = np.full(slots, np.inf), np.zeros(slots, int)

    def lost(self, info: FlowInfo) -> np.ndarray:
        """Slots whose residual has not fallen by a tenth for `PATIENCE` steps."""
        residual = np.maximum(*jax.device_get(info[:2]))
        better = residual < 0.9 * self._least
        self._least = np.where(better, residual, self._least)
        self._waited = np.where(better, 0, self._waited + 1)
        return self._waited >= PATIENCE

    def renew(self, slots: np.ndarray) -> None:
        """For other outputs."""
        self._least[slots], self._waited[slots] = np.inf, 0


@jax.jit
def _picked(leaves: tuple[Array, ...], slots: Int[Array, " n"]) -> tuple[Array, ...]:
    return tuple(leaf[slots] for leaf in leaves)


class _Collector:
    """Finished outputs, on the host."""

    def __init__(self, problem: Problem, rank: int, num_steps: int, precision: Precision) -> None:
        self.num_steps, self.precision = num_steps, precision
        K, D = problem.num_outputs, problem.num_features
        self.mean = np.zeros((K, D), problem.dtype)
        self.factor = np.zeros((K, D, min(rank, D)), problem.dtype)
        self.converged = np.zeros(K, bool)
        self.steps = np.zeros(K, int)
        self.time, self.mean_residual, self.covariance_residual = np.zeros((3, K))

    def take(
        self,
        outputs: np.ndarray,
        slots: np.ndarray,
        state: FlowState,
        info: FlowInfo,
        steps: np.ndarray,
        tolerance: float,
    ) -> None:
        """Copy what finished, all at once; columns of padding are left behind."""
        _, D, r = self.factor.shape
        found = (state.mean, state.factor, state.time, *info[:2])
        if state.factor.nbytes > CHEAP_TO_COPY:
            found = _picked(found, np.resize(slots, power_of_two(len(slots))))
            slots_there = np.arange(len(slots))
        else:
            slots_there = slots
        mean, factor, time, *residuals = (leaf[slots_there] for leaf in jax.device_get(found))
        self.mean[outputs] = mean[:, :D]
        self.factor[outputs] = factor[:, :D, :r]
        self.time[outputs] = time
        self.steps[outputs] = steps[slots] - 1
        self.mean_residual[outputs], self.covariance_residual[outputs] = residuals
        self.converged[outputs] = np.maximum(*residuals) <= tolerance

    def _stop_reason(self) -> str:
        if self.converged.all():
            return ""
        if (self.steps[~self.converged] >= self.num_steps).any():
            return "the number of steps ran out"
        if self.precision is not Precision.FULL:
            return f"{self.precision} products are too coarse for it; try precision='full'"
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
