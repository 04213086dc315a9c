"""Example sentences for the page, found in the world itself: congruent, reversed, misleading.

The paper's own pair is added in the worlds of its words; a new group of examples belongs in
`find_examples`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.vocabulary import Vocabulary, find_indicated_roles
from equivocal.world import Constituent, World
from equivocal.world.queries import NO_NODE

__all__ = ["PAPER_PAIR", "Example", "find_examples"]

PAPER_PAIR = ("during dinner, the woman eats the pizza", "during dinner, the pizza eats the woman")
PAPER_WORLDS = ("paper", "slips")  # which have its words
PLACES = ("location", "place")  # roles whose words take an article
TAKEN_BACK = "An early belief is taken back"
EACH = 3  # examples of a kind
MISLED = 0.6  # belief that a misleading sentence builds up and takes back, at least
MOST_BELIEFS = 50_000_000  # pairs × units that may be looked through for misleading sentences


@dataclass(frozen=True)
class Example:
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
    misleading = [_add_articles(world, text) for text in _find_misleading(world)]
    return [
        *pair,
        *(Example("Congruent", text, text) for text, _ in usual),
        *(Example("Reversed", reverse, reverse, text) for text, reverse in usual),
        *(Example(TAKEN_BACK, text, text) for text in misleading),
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


def _find_misleading(world: World) -> list[str]:
    """Find sentences whose end takes back the strongest beliefs, one for each action."""
    if not world.is_exact or len(world.all_derivations.queries) > MOST_BELIEFS // len(world.units):
        return []
    believed = _compute_beliefs(world)
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
        if led >= MISLED:
            best.setdefault(
                find_indicated_roles(world, world.parse(text)).get("action", text), text
            )
    return list(best.values())[:EACH]


def _compute_beliefs(world: World) -> NDArray[np.float32]:
    """Return exact beliefs after every prefix, (nodes, roles × fillers); NaN where not asked."""
    everything = world.all_derivations
    queries, units = everything.queries, Vocabulary.from_world(world).units
    believed = np.full(
        (len(everything.tree.parent), len(world.roles), len(units)), np.nan, np.float32
    )
    roles = queries.find_role_probes()
    believed[queries.node[roles], queries.probe[roles]] = queries.targets()[roles][:, units]
    return believed.reshape(len(believed), -1)
