"""Worlds: words, events and sentences with their exact probabilities.

A world is one TOML file (docs/guides/worlds.md); `World.load` reads it; everything else is reached
through `World`. This package does not depend on networks.

Names are imported when first used, so that the command line starts at once.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import import_name

if TYPE_CHECKING:
    from equivocal.world.corpus import Corpus
    from equivocal.world.errors import (
        ImpossibleSentenceError,
        UnknownWordError,
        WorldError,
        WorldSizeWarning,
    )
    from equivocal.world.loading import list_shipped_worlds, read_example
    from equivocal.world.reversals import find_plausibility_items, find_role_reversals
    from equivocal.world.spelling import Utterance
    from equivocal.world.world import World

__all__ = [
    "Corpus",
    "ImpossibleSentenceError",
    "UnknownWordError",
    "Utterance",
    "World",
    "WorldError",
    "WorldSizeWarning",
    "find_plausibility_items",
    "find_role_reversals",
    "list_shipped_worlds",
    "read_example",
]

_NAMES = {  # by module
    "corpus": "Corpus",
    "errors": "ImpossibleSentenceError UnknownWordError WorldError WorldSizeWarning",
    "loading": "list_shipped_worlds read_example",
    "reversals": "find_plausibility_items find_role_reversals",
    "spelling": "Utterance",
    "world": "World",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
