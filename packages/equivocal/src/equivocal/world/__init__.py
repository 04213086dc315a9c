"""Worlds: words, events and sentences with their exact probabilities.

A world is one TOML file (`docs/worlds.md`); `World.load` reads it, and everything else is reached
through `World`. This package does not depend on networks.
"""

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
