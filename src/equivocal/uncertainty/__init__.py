"""Kinds of doubt side by side: posteriors over some or all layers, and their rivals.

comprehenders  networks that differ where they doubt, and what they believe together
posteriors     posteriors over the last layer, the query network or all of it
rivals         deep ensembles and MC dropout
truth          scores against the exact beliefs of the world
reversals      can doubt tell reversed sentences from congruent ones?
keeping        ensembles on disk, found again
record         what shaped a comparison, for its settings file
comparing      every kind under every score
telling        which is most like the truth, in one sentence
figures        all kinds, drawn
"""

from equivocal.uncertainty.comparing import KINDS, compare_kinds
from equivocal.uncertainty.comprehenders import Comprehenders
from equivocal.uncertainty.posteriors import LAYERS, posterior_of
from equivocal.uncertainty.reversals import reversals_of
from equivocal.uncertainty.rivals import deep_ensemble, mc_dropout
from equivocal.uncertainty.truth import truth_of

__all__ = [
    "KINDS",
    "LAYERS",
    "Comprehenders",
    "compare_kinds",
    "deep_ensemble",
    "mc_dropout",
    "posterior_of",
    "reversals_of",
    "truth_of",
]
