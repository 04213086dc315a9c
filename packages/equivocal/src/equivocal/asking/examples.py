"""Sentences to begin with, found in the world itself: congruent, reversed.

The worlds that have the paper's words show its own pair as well. A new group of examples belongs in
`find_examples`.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from equivocal.asking.source import PAPER_PAIR
from equivocal.asking.vocabulary import Vocabulary, find_indicated_roles
from equivocal.world import Constituent, World

__all__ = ["Example", "find_examples"]

PAPER_WORLDS = ("paper", "slips")  # worlds with the paper's words
PLACES = ("location", "place")  # roles whose words take an article
EACH = 3  # examples of each kind


class Example(NamedTuple):
    """A sentence with its label and group, and perhaps a second one to compare it with."""

    group: str
    label: str
    sentence: str
    compare: str | None = None


def find_examples(world: World) -> list[Example]:
    """Find example sentences for a world."""
    pair = []
    if world.name in PAPER_WORLDS:
        congruent, reversal = PAPER_PAIR
        pair = [
            Example("The paper's pair", "the pizza eats the woman", reversal),
            Example("The paper's pair", "both, side by side", congruent, reversal),
        ]
    found = islice(_find_reversals(world), EACH)
    usual = [tuple(_add_articles(world, text) for text in both) for both in found]
    return [
        *pair,
        *(Example("Congruent", text, text) for text, _ in usual),
        *(Example("Reversed", reverse, reverse, text) for text, reverse in usual),
    ]


def _add_articles(world: World, text: str) -> str:
    """Put "the" before participants and places, which the parser skips."""
    utterance = world.parse(text)
    roles = find_indicated_roles(world, utterance)
    named = (*Vocabulary.from_world(world).participants, *PLACES)
    words = {roles[role] for role in named if role in roles}

    def say(part: Constituent) -> str:
        if part.word not in words:
            return part.text
        marker = part.text[: -len(part.word)] if part.marker else ""
        return f"{marker}the {part.word}"

    return " ".join(say(part) for part in utterance)


def _find_reversals(world: World) -> Iterator[tuple[str, str]]:
    """Yield probable sentences of different actions, each with its reversal."""
    participants = Vocabulary.from_world(world).participants
    seen: set[str] = set()
    for sentence in world.sentences:
        utterance = world.parse(sentence.text)
        roles = find_indicated_roles(world, utterance)
        action, said = roles.get("action", ""), [r for r in participants if r in roles]
        if action in seen or len(said) < 2 or len(roles) != len(utterance):
            continue
        seen.add(action)
        first, second = roles[said[0]], roles[said[1]]
        swap = {first: second, second: first}
        words = [swap.get(part.word, part.text) for part in utterance]
        yield sentence.text, " ".join(words)
