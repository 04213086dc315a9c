"""Mixed models with crossed random effects: linear, and logistic for yes/no answers.

fits      random effects, with correlations; what a fit estimates; pooling over networks
linear    normal noise: `fit_mixed`
logistic  answers and proportions, by the Laplace approximation: `fit_logistic`
blocks    the curvature of a logistic model, as the block matrix that crossed groups make it
"""

from equivocal.statistics.fits import LEVEL, MixedFit, RandomPart, check_trials
from equivocal.statistics.linear import fit_mixed
from equivocal.statistics.logistic import LogisticFit, find_separation, fit_logistic

__all__ = [
    "LEVEL",
    "LogisticFit",
    "MixedFit",
    "RandomPart",
    "check_trials",
    "find_separation",
    "fit_logistic",
    "fit_mixed",
]
