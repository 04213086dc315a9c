"""Laplace's approximation: a Gaussian at the mode, with the curvature found there.

    m = argmax log p(t | θ) + log N(θ; m₀, P₀)          P⁻¹ = Ψᵀ diag(c y(1−y)) Ψ + P₀⁻¹ at m

which is docs/maths.md (5) with the averages of (6) taken at the mean.

Newton's method with the line search of `flow.py`: the step of `mean_field`, with expectations taken
at the mean and the log posterior as merit. A reference, not a recommendation: where the posterior
rests on few rows, mode and mean lie far apart (1.5 posterior sd on separable data) and
probabilities are overconfident.
"""

from dataclasses import dataclass

from lastlayer import likelihoods
from lastlayer.likelihoods import FlowRule
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Problem
from lastlayer.variational import init, run_gaussian, step

__all__ = ["RULE", "LaplaceConfig", "init", "run", "step"]  # `step` is given `RULE`

RULE = FlowRule(
    likelihoods.compute_variance,
    likelihoods.evaluate_at_mean,
    merit_has_spread=False,
    largest_damping=1.0,
    corrections=0,
)


@dataclass(frozen=True, kw_only=True)
class LaplaceConfig:
    """The method has no options."""


def run(problem: Problem, config: LaplaceConfig, settings: RunSettings) -> Outcome:
    """Find the mode and the curvature of all outputs."""
    del config
    return run_gaussian(problem, RULE, settings)
