"""The Sentence Gestalt network: its equations, its training, its answers and their accuracy.

This package depends on worlds, but not on posteriors.

Names are imported when first used, so that the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from equivocal.network.probing import Network, features
    from equivocal.network.runs import Run, train
    from equivocal.network.sentence_gestalt import SentenceGestalt
    from equivocal.network.settings import RECIPES, TrainingSettings

__all__ = ["RECIPES", "Network", "Run", "SentenceGestalt", "TrainingSettings", "features", "train"]

_NAMES = {  # by module
    "probing": "Network features",
    "runs": "Run train",
    "sentence_gestalt": "SentenceGestalt",
    "settings": "RECIPES TrainingSettings",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
