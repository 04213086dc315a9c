"""The Sentence Gestalt network: listening, answering, training, and how well it knows its world.

This package knows worlds but nothing of posteriors.
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
