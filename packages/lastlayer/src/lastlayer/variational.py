"""The fixed point: the Gaussian N(m, P) that fits the posterior best. One route for every size.

It is the limit of infinitely many particles, maths.md (5), with g and H of (6) by quadrature
along each row's logit:

    P⁻¹ = Ψᵀ diag(c E[y(1−y)]) Ψ + P₀⁻¹          Ψᵀ(c E[y] − t) + P₀⁻¹ (m − m₀) = 0

These are the optimality conditions of Gaussian variational inference (Opper and Archambeau 2009,
Neural Computation 21:786), and what the deterministic sampler (arXiv:2309.04742) tends to as J → ∞.
For yes/no outputs there is only one such point, since the bound (4) is concave in m and in a factor
of P (Challis and Barber 2013, JMLR 14:2239). Applies to any number of rows and features, separable
data included; what it cannot see is skewness, and `info` says when that matters. Particles

    θ_j = m + √(J−1) G e_j,   E Eᵀ = I,  E 1 = 0          maths.md (16)

are drawn when they are first used, with exactly these moments where J > D.

The steps are those of `flow`. Their sums over rows are made in three places: in NumPy where
compiling would take longer than computing (a first call on 300 rows takes 1.3 s compiled and 5 ms
so), by products that outputs share (`shared`; 2.1 times faster than by blocks), or by blocks, which
serve any rows. What does not converge in one place goes on in the next.

An output has stopped when it has converged or when its steps no longer help (`Residuals`), by the
same rule everywhere. The residuals of a state come with the step that would follow. Where residuals
fall fast, that last step is taken without another sum over the rows, and the output has converged
if its residual is expected to be within the tolerance afterwards, given how much the step before
brought it down (as Newton iterations are stopped in Hairer and Wanner, Solving Ordinary
Differential Equations II, section IV.8). Where they fall slowly, the state itself must be within
the tolerance.

The constants may be changed: they affect the number of steps, not the fixed point.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.checks import fail
from lastlayer.compiling import compile_on_call
from lastlayer.covariance import make_triangular
from lastlayer.flow import FlowRule, FlowState, evaluate_proposal, pick, propose, start_flow
from lastlayer.logits import average_by_quadrature
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Problem, narrow_prior, sample_rows
from lastlayer.rows import Plan, choose_limit, iterate_outputs, lay_out, make_plan, plan_to_share
from lastlayer.shared import (
    approach,
    evaluate_shared,
    evaluate_start,
    rotate,
    share_rows,
    turn,
)

RULE = FlowRule(average_by_quadrature)
NUM_STEPS = 1_000  # what is not astronomical needs about ten
NUM_SHARED_STEPS = 30  # what needs more is left to sums by blocks, which lose no digits
# Largest K N (D² + AVERAGING) for NumPy: a step then takes a core about 30 ms.
MOST_NUMPY_WORK, AVERAGING = 1 << 29, 1 << 12
LAST_SHARE = 8  # one in so many outputs may be left to NumPy, which takes thrice as long for each
# From so many rows on a run begins with about every so many-th of them, to a rough tolerance.
MANY_ROWS, ROW_SHARE, ROUGH_TOLERANCE = 100_000, 16, 0.05

SMALLEST_DAMPING = 1e-6  # a line search that ends here has stalled
# The last step is expected to multiply the residual by four times the factor of the step before,
# and never by less than a half: its mean is not corrected. On rows of a network under N(0, I) it
# fell to 0.2 in the median and to 0.6 at worst, which is 1.2 tolerances.
SAFETY, SMALLEST_CONTRACTION = 4.0, 0.5
# Below `ROUND_OFF_NEAR` a residual must fall by a factor within so many steps, or it is round-off
# that keeps it from falling further; sooner where other sums would go on from there.
ROUND_OFF_NEAR = 0.05
PATIENCE, SHARED_PATIENCE = (6, 0.9), (2, 0.7)

Fit = tuple[np.ndarray, np.ndarray]  # mean (K, D) and factor (K, D, D) of the weights


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """The method has no options."""


def run(problem: Problem, config: FlowConfig, settings: RunSettings) -> Outcome:
    """Flow all outputs from the prior to the fixed point."""
    del config
    return fit_gaussian(problem, settings)


def fit_gaussian(problem: Problem, settings: RunSettings, rule: FlowRule = RULE) -> Outcome:
    """Run the flow to maths (5).

    It begins at the prior; with many rows a part of them finds the way, where steps are cheap.
    """
    near = None
    if settings.num_steps is None and problem.num_rows >= MANY_ROWS:
        rough = max(ROUGH_TOLERANCE, settings.tolerance)
        few = sample_rows(problem, ROW_SHARE)
        near = get_fit(fit_gaussian(few, replace(settings, tolerance=rough, report=None), rule))
    outcome, left = _prepare_outcome(problem), np.arange(problem.num_outputs)
    for flow in _choose_ways(problem, settings):
        some = problem if len(left) == problem.num_outputs else problem.select(left)
        part = flow(some, settings, rule, near)
        _put(outcome, left, part)
        left = left[~part.converged]
        if not len(left):
            break
        mean, factor = (part[left] for part in get_fit(outcome))
        finite = np.isfinite(mean).all() and bool(np.isfinite(factor.sum()))
        near = (mean, factor) if finite else None
    settings.tell(problem.num_outputs, problem.num_outputs)
    outcome.stop_reason = _explain_stop(outcome, settings)
    if isinstance(outcome.factor, np.ndarray) and jax.default_backend() == "cpu":
        outcome.factor = make_triangular(outcome.factor)
    return outcome


def get_fit(outcome: Outcome) -> Fit:
    """Return the mean and the factor of a Gaussian."""
    assert outcome.factor is not None, "a flow gives a factor"
    return outcome.mean, outcome.factor


def _choose_ways(problem: Problem, settings: RunSettings) -> Iterator[Any]:
    """Yield the places where sums are made, one after another as long as outputs are left."""
    D, in_numpy = problem.num_features, False
    if settings.num_steps is None:
        work = problem.num_outputs * problem.num_rows * (D * D + AVERAGING)
        in_numpy = work <= MOST_NUMPY_WORK
        plan = plan_to_share(problem, settings.memory_budget, 8 * (D + 8) ** 2)
        if plan is not None and not in_numpy:
            # A GPU takes another step for all outputs in a tenth of NumPy's time for the last few.
            last = problem.num_outputs // LAST_SHARE if jax.default_backend() == "cpu" else 0
            yield partial(_flow_shared, plan=plan, leave=last)
            in_numpy = last > 0
    if in_numpy:
        yield _flow_in_numpy
    yield _flow_by_blocks


def _flow_in_numpy(
    problem: Problem, settings: RunSettings, rule: FlowRule, near: Fit | None
) -> Outcome:
    outcome, outputs = _prepare_outcome(problem), np.arange(problem.num_outputs)
    rows = lay_out(problem, outputs, problem.num_rows, on_device=False)
    state = start_flow(*_list_starts(problem, near, outputs, problem.num_features))
    way = Way(rows, rule, settings.tolerance, NUM_SHARED_STEPS)
    _collect(outcome, outputs, way.flow(state), settings)
    return outcome


def _flow_by_blocks(
    problem: Problem, settings: RunSettings, rule: FlowRule, near: Fit | None
) -> Outcome:
    D, K = problem.num_features, problem.num_outputs
    sizes = {"per_output": 8 * (D + 8) ** 2, "per_row": 3 * D + 24}
    plan = make_plan(problem, settings.memory_budget, **sizes)
    outcome = _prepare_outcome(problem)
    for places, rows in iterate_outputs(problem, plan):
        start = _list_starts(problem, near, places, plan.num_features)
        way = Way(rows, rule, settings.tolerance, settings.num_steps or NUM_STEPS)
        ending = way.flow(start_flow(*map(jax.device_put, start)))
        _collect(outcome, places, ending, settings)
        settings.tell(min(int(places[0]) + len(places), K), K)
    return outcome


def _flow_shared(
    problem: Problem,
    settings: RunSettings,
    rule: FlowRule,
    near: Fit | None,
    plan: Plan,
    leave: int,
) -> Outcome:
    outcome = _prepare_outcome(problem)
    features: Any = None
    shared: Any = None
    for places, plain in iterate_outputs(problem, plan):
        if features is None:
            features, U = rotate(plain.features, problem.row_counts)
            shared = share_rows(features, plan.products)
        rows = plain._replace(features=features)
        if near is None:
            state = evaluate_start(start_flow(*approach(rows, rule)), rows, rule, shared)
        else:
            state = start_flow(*turn(U.T, near[0][places], near[1][places]))
            state = evaluate_shared(state, state, rows, rule, shared)
        way = Way(rows, rule, settings.tolerance, NUM_SHARED_STEPS, shared, leave)
        ending = way.flow(state)
        mean, factor = turn(U, ending.state.mean, ending.state.factor)
        moved = ending.state._replace(mean=mean, factor=factor)
        _collect(outcome, places, replace(ending, state=moved), settings)
    return outcome


def _list_starts(problem: Problem, near: Fit | None, places: np.ndarray, wide: int) -> Fit:
    """Return where outputs start, filled up to `wide` columns: at the prior, or nearer."""
    K, D, kind = len(places), problem.num_features, problem.dtype
    mean, factor = np.zeros((K, wide), kind), np.zeros((K, wide, wide), kind)
    factor[:, range(wide), range(wide)] = 1
    if near is None:
        factor[:, range(D), range(D)] = narrow_prior(problem)
    else:
        mean[:, :D], factor[:, :D, :D] = near[0][places], near[1][places]
    return mean, factor


@dataclass(frozen=True, eq=False)
class Ending:
    """Where the outputs of a group ended."""

    state: FlowState
    residuals: np.ndarray  # (2, K), of the mean and of the covariance
    converged: np.ndarray  # (K,)
    steps: np.ndarray  # (K,)


@dataclass(frozen=True, eq=False)
class Way:
    """Rows of a group of outputs and how they are summed, and when to stop."""

    rows: Any
    rule: FlowRule
    tolerance: float
    num_steps: int
    shared: Any = None
    leave: int = 0  # so many outputs that remain take one unchecked step and are left unconverged

    def evaluate(self, state: FlowState, proposal: FlowState) -> FlowState:
        """Return the state after a step."""
        if self.shared is None:
            return evaluate_proposal(state, proposal, self.rows, self.rule)
        return evaluate_shared(state, proposal, self.rows, self.rule, self.shared)

    def flow(self, state: FlowState) -> Ending:
        """Take steps until every output has stopped."""
        K = len(state.mean)
        history = Residuals(K, *(PATIENCE if self.shared is None else SHARED_PATIENCE))
        proposal = final = state
        done, converged = np.zeros(K, bool), np.zeros(K, bool)
        residuals, taken = np.full((2, K), np.inf), np.zeros(K, int)
        for steps in range(self.num_steps + 1):
            if steps or self.shared is None:
                state = self.evaluate(state, proposal)
            proposal, info = propose(state)
            here = np.stack(jax.device_get(info))
            residual, last = here.max(axis=0), steps == self.num_steps
            contraction = 1 if last else history.expect_contraction(residual)
            good = contraction * residual <= self.tolerance
            stop = ~done & (good | last | _find_stalled(state) | history.find_lost(residual))
            left = ~(done | stop)
            if left.sum() > self.leave:
                left &= False
            moved = left | (stop & good & (contraction < 1))
            if (stop | left).any():
                final = _keep(stop | left, _keep(moved, proposal, state), final)
            # after an unchecked step the mean may be off as far as the covariance was
            ended = np.where(moved, contraction * residual, here)
            residuals = np.where(stop | left, ended, residuals)
            taken = np.where(stop | left, steps + moved, taken)
            converged, done = converged | (stop & good), done | stop | left
            if done.all():
                break
        return Ending(final, residuals, converged, taken)


class Residuals:
    """How the residual of each output has fallen so far."""

    def __init__(self, number: int, patience: int, enough: float) -> None:
        self._patience, self._enough = patience, enough
        self._last, self._least = np.full(number, np.inf), np.full(number, np.inf)
        self._waited = np.zeros(number, int)

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
        """Return the outputs whose residual, small as it is, round-off keeps from falling."""
        better = residual < self._enough * self._least
        self._least = np.where(better, residual, self._least)
        self._waited = np.where(better, 0, self._waited + 1)
        return (self._waited >= self._patience) & (residual < ROUND_OFF_NEAR)


def _find_stalled(state: FlowState) -> np.ndarray:
    """Return the outputs whose line search has stalled.

    Refuses a problem whose likelihood is not finite where it starts.
    """
    damping, bound = jax.device_get((state.damping, state.bound))
    if (bound == -np.inf).any():
        fail(
            "the likelihood is not finite at the prior; rescale the features, narrow "
            'prior_variance, or pass dtype="float64".'
        )
    # refused again and again, or relaxed to nothing because changes are noise
    return np.asarray((damping > 0) & (damping < SMALLEST_DAMPING))


def _keep(which: np.ndarray, chosen: FlowState, other: FlowState) -> FlowState:
    if isinstance(chosen.mean, np.ndarray):
        kept: FlowState = jax.tree.map(partial(pick, which), chosen, other)
        return kept
    return _keep_on_device(jax.device_put(which), chosen, other)


@compile_on_call()
def _keep_on_device(which: jax.Array, chosen: FlowState, other: FlowState) -> FlowState:
    return jax.tree.map(partial(pick, which), chosen, other)


def _prepare_outcome(problem: Problem) -> Outcome:
    """Return an outcome to fill in as outputs finish."""
    K, D = problem.num_outputs, problem.num_features
    mean, factor = np.zeros((K, D), problem.dtype), np.zeros((K, D, D), problem.dtype)
    return Outcome(mean=mean, factor=factor, time=np.zeros(K))


def _collect(outcome: Outcome, places: np.ndarray, ending: Ending, settings: RunSettings) -> None:
    """Copy outputs to the host, but for factors that stay on a GPU; without columns of padding."""
    D, state = outcome.mean.shape[1], ending.state
    mean, time = jax.device_get((state.mean, state.time))
    factor = state.factor[:, :D, :D]
    if isinstance(factor, np.ndarray) or not _keeps_on_device(outcome, settings):
        outcome.factor[places] = np.asarray(factor)
    elif len(places) == len(outcome.mean):
        outcome.factor = factor
    else:
        if isinstance(outcome.factor, np.ndarray):  # of the first group
            outcome.factor = jnp.zeros(outcome.factor.shape, factor.dtype)
        outcome.factor = outcome.factor.at[places].set(factor)
    outcome.mean[places] = mean[:, :D]
    outcome.time[places], outcome.steps[places] = time, ending.steps
    outcome.converged[places] = ending.converged
    outcome.mean_residual[places], outcome.covariance_residual[places] = ending.residuals


def _keeps_on_device(outcome: Outcome, settings: RunSettings) -> bool:
    if settings.keep_on_device is not None:
        return settings.keep_on_device
    return jax.default_backend() != "cpu" and outcome.factor.nbytes <= choose_limit(None)


def _put(outcome: Outcome, outputs: np.ndarray, part: Outcome) -> None:
    """Put what a run of some outputs found in the place of what was known before."""
    for name in ("mean", "converged", "mean_residual", "covariance_residual"):
        getattr(outcome, name)[outputs] = getattr(part, name)
    if len(outputs) == len(outcome.mean):
        outcome.factor = part.factor
    elif isinstance(outcome.factor, np.ndarray):
        outcome.factor[outputs] = np.asarray(part.factor)
    else:
        outcome.factor = outcome.factor.at[outputs].set(part.factor)
    outcome.steps[outputs] += part.steps
    outcome.time[outputs] += part.time


def _explain_stop(outcome: Outcome, settings: RunSettings) -> str:
    """Say why outputs that did not converge stopped."""
    if outcome.converged.all():
        return ""
    if (outcome.steps[~outcome.converged] >= (settings.num_steps or NUM_STEPS)).any():
        return "the number of steps ran out"
    return "no step raises the evidence bound any more: round-off; try dtype='float64'"
