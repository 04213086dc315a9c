"""The limit of infinitely many particles: the Gaussian N(m, P) that fits the posterior best.

Its fixed point is docs/maths.md (5), with g and H of (6) by quadrature along each row's logit:

    P⁻¹ = Ψᵀ diag(c E[y(1−y)]) Ψ + P₀⁻¹          Ψᵀ(c E[y] − t) + P₀⁻¹ (m − m₀) = 0

These are the optimality conditions of Gaussian variational inference (Opper and Archambeau 2009,
Neural Computation 21:786), and what the deterministic sampler (arXiv:2309.04742) tends to as J → ∞.
`flow.py` has the step; here expectations are exact and no particle is carried. Applies to any
number of rows and features, separable data included; what it cannot see is skewness, and `info`
says when that matters. With a softmax likelihood the weights of different classes are independent
under q.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine import likelihoods
from equivocal.sampling.engine.flow import FlowInfo, FlowState, flow_step, start_flow
from equivocal.sampling.engine.likelihoods import FlowRule, make_softmax_rule
from equivocal.sampling.engine.placement import find_largest_anywhere
from equivocal.sampling.engine.plan import make_plan
from equivocal.sampling.engine.problem import Likelihood, Problem, sample_rows
from equivocal.sampling.engine.queue import run_flow
from equivocal.sampling.engine.rows import Rows
from equivocal.sampling.engine.settings import Outcome, RunSettings
from equivocal.sampling.engine.shapes import PRNGKey
from equivocal.sampling.engine.starts import Start, start_near_end

RULE = FlowRule(
    likelihoods.compute_variance, likelihoods.average_by_quadrature, largest_damping=1.0
)
NUM_STEPS = 1_000  # what is not astronomical needs about ten
MANY_ROWS, SHARE, ROUGH = 100_000, 16, 0.05


@dataclass(frozen=True, kw_only=True)
class MeanFieldConfig:
    """Nothing to choose."""


def choose_rule(problem: Problem) -> FlowRule:
    """Return the rule with exact expectations for the problem's likelihood."""
    if problem.likelihood is Likelihood.SOFTMAX:
        return make_softmax_rule(problem.num_outputs)
    return RULE


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


def run(problem: Problem, config: MeanFieldConfig, settings: RunSettings) -> Outcome:
    """Flow all outputs from the prior to the fixed point."""
    del config
    return run_gaussian(problem, choose_rule(problem), settings)


def run_gaussian(
    problem: Problem,
    rule: FlowRule,
    settings: RunSettings,
    *,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    many_rows: int = MANY_ROWS,
    share: int = SHARE,
) -> Outcome:
    """Run the flow with a full covariance and no nodes; Laplace is a case of it too.

    It begins at `start`, means (K, D) and factors (K, D, D) of the weights, as a run with another
    prior found them. Without one it begins near the end (`start_near_end`); from `many_rows` on,
    with about every `share`-th row: the steps that find the way are then cheap, and all rows are
    needed only for the last few. A given number of steps is taken from the prior.
    """
    D = problem.num_features
    plan = make_plan(
        problem,
        settings.memory_budget,
        per_output=8 * (D + 8) ** 2,
        per_row=3 * D + 24,
        pad=True,
        keep=not rule.joint,
    )
    start_of = None
    if start is not None:
        w = (start[0] - problem.prior_mean) / problem.prior_scale
        start_of = _start_from(w, start[1] / problem.prior_scale[:, None], plan.num_features)
    elif settings.num_steps is None and find_largest_anywhere(problem.num_rows) >= many_rows:
        few = sample_rows(problem, share)
        roughly = replace(settings, tolerance=max(ROUGH, settings.tolerance), report=None)
        found = run_gaussian(few, rule, roughly)
        assert found.factor is not None, "a flow gives a factor"
        start_of = _start_from(found.mean, found.factor, plan.num_features)
    elif settings.num_steps is None and plan.keep:
        start_of = start_near_end(problem, plan.num_features)
    outcome = run_flow(
        problem,
        plan,
        # rounding moves the bound that the line search watches by a share of its D nats
        rule._replace(
            precision=settings.precision,
            slack=rule.slack + D * settings.precision.unit,
            keep=plan.keep,
        ),
        tolerance=settings.tolerance,
        num_steps=settings.num_steps or NUM_STEPS,
        report=settings.tell,
        start_of=start_of,
    )
    assert outcome.factor is not None, "a flow gives a factor"
    outcome.factor = make_triangular(outcome.factor)
    return outcome


def make_triangular(factor: np.ndarray) -> np.ndarray:
    """Return the lower triangular G with the same GGᵀ, whatever way the flow took to its own.

    Draws are m + G times noise, so that they then depend on the posterior alone.
    """
    upper = np.asarray(np.linalg.qr(factor.swapaxes(1, 2), mode="r"))
    sign = np.where(np.diagonal(upper, axis1=1, axis2=2) < 0, -1, 1).astype(factor.dtype)
    return np.ascontiguousarray((upper * sign[..., None]).swapaxes(1, 2))


def _start_from(mean: np.ndarray, factor: np.ndarray, wide: int) -> Start:
    """Start where another run of the flow ended, filled up to `wide` columns."""
    fill = wide - mean.shape[1]

    def start_of(k: int) -> tuple[np.ndarray, np.ndarray]:
        filled = np.pad(factor[k], (0, fill))
        filled[range(-fill, 0), range(-fill, 0)] = 1
        return np.pad(mean[k], (0, fill)), filled

    return start_of
