"""Run the flow for many outputs: a few in flight, each replaced by the next when it is done.

Outputs need different numbers of steps. A fixed group would wait for its slowest; here a slot that
has finished takes the next output, so one compiled program is always full. No output's result
depends on its neighbours. The step itself, docs/maths.md (15), is in `flow`; here is when it stops.

The stopping rule (`_find_finished`, `Patience` and their constants) may be changed here; the step
itself may not.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from operator import length_hint

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.approach import start_nearby
from equivocal.sampling.engine.flow import (
    FlowInfo,
    FlowState,
    evaluate_proposal,
    evaluate_start,
    pick,
    propose,
    start_flow,
)
from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.engine.likelihoods import FlowRule
from equivocal.sampling.engine.plan import Plan, round_to_power_of_two
from equivocal.sampling.engine.problem import Problem, Start, start_near_prior
from equivocal.sampling.engine.products import Precision, Shared, share_rows
from equivocal.sampling.engine.programs import Array, Bool, Int, compile_on_call
from equivocal.sampling.engine.rows import InMemory
from equivocal.sampling.engine.settings import Outcome, Report
from equivocal.sampling.engine.streaming import StreamedRows

SMALLEST_DAMPING = 1e-6  # a line search that ends here has stalled
PATIENCE, GAIN = 6, 0.9  # steps in which rounded products must bring the residual down to this
# The same where outputs share products, once it is small: other products then go on from there.
NEAR, SHARED_PATIENCE, SHARED_GAIN = 0.05, 2, 0.7
CHEAP_TO_COPY = 1 << 26  # bytes of state that go to the host whole


def run_flow(
    problem: Problem,
    plan: Plan,
    rule: FlowRule,
    *,
    tolerance: float,
    num_steps: int,
    report: Report,
    nodes_of: Callable[[int], np.ndarray] | None = None,
    start_of: Start | None = None,
) -> Outcome:
    """Flow every output to its fixed point.

    `nodes_of(k)` gives what the expectations of output k draw on, `start_of(k)` the mean and factor
    it starts from (None: `start_near_prior`, or `start_nearby` where outputs share products).
    """
    K, independent = problem.num_outputs, start_of is None
    slots = K if rule.joint else plan.slots
    nodes = None if nodes_of is None else jnp.stack([nodes_of(k % K) for k in range(slots)])
    held = np.array([k if k < K else -1 for k in range(slots)])  # which output each slot works on
    data: InMemory | StreamedRows
    if plan.streamed:
        data = StreamedRows(problem, plan, held.copy())
    else:
        data = InMemory(problem, plan, slots)
    start_of = start_of or _choose_start(problem, plan, rule, data)
    state = _start(range(slots), K, start_of)
    shared = _share(data, plan)
    queue, steps = iter(range(slots, K)), np.zeros(slots, int)
    outcome = _prepare_outcome(problem, state.factor.shape[-1])
    patience = _choose_patience(slots, rule, shared)
    proposal = state
    while (held >= 0).any():
        if shared is not None and independent and not steps.any():
            state = evaluate_start(state, data.rows, rule, shared)
        else:
            state = evaluate_proposal(state, proposal, data.rows, rule, nodes, shared)
        steps += 1
        proposal, info = propose(state, rule)
        converged, given_up = _find_finished(state, info, steps, tolerance, num_steps, held)
        given_up |= patience.find_lost(info)
        finished = (converged | given_up) & (held >= 0)
        if rule.joint and not finished.all():
            continue
        free = np.flatnonzero(finished)
        if len(free):
            # from so near the fixed point a step is safe: its rows need not be summed
            ended = _merge(converged, proposal, state)
            taken = steps[free] - ~converged[free]
            _collect(outcome, held[free], free, ended, info, taken, tolerance)
        held[free], steps[free] = -1, 0
        patience.renew(free)
        report(K - length_hint(queue) - int((held >= 0).sum()), K)
        following = list(islice(queue, len(free)))
        if not following:
            continue
        size = _choose_padded_size(len(following), slots)
        free, outputs = np.resize(free[: len(following)], size), np.resize(following, size)
        held[free] = outputs
        data.load(free, outputs)
        fresh = _start(outputs, K, start_of)
        state, proposal = (_restart(each, fresh, free) for each in (state, proposal))
        if nodes_of is not None and nodes is not None:
            nodes = nodes.at[free].set(jnp.stack([nodes_of(int(k)) for k in outputs]))
    outcome.stop_reason = _explain_stop(outcome, num_steps, rule.precision)
    return outcome


def _choose_start(
    problem: Problem, plan: Plan, rule: FlowRule, data: InMemory | StreamedRows
) -> Start:
    """Start at the prior, or nearer where outputs share products."""
    if plan.shared and isinstance(data, InMemory):
        return start_nearby(problem, rule, plan, data.rows)
    return start_near_prior(problem, plan.num_features)


def _share(data: InMemory | StreamedRows, plan: Plan) -> Shared | None:
    """Return what all outputs share, if anything."""
    if not (plan.shared and isinstance(data, InMemory)):
        return None
    return share_rows(data.rows.features, plan.parts, plan.held)


def _start(outputs: Iterable[int] | np.ndarray, num_outputs: int, start_of: Start) -> FlowState:
    means, factors = zip(*(start_of(int(k) % num_outputs) for k in outputs), strict=True)
    # stacked on the host: handing arrays to a GPU one by one takes longer than the flow
    return start_flow(*map(jax.device_put, (np.stack(means), np.stack(factors))))


@compile_on_call()
def _restart(state: FlowState, fresh: FlowState, slots: Int[Array, " n"]) -> FlowState:
    return jax.tree.map(lambda every, some: every.at[slots].set(some), state, fresh)


def _choose_padded_size(number: int, most: int) -> int:
    """Return the next of 1, 16, 256, …, or the most there can be, so that few programs compile."""
    size = 1
    while size < number:
        size *= 16
    return min(size, most)


@compile_on_call()
def _merge(which: Bool[Array, " K"], chosen: FlowState, other: FlowState) -> FlowState:
    return jax.tree.map(partial(pick, which), chosen, other)


def _find_finished(
    state: FlowState,
    info: FlowInfo,
    steps: np.ndarray,
    tolerance: float,
    num_steps: int,
    held: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return which slots have converged and which have to give up.

    Waits for the step, so that nothing still reads its inputs.
    """
    residuals, damping, bound = jax.device_get((info, state.damping, state.bound))
    if ((bound == -np.inf) & (held >= 0)).any():
        fail(
            "the likelihood is not finite at the prior; rescale the features, narrow "
            'prior_variance, or pass dtype="float64".'
        )
    converged = np.maximum(*residuals) <= tolerance
    # refused again and again, or relaxed to nothing because changes are noise
    stalled = (damping > 0) & (damping < SMALLEST_DAMPING)
    # The first evaluation is not a step that the caller asked for.
    return converged, ~converged & (stalled | (steps > num_steps))


class Patience:
    """Detects slots whose residuals are kept from falling further by round-off."""

    def __init__(self, slots: int, steps: int | float, gain: float, near: float = np.inf) -> None:
        self._steps, self._gain, self._near = steps, gain, near
        self._least, self._waited = np.full(slots, np.inf), np.zeros(slots, int)

    def find_lost(self, info: FlowInfo) -> np.ndarray:
        """Return the slots that are near, and have not gained enough for so many steps."""
        residual = np.maximum(*jax.device_get(info))
        better = residual < self._gain * self._least
        self._least = np.where(better, residual, self._least)
        self._waited = np.where(better, 0, self._waited + 1)
        return (self._waited >= self._steps) & (residual < self._near)

    def renew(self, slots: np.ndarray) -> None:
        """Start again for slots that take other outputs."""
        self._least[slots], self._waited[slots] = np.inf, 0


def _choose_patience(slots: int, rule: FlowRule, shared: Shared | None) -> Patience:
    """Return how long to wait where products are rounded or shared; elsewhere for ever."""
    if shared is not None:
        return Patience(slots, SHARED_PATIENCE, SHARED_GAIN, NEAR)
    full = rule.precision is Precision.FULL
    return Patience(slots, np.inf if full else PATIENCE, GAIN)


def _prepare_outcome(problem: Problem, rank: int) -> Outcome:
    """Return an outcome to fill in as outputs finish."""
    K, D = problem.num_outputs, problem.num_features
    return Outcome(
        mean=np.zeros((K, D), problem.dtype),
        factor=np.zeros((K, D, min(rank, D)), problem.dtype),
        converged=np.zeros(K, bool),
        steps=np.zeros(K, int),
        time=np.zeros(K),
        mean_residual=np.zeros(K),
        covariance_residual=np.zeros(K),
    )


def _collect(
    outcome: Outcome,
    outputs: np.ndarray,
    slots: np.ndarray,
    state: FlowState,
    info: FlowInfo,
    steps: np.ndarray,
    tolerance: float,
) -> None:
    """Copy what finished to the host, all at once; columns of padding are left behind."""
    assert outcome.factor is not None
    _, D, r = outcome.factor.shape
    found = (state.mean, state.factor, state.time, *info)
    if state.factor.nbytes > CHEAP_TO_COPY:
        found = _pick(found, np.resize(slots, round_to_power_of_two(len(slots))))
        slots = np.arange(len(slots))
    mean, factor, time, *residuals = (leaf[slots] for leaf in jax.device_get(found))
    outcome.mean[outputs], outcome.factor[outputs] = mean[:, :D], factor[:, :D, :r]
    outcome.time[outputs], outcome.steps[outputs] = time, steps
    outcome.mean_residual[outputs], outcome.covariance_residual[outputs] = residuals
    outcome.converged[outputs] = np.maximum(*residuals) <= tolerance


@compile_on_call()
def _pick(leaves: tuple[Array, ...], slots: Int[Array, " n"]) -> tuple[Array, ...]:
    return tuple(leaf[slots] for leaf in leaves)


def _explain_stop(outcome: Outcome, num_steps: int, precision: Precision) -> str:
    """Say why outputs that did not converge stopped."""
    if outcome.converged.all():
        return ""
    if (outcome.steps[~outcome.converged] >= num_steps).any():
        return "the number of steps ran out"
    if precision is not Precision.FULL:
        return f"{precision} products are too coarse for it; try precision='full'"
    return "no step raises the evidence bound any more: round-off; try dtype='float64'"
