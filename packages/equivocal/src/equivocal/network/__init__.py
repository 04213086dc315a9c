"""The Sentence Gestalt network: its equations, its training, its answers and their accuracy.

This package depends on worlds, but not on posteriors.

Names are imported when first used, so that the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
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

_NAMES = {  # by module
    "probing": "Network features score",
    "runs": "Run train",
    "sentence_gestalt": "QueryNetwork SentenceGestalt UpdateNetwork",
    "settings": "RECIPES TrainingSettings",
    "training": "EpochReport OnEpoch",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
