"""Laplace's approximation: a Gaussian at the mode, with the curvature found there.

    m = argmax log p(t | θ) + log N(θ; m₀, P₀)          P⁻¹ = Ψᵀ diag(c y(1−y)) Ψ + P₀⁻¹ at m

Newton's method with the line search of `flow.py`: the same step with expectations taken at the mean
and the log posterior as merit. A reference, not a recommendation: where few rows decide, mode and
mean lie far apart (1.5 posterior sd on separable data) and probabilities come out too sure.
With a softmax likelihood the curvature between classes is left out.
"""

from dataclasses import dataclass

from equivocal.sampling.engine import bernoulli
from equivocal.sampling.engine.flow import FlowInfo, FlowState, flow_step
from equivocal.sampling.engine.flow_rule import FlowRule
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.result import Outcome
from equivocal.sampling.engine.rows import Rows
from equivocal.sampling.engine.settings import RunSettings
from equivocal.sampling.engine.shapes import PRNGKey
from equivocal.sampling.engine.softmax import softmax_mode_rule
from equivocal.sampling.samplers.mean_field import init, run_gaussian

__all__ = ["LaplaceConfig", "init", "run", "step"]

RULE = FlowRule(
    bernoulli.variance,
    bernoulli.at_the_mean,
    merit_has_spread=False,
    largest_damping=1.0,
    corrections=0,
)


@dataclass(frozen=True, kw_only=True)
class LaplaceConfig:
    """Nothing to choose."""


def step(
    key: PRNGKey, state: FlowState, rows: Rows, rule: FlowRule = RULE
) -> tuple[FlowState, FlowInfo]:
    """One Newton step with line search; deterministic, the key is not used."""
    del key
    return flow_step(state, rows, rule)


def run(problem: Problem, config: LaplaceConfig, settings: RunSettings) -> Outcome:
    """Find the mode and the curvature of all outputs."""
    del config
    softmax = problem.likelihood is Likelihood.SOFTMAX
    rule = softmax_mode_rule() if softmax else RULE
    return run_gaussian(problem, rule, settings)
