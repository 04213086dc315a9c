"""Sentences to begin with, found in the world itself: usual ones, reversed ones, garden paths."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.vocabulary import Vocabulary, indicated_roles
from equivocal.world import World
from equivocal.world.prefixes import NO_NODE

__all__ = ["Example", "examples_of"]

PAPER_PAIR = ("during dinner, the woman eats the pizza", "during dinner, the pizza eats the woman")
EACH = 3  # examples of a kind
LED = 0.6  # a garden path makes at least so sure of what then is not so
MOST_BELIEFS = 50_000_000  # pairs × units that may be looked through for garden paths


@dataclass(frozen=True)
class Example:
    """A sentence with a name and the group it is shown in; perhaps one beside it."""

    group: str
    label: str
    sentence: str
    compare: str | None = None


def examples_of(world: World) -> list[Example]:
    """Ready-made sentences for a world."""
    pair = []
    if world.name == "paper":
        congruent, reversal = PAPER_PAIR
        pair = [
            Example("The paper's pair", "the pizza eats the woman", reversal),
            Example("The paper's pair", "both, side by side", congruent, reversal),
        ]
    usual = list(islice(_told_apart(world), EACH))
    return [
        *pair,
        *(Example("Congruent", text, text) for text, _ in usual),
        *(Example("Reversed", reverse, reverse, text) for text, reverse in usual),
        *(Example("Garden paths", text, text) for text in _garden_paths(world)),
    ]


def _told_apart(world: World) -> Iterator[tuple[str, str]]:
    """Usual sentences of different actions, each with its first two participants exchanged."""
    participants = Vocabulary.of(world).participants
    seen: set[str] = set()
    for sentence in world.sentences:
        utterance = world.parse(sentence.text)
        roles = indicated_roles(world, utterance)
        action, said = roles.get("action", ""), [r for r in participants if r in roles]
        if action in seen or len(said) < 2 or len(roles) != len(utterance):
            continue
        seen.add(action)
        first, second = roles[said[0]], roles[said[1]]
        swap = {first: second, second: first}
        words = [swap.get(part.word, part.text) for part in utterance]
        yield sentence.text, " ".join(words)


def _garden_paths(world: World) -> list[str]:
    """Sentences that make surest of something that their end takes back, one for each action."""
    if not world.is_exact:
        return []
    queries = world.all_derivations.queries
    if len(queries) * len(world.units) > MOST_BELIEFS:
        return []
    believed = _believed_after(world)
    scored = []
    for sentence in world.sentences:
        tokens = [tuple(pair) for pair in world.encode(sentence.text).tolist()]
        tree = world.all_derivations.tree
        nodes = [tree.find(tokens[: size + 1]) for size in range(len(tokens))]
        if NO_NODE in nodes:
            continue
        taken_back = believed[nodes[:-1]] - believed[nodes[-1]]
        scored.append((float(np.nanmax(taken_back, initial=0.0)), sentence.text))
    scored.sort(key=lambda pair: -pair[0])
    best: dict[str, str] = {}
    for led, text in scored:
        if led >= LED:
            best.setdefault(indicated_roles(world, world.parse(text)).get("action", text), text)
    return list(best.values())[:EACH]


def _believed_after(world: World) -> NDArray[np.float32]:
    """(nodes, roles × fillers): the exact beliefs after every beginning; NaN where not asked."""
    everything = world.all_derivations
    queries, units = everything.queries, Vocabulary.of(world).units
    believed = np.full(
        (len(everything.tree.parent), len(world.roles), len(units)), np.nan, np.float32
    )
    roles = queries.asks_role()
    believed[queries.node[roles], queries.probe[roles]] = queries.targets()[roles][:, units]
    return believed.reshape(len(believed), -1)
