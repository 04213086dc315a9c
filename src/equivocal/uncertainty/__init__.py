"""Kinds of uncertainty side by side: posteriors over some or all layers, ensembles, MC dropout.

comprehenders  several networks in the place of one, and what they believe together
posteriors     members sampled from a posterior over the last layer, the query network or all
baselines      members by deep ensembles and by MC dropout
members        members in files
truth          scores against the exact beliefs of the world
reversals      does uncertainty tell reversed sentences from congruent ones?
comparison     every kind under every score
"""

from equivocal.uncertainty.baselines import make_deep_ensemble, make_mc_dropout
from equivocal.uncertainty.comparison import KINDS, score_kinds, summarise_scores
from equivocal.uncertainty.comprehenders import Comprehenders
from equivocal.uncertainty.posteriors import LAYERS, sample_comprehenders
from equivocal.uncertainty.reversals import find_reversals
from equivocal.uncertainty.truth import enumerate_truth

__all__ = [
    "KINDS",
    "LAYERS",
    "Comprehenders",
    "enumerate_truth",
    "find_reversals",
    "make_deep_ensemble",
    "make_mc_dropout",
    "sample_comprehenders",
    "score_kinds",
    "summarise_scores",
]
