"""The limit of infinitely many particles: the Gaussian N(m, P) that fits the posterior best.

Its fixed point is docs/maths.md (5), with g and H of (6) by quadrature along each row's logit:

    P⁻¹ = Ψᵀ diag(c E[y(1−y)]) Ψ + P₀⁻¹          Ψᵀ(c E[y] − t) + P₀⁻¹ (m − m₀) = 0

These are the optimality conditions of Gaussian variational inference (Opper and Archambeau 2009,
Neural Computation 21:786), and what the deterministic sampler (arXiv:2309.04742) tends to as J → ∞.
`flow.py` has the step; here expectations are exact and no particle is carried. Applies to any
number of rows and features, separable data included; what it cannot see is skewness, and `info`
says when that matters.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer import likelihoods
from lastlayer.compiling import PRNGKey, compile_on_call
from lastlayer.devices import find_largest_anywhere
from lastlayer.flow import FlowInfo, FlowState, flow_step, start_flow
from lastlayer.likelihoods import FlowRule
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.plan import Plan, make_plan
from lastlayer.problem import (
    Problem,
    Start,
    sample_rows,
    start_near_prior,
)
from lastlayer.products import Precision, count_products, rotate
from lastlayer.queue import run_flow
from lastlayer.rows import Rows
from lastlayer.small import count_bytes as count_small_bytes
from lastlayer.small import flow_small, is_small

RULE = FlowRule(
    likelihoods.compute_variance, likelihoods.average_by_quadrature, largest_damping=1.0
)
NUM_STEPS = 1_000  # what is not astronomical needs about ten
SHARED_STEPS = 30  # what needs more is left to more careful products
FEW = 8  # of so many outputs one may be left to NumPy, which takes thrice as long for each
MANY_ROWS, SHARE, ROUGH = 100_000, 16, 0.05

Fit = tuple[np.ndarray, np.ndarray]  # mean (K, D) and factor (K, D, D) of the weights


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """The method has no options."""


def init(num_outputs: int, num_features: int) -> FlowState:
    """Start at the prior, in coordinates where it is N(0, I)."""
    identity = jnp.broadcast_to(jnp.eye(num_features), (num_outputs, num_features, num_features))
    return start_flow(jnp.zeros((num_outputs, num_features)), identity)


def step(
    key: PRNGKey, state: FlowState, rows: Rows, rule: FlowRule = RULE, nodes: Any = None
) -> tuple[FlowState, FlowInfo]:
    """Take one damped step; it is deterministic, the key is not used."""
    del key
    return flow_step(state, rows, rule, nodes)


def run(problem: Problem, config: FlowConfig, settings: RunSettings) -> Outcome:
    """Flow all outputs from the prior to the fixed point."""
    del config
    return run_gaussian(problem, RULE, settings)


def run_gaussian(
    problem: Problem,
    rule: FlowRule,
    settings: RunSettings,
    *,
    start: Fit | None = None,
    plain: bool = False,
    many_rows: int = MANY_ROWS,
    share: int = SHARE,
) -> Outcome:
    """Run the flow to maths (5), with a full covariance and no nodes; Laplace is a case of it.

    It begins at `start`, means (K, D) and factors (K, D, D) of the weights, as a run with another
    prior found them. Without one it begins at the prior, or nearer (`engine.approach`); from
    `many_rows` on with about every `share`-th row: the steps that find the way are then cheap, and
    all rows are needed only for the last few. Small problems are solved in NumPy (`engine.small`);
    larger ones share products of all outputs (`engine.products`) up to a size, unless a number of
    steps is given. With `plain` neither is done, as with rows in a file: these then have the bits
    of rows in memory.
    """
    free = settings.num_steps is None
    found = None
    if start is not None:
        scale = problem.prior_scale
        found = (start[0] - problem.prior_mean) / scale, start[1] / scale[:, None]
    elif free and find_largest_anywhere(problem.num_rows) >= many_rows:
        few = sample_rows(problem, share)
        roughly = replace(settings, tolerance=max(ROUGH, settings.tolerance), report=None)
        rough = run_gaussian(few, rule, roughly, plain=plain)
        assert rough.factor is not None, "a flow gives a factor"
        found = rough.mean, rough.factor
    if plain:
        plan = _plan_flow(problem, settings, share=False)
        outcome = _run_plain(problem, rule, settings, plan, found)
    elif is_small(problem, rule, settings):
        outcome = _run_small(problem, rule, settings, found)
    else:
        outcome = _run_compiled(problem, rule, settings, found)
    assert outcome.factor is not None, "a flow gives a factor"
    outcome.factor = make_triangular(outcome.factor)
    return outcome


def count_bytes(problem: Problem, settings: RunSettings, rule: FlowRule) -> int:
    """Return the bytes of the smallest budget in which the problem is solved, by any way."""
    ways = (False, True) if _may_share(settings) else (False,)
    needs = [_plan_flow(problem, settings, share=share).least for share in ways]
    if is_small(problem, rule, settings):
        # a budget without room for it would have to be solved by programs, with other bits
        needs.append(count_small_bytes(problem))
    return max(needs)


def count_plain_bytes(problem: Problem, settings: RunSettings) -> int:
    """Return the same where a run is `plain`."""
    return _plan_flow(problem, settings, share=False).least


def _run_small(
    problem: Problem,
    rule: FlowRule,
    settings: RunSettings,
    found: Fit | None,
    share: bool = True,
) -> Outcome:
    """Flow in NumPy, then by compiled programs those outputs that did not converge."""
    D = problem.num_features
    start = start_near_prior(problem, D) if found is None else _start_from(*found, D)
    outcome = flow_small(problem, settings.tolerance, start, near=found is not None)
    rest = np.flatnonzero(~outcome.converged)
    if len(rest):
        begun = None if found is None else (found[0][rest], found[1][rest])
        _put(outcome, rest, _run_compiled(problem.select(rest), rule, settings, begun, share))
    settings.tell(problem.num_outputs, problem.num_outputs)
    return outcome


def _run_compiled(
    problem: Problem,
    rule: FlowRule,
    settings: RunSettings,
    found: Fit | None,
    share: bool = True,
) -> Outcome:
    """Flow by the products that a plan chooses: those that outputs share only if they may."""
    plan = _plan_flow(problem, settings, share=share and _may_share(settings))
    run = _run_shared if plan.shared else _run_plain
    return run(problem, rule, settings, plan, found)


def _may_share(settings: RunSettings) -> bool:
    """Return whether outputs may share products."""
    return settings.num_steps is None and settings.precision is Precision.FULL


def _plan_flow(problem: Problem, settings: RunSettings, *, share: bool) -> Plan:
    D = problem.num_features
    sizes = {"per_output": 8 * (D + 8) ** 2, "per_row": 3 * D + 24}
    return make_plan(problem, settings.memory_budget, **sizes, pad=True, share=share)


def _run_plain(
    problem: Problem,
    rule: FlowRule,
    settings: RunSettings,
    plan: Plan,
    found: Fit | None,
    leave: int = 0,
) -> Outcome:
    """Flow by the products of the plan, from what was found before or the prior."""
    # rounding moves the bound that the line search watches by a share of its D nats
    slack = rule.slack + problem.num_features * settings.precision.unit
    return run_flow(
        problem,
        plan,
        rule._replace(precision=settings.precision, slack=slack),
        tolerance=settings.tolerance,
        num_steps=settings.num_steps or NUM_STEPS,
        report=settings.tell,
        start_of=None if found is None else _start_from(*found, plan.num_features),
        leave=leave,
    )


def _run_shared(
    problem: Problem,
    rule: FlowRule,
    settings: RunSettings,
    plan: Plan,
    found: Fit | None,
) -> Outcome:
    """Flow by products that outputs share, then in another way those that did not converge.

    The last few outputs are solved in NumPy: a step of the program would take as long for them as
    for all, and a program for fewer outputs would have to be compiled.
    """
    turned, U = rotate(problem)
    if found is not None:
        found = found[0] @ U, U.T @ found[1]
    few = 0 if settings.compiled else _count_last(problem, rule, plan)
    limited = replace(settings, num_steps=SHARED_STEPS)
    outcome = _run_plain(turned, rule, limited, plan, found, leave=few)
    assert outcome.factor is not None, "a flow gives a factor"
    outcome.mean, outcome.factor = outcome.mean @ U.T, U @ outcome.factor
    rest = np.flatnonzero(~outcome.converged)
    if len(rest):
        some = problem.select(rest)
        left = outcome.mean[rest], outcome.factor[rest]
        near = left if all(np.isfinite(part).all() for part in left) else None
        quiet = replace(settings, report=None)  # the progress has reached its end
        run = _run_small if len(rest) <= few else _run_compiled
        _put(outcome, rest, run(some, rule, quiet, near, share=False))
    return outcome


def _count_last(problem: Problem, rule: FlowRule, plan: Plan) -> int:
    """Return how many outputs may be left to NumPy: a share of them, and no more than fit.

    The space is that of the compiled programs' own sums, which are over by then. A GPU is left
    none: it takes another step for all outputs in a tenth of the time.
    """
    if rule.expectation is not RULE.expectation or jax.default_backend() != "cpu":
        return 0
    D = problem.num_features
    room = 8 * plan.slots + (count_products(D) // plan.parts if plan.parts else 0)
    return min(problem.num_outputs // FEW, room // (D + 8))


def make_triangular(factor: np.ndarray) -> np.ndarray:
    """Return the lower triangular G with the same GGᵀ, whatever way the flow took to its own.

    Draws are m + G times noise, so that they then depend on the posterior alone.
    """
    # a GPU takes 5 ms for 176 matrices of 101 × 101, its host's LAPACK 70
    if jax.default_backend() == "cpu":
        return np.ascontiguousarray(_triangulate(factor, np))
    return np.asarray(_triangulate_on_device(factor, jnp))


def _triangulate(factor: Any, xp: Any) -> Any:
    upper = xp.linalg.qr(factor.swapaxes(1, 2), mode="r")
    sign = xp.where(xp.diagonal(upper, axis1=1, axis2=2) < 0, -1, 1).astype(factor.dtype)
    return (upper * sign[..., None]).swapaxes(1, 2)


_triangulate_on_device = compile_on_call(static_argnames="xp")(_triangulate)


def _put(outcome: Outcome, outputs: np.ndarray, found: Outcome) -> None:
    """Put what a second run found of some outputs in the place of what the first did."""
    names = ("mean", "factor", "converged", "mean_residual", "covariance_residual")
    for name in names:
        getattr(outcome, name)[outputs] = getattr(found, name)
    outcome.steps[outputs] += found.steps
    outcome.time[outputs] += found.time
    outcome.stop_reason = found.stop_reason


def _start_from(mean: np.ndarray, factor: np.ndarray, wide: int) -> Start:
    """Start where another run of the flow ended, filled up to `wide` columns."""
    fill = wide - mean.shape[1]

    def start_of(k: int) -> tuple[np.ndarray, np.ndarray]:
        if not fill:
            return mean[k], factor[k]
        filled = np.pad(factor[k], (0, fill))
        filled[range(-fill, 0), range(-fill, 0)] = 1
        return np.pad(mean[k], (0, fill)), filled

    return start_of
