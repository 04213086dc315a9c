"""Checks of worlds too large to enumerate: a few events are drawn, and small parts enumerated.

Two events that noise makes alike are seldom drawn together. So two events of an action are drawn,
and all events of that action that have no other words: who acted on whom, and the reverse of it.
"""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equivocal.world.corpus import Corpus
from equivocal.world.derivations import bound_derivations, draw_derivations, enumerate_derivations
from equivocal.world.errors import WorldSizeWarning
from equivocal.world.grammar import NO_FILLER, Action, Choice, Grammar
from equivocal.world.noise_checks import refuse_indistinct

if TYPE_CHECKING:
    from equivocal.world.world import World

__all__ = ["check_large_world"]

DRAWN = 500  # events
PARTS = 40  # of the world, each with the words of two events
MAX_PART = 10_000  # derivations of a part


def check_large_world(world: "World") -> None:
    """Draw some sentences, which may find a fault, and look for meanings that noise makes alike.

    Warns where even a small part of the world has too many derivations to look for them.
    """
    drawn = draw_derivations(world.grammar, DRAWN, np.random.default_rng(0)).fillers
    if not world.has_noise:
        return
    for part in _list_parts(world.grammar, drawn):
        if bound_derivations(part) > MAX_PART:
            warnings.warn(
                f"world {world.name!r} is too large to check whether its noise leaves a way to "
                "tell meanings apart.",
                WorldSizeWarning,
                stacklevel=4,
            )
            return
        heard, meant = (
            Corpus(world, enumerate_derivations(each))
            for each in (part, replace(part, disturbances=()))
        )
        refuse_indistinct(heard, meant)


def _list_parts(grammar: Grammar, events: NDArray[np.int32]) -> Iterator[Grammar]:
    """Yield grammars of one action each, with the words of two events."""
    ordered = events[np.argsort(events[:, grammar.action_role], kind="stable")]
    action = ordered[:, grammar.action_role]
    pairs = np.flatnonzero(action[1:] == action[:-1])
    chosen = pairs[:: max(-(-len(pairs) // PARTS), 1)]
    by_word = {each.word: each for each in grammar.actions}
    for row in chosen:
        words = np.append(ordered[row : row + 2], NO_FILLER)
        yield replace(grammar, actions=(_limit_words(by_word[int(action[row])], words),))


def _limit_words(action: Action, words: NDArray[np.int32]) -> Action:
    """Return an action whose events have these words only; they keep their probabilities."""
    choices = tuple(
        (role, tuple(_limit_choice(choice, words) for choice in rules))
        for role, rules in action.choices
    )
    return replace(action, choices=choices)


def _limit_choice(choice: Choice, words: NDArray[np.int32]) -> Choice:
    kept = np.isin(choice.fillers, words)
    return replace(choice, fillers=choice.fillers[kept], probabilities=choice.probabilities[kept])
