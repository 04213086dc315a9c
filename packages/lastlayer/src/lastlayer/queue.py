"""Run the flow for many outputs: a few in flight, each replaced by the next when it is done.

Outputs need different numbers of steps. A fixed group would wait for its slowest; here a slot that
has finished takes the next output, so one compiled program is always full. Within the tolerance, no
output's result depends on the others. The step itself, docs/maths.md (15), is in `flow`; here is
when it stops.

The residuals of a state come with the step that would follow. Where residuals fall fast, that last
step is taken without another sum over the rows, and the output has converged if its residual is
expected to be within the tolerance afterwards, given how much the step before brought it down (as
Newton iterations are stopped in Hairer and Wanner, Solving Ordinary Differential Equations II,
section IV.8). Where they fall slowly, the state itself must be within the tolerance.

The stopping rule (`History`, `_find_stalled` and their constants) may be changed here; the step
itself may not. Small problems have a simpler rule of their own, in `small`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from operator import length_hint

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.approach import start_nearby
from lastlayer.checks import fail
from lastlayer.compiling import Array, Bool, Int, compile_on_call
from lastlayer.flow import (
    FlowState,
    evaluate_proposal,
    evaluate_start,
    pick,
    propose,
    start_flow,
)
from lastlayer.likelihoods import FlowRule
from lastlayer.outcome import Outcome, Report
from lastlayer.plan import Plan, round_to_power_of_two
from lastlayer.problem import Problem, Start, start_near_prior
from lastlayer.products import Precision, Shared, share_rows
from lastlayer.rows import InMemory
from lastlayer.streaming import StreamedRows

SMALLEST_DAMPING = 1e-6  # a line search that ends here has stalled
# The last step is expected to multiply the residual by four times the factor of the step before,
# and never by less than a half: its mean is not corrected. On rows of a network under N(0, I) it
# fell to 0.2 in the median and to 0.6 at worst, which is 1.2 tolerances.
SAFETY, SMALLEST_CONTRACTION = 4.0, 0.5
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
    leave: int = 0,
) -> Outcome:
    """Flow every output to its fixed point.

    `nodes_of(k)` gives what the expectations of output k draw on, `start_of(k)` the mean and factor
    it starts from (None: `start_near_prior`, or `start_nearby` where outputs share products). Once
    at most `leave` outputs remain, they take one unchecked step and are returned unconverged.
    """
    K, independent = problem.num_outputs, start_of is None
    slots = plan.slots
    nodes = None if nodes_of is None else jnp.stack([nodes_of(k % K) for k in range(slots)])
    held = np.array([k if k < K else -1 for k in range(slots)])  # which output each slot works on
    data = _lay_out(problem, plan, held)
    start_of = start_of or _choose_start(problem, plan, rule, data)
    state = _start(range(slots), K, start_of)
    proposal, shared = state, _share(data, plan)
    queue, steps = iter(range(slots, K)), np.zeros(slots, int)
    outcome = _prepare_outcome(problem, state.factor.shape[-1])
    history = _start_history(slots, rule, shared)
    while (held >= 0).any():
        if shared is not None and independent and not steps.any():
            state = evaluate_start(state, data.rows, rule, shared)
        else:
            state = evaluate_proposal(state, proposal, data.rows, rule, nodes, shared)
        steps += 1
        proposal, info = propose(state, rule)
        # waits for the step, so that nothing still reads the rows that `data.load` replaces
        residuals = np.stack(jax.device_get(info))
        residual = residuals.max(axis=0)
        contraction = np.where(steps > num_steps, 1, history.expect_contraction(residual))
        converged = contraction * residual <= tolerance
        given_up = _find_stalled(state, steps, num_steps, held) | history.find_lost(residual)
        left = _find_last((held >= 0) & ~converged & ~given_up, 0 if length_hint(queue) else leave)
        finished = (converged | given_up | left) & (held >= 0)
        free = np.flatnonzero(finished)
        if len(free):
            moved = left | (converged & (contraction < 1))
            # after an unchecked step the mean may be off as far as the covariance was
            residuals = np.where(moved, contraction * residual, residuals)
            _collect(outcome, held[free], free, _merge(moved, proposal, state), residuals)
            outcome.converged[held[free]] = converged[free]
            outcome.steps[held[free]] = (steps - ~moved)[free]
            history.renew(free)
        held[free], steps[free] = -1, 0
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


def _lay_out(problem: Problem, plan: Plan, held: np.ndarray) -> InMemory | StreamedRows:
    """Lay out the rows of the outputs that are in flight first."""
    if plan.streamed:
        return StreamedRows(problem, plan, held.copy())
    return InMemory(problem, plan, len(held))


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


def _find_stalled(
    state: FlowState, steps: np.ndarray, num_steps: int, held: np.ndarray
) -> np.ndarray:
    """Return the slots whose line search has stalled, or whose steps have run out.

    Refuses a problem whose likelihood is not finite where it starts.
    """
    damping, bound = jax.device_get((state.damping, state.bound))
    if ((bound == -np.inf) & (held >= 0)).any():
        fail(
            "the likelihood is not finite at the prior; rescale the features, narrow "
            'prior_variance, or pass dtype="float64".'
        )
    # refused again and again, or relaxed to nothing because changes are noise
    stalled = (damping > 0) & (damping < SMALLEST_DAMPING)
    # The first evaluation is not a step that the caller asked for.
    return stalled | (steps > num_steps)


def _find_last(going: np.ndarray, leave: int) -> np.ndarray:
    """Return the slots that are going, if they are no more than `leave`."""
    return going & (going.sum() <= leave)


class History:
    """How the residual of each slot has fallen so far.

    A slot is lost when its residual, below `near`, has not fallen by the factor `enough` within
    `patience` steps: round-off keeps it from falling further.
    """

    def __init__(
        self, slots: int, patience: float | int = np.inf, enough: float = 1.0, near: float = np.inf
    ) -> None:
        self._patience, self._enough, self._near = patience, enough, near
        self._last, self._least = np.full(slots, np.inf), np.full(slots, np.inf)
        self._waited = np.zeros(slots, int)

    def expect_contraction(self, residual: np.ndarray) -> np.ndarray:
        """Return the factors by which the next step is expected to multiply the residuals.

        1 where the residual did not fall, or no earlier one is known.
        """
        with np.errstate(invalid="ignore"):
            factor = np.clip(SAFETY * residual / self._last, SMALLEST_CONTRACTION, 1)
        known = np.isfinite(self._last) & np.isfinite(factor)
        self._last = residual.copy()
        return np.where(known, factor, 1)

    def find_lost(self, residual: np.ndarray) -> np.ndarray:
        """Return the slots that are lost."""
        better = residual < self._enough * self._least
        self._least = np.where(better, residual, self._least)
        self._waited = np.where(better, 0, self._waited + 1)
        return (self._waited >= self._patience) & (residual < self._near)

    def renew(self, slots: np.ndarray) -> None:
        """Start again for slots that take other outputs."""
        self._last[slots] = self._least[slots] = np.inf
        self._waited[slots] = 0


def _start_history(slots: int, rule: FlowRule, shared: Shared | None) -> History:
    """Return a history that gives slots up where products are rounded or shared, not elsewhere."""
    if shared is not None:
        return History(slots, SHARED_PATIENCE, SHARED_GAIN, NEAR)
    return History(slots) if rule.precision is Precision.FULL else History(slots, PATIENCE, GAIN)


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
    residuals: np.ndarray,
) -> None:
    """Copy finished outputs to the host, all at once; columns of padding are left behind."""
    assert outcome.factor is not None
    _, D, r = outcome.factor.shape
    outcome.mean_residual[outputs], outcome.covariance_residual[outputs] = residuals[:, slots]
    found = (state.mean, state.factor, state.time)
    if state.factor.nbytes > CHEAP_TO_COPY:
        found = _pick(found, np.resize(slots, round_to_power_of_two(len(slots))))
        slots = np.arange(len(slots))
    mean, factor, time = (leaf[slots] for leaf in jax.device_get(found))
    outcome.mean[outputs], outcome.factor[outputs] = mean[:, :D], factor[:, :D, :r]
    outcome.time[outputs] = time


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
