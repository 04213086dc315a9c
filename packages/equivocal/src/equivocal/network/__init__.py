"""The Sentence Gestalt network: its equations, its training, its answers and their accuracy.

This package depends on worlds, but not on posteriors.
"""

from equivocal.network.probing import Network, features, score
from equivocal.network.runs import Run, train
from equivocal.network.sentence_gestalt import QueryNetwork, SentenceGestalt, UpdateNetwork
from equivocal.network.settings import RECIPES, TrainingSettings
from equivocal.network.training import EpochReport, OnEpoch

__all__ = [
    "RECIPES",
    "EpochReport",
    "Network",
    "OnEpoch",
    "QueryNetwork",
    "Run",
    "SentenceGestalt",
    "TrainingSettings",
    "UpdateNetwork",
    "features",
    "score",
    "train",
]
