"""Kinds of uncertainty side by side: posteriors over some or all layers, ensembles, MC dropout.

comprehenders  several networks in the place of one, what they believe together, and their files
members        members sampled from a posterior, by deep ensembles and by MC dropout
scores         distance from the exact beliefs of the world; detection of reversals
comparison     every kind under every score
answers        what a network answers under each kind, at every strength
frontier       errors on reversals against errors on congruent sentences
usefulness     errors along what was learned; strengths chosen without knowing the truth
"""

from equivocal.uncertainty.comprehenders import Comprehenders
from equivocal.uncertainty.members import make_deep_ensemble, make_mc_dropout, sample_comprehenders
from equivocal.uncertainty.scores import enumerate_truth, find_reversals

__all__ = [
    "Comprehenders",
    "enumerate_truth",
    "find_reversals",
    "make_deep_ensemble",
    "make_mc_dropout",
    "sample_comprehenders",
]
