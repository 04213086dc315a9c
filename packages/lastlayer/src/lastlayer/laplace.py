"""Laplace's approximation: a Gaussian at the mode, with the curvature found there.

    m = argmax log p(t | θ) + log N(θ; m₀, P₀)          P⁻¹ = Ψᵀ diag(c y(1−y)) Ψ + P₀⁻¹ at m

which is docs/maths.md (5) with the averages of (6) taken at the mean.

Newton's method with the line search of `flow.py`: the route of `variational`, with expectations
taken at the mean and the log posterior as merit. A reference, not a recommendation: where the
posterior rests on few rows, mode and mean lie far apart (1.5 posterior sd on separable data) and
probabilities are overconfident.
"""

from lastlayer.flow import FlowRule
from lastlayer.logits import evaluate_at_mean
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Problem
from lastlayer.variational import FlowConfig, fit_gaussian

RULE = FlowRule(evaluate_at_mean, merit_has_spread=False, corrections=0)


def run(problem: Problem, config: FlowConfig, settings: RunSettings) -> Outcome:
    """Find the mode and the curvature of all outputs."""
    del config
    return fit_gaussian(problem, settings, RULE)
