"""The Sentence Gestalt network: its equations, its training, its answers and their accuracy.

This package depends on worlds, but not on posteriors.
"""

from equivocal.gestalt.network import QueryNetwork, SentenceGestalt, UpdateNetwork
from equivocal.gestalt.probing import Network, features, score
from equivocal.gestalt.runs import STRENGTHS, DecayChoice, Run, choose_decay, cross_validate, train
from equivocal.gestalt.settings import RECIPES, TrainingSettings
from equivocal.gestalt.training import EpochReport, OnEpoch

__all__ = [
    "RECIPES",
    "STRENGTHS",
    "DecayChoice",
    "EpochReport",
    "Network",
    "OnEpoch",
    "QueryNetwork",
    "Run",
    "SentenceGestalt",
    "TrainingSettings",
    "UpdateNetwork",
    "choose_decay",
    "cross_validate",
    "features",
    "score",
    "train",
]
