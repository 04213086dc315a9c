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
    from equivocal.world.grammar import name_role_unit
    from equivocal.world.loading import list_shipped_worlds, read_example, split_world_name
    from equivocal.world.queries import PrefixTree, Queries
    from equivocal.world.reversals import (
        PLAUSIBILITY,
        PlausibilityItem,
        RoleReversal,
        find_plausibility_items,
        find_role_reversals,
    )
    from equivocal.world.spelling import Constituent, Utterance
    from equivocal.world.world import MAX_SAMPLE, Event, Sentence, World

__all__ = [
    "MAX_SAMPLE",
    "PLAUSIBILITY",
    "Constituent",
    "Corpus",
    "Event",
    "ImpossibleSentenceError",
    "PlausibilityItem",
    "PrefixTree",
    "Queries",
    "RoleReversal",
    "Sentence",
    "UnknownWordError",
    "Utterance",
    "World",
    "WorldError",
    "WorldSizeWarning",
    "find_plausibility_items",
    "find_role_reversals",
    "list_shipped_worlds",
    "name_role_unit",
    "read_example",
    "split_world_name",
]

_NAMES = {  # by module
    "corpus": "Corpus",
    "errors": "ImpossibleSentenceError UnknownWordError WorldError WorldSizeWarning",
    "grammar": "name_role_unit",
    "loading": "list_shipped_worlds read_example split_world_name",
    "queries": "PrefixTree Queries",
    "reversals": "PLAUSIBILITY PlausibilityItem RoleReversal "
    "find_plausibility_items find_role_reversals",
    "spelling": "Constituent Utterance",
    "world": "Event MAX_SAMPLE Sentence World",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    return import_name(__name__, _HOME, name)
