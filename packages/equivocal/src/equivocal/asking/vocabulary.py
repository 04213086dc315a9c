"""The words that answer a probe, the roles that syntax gives to words, and example sentences.

A network answers with output units, people ask for words. Each word is read off one unit: the one
of its name, or else the one of its features that the fewest words share.

Sentences to begin with are found in the world itself, congruent and reversed. The worlds that have
the paper's words show its own pair as well. A new group of examples belongs in `find_examples`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.source import PAPER_PAIR
from equivocal.world import Utterance, World
from equivocal.world.grammar import NO_FILLER, Construction
from equivocal.world.spelling import inflect_verb

__all__ = ["Example", "Vocabulary", "find_examples", "find_indicated_roles"]

PAPER_WORLDS = ("paper", "slips")  # worlds with the paper's words
PLACES = ("location", "place")  # roles whose words take an article
EACH = 3  # examples of each kind


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of a world as answers."""

    fillers: tuple[str, ...]  # every word
    units: NDArray[np.intp]  # (fillers,): the output unit that stands for each
    participants: tuple[str, ...]  # roles that some construction does not mark: who acts on whom
    candidates: NDArray[np.bool_]  # (roles, fillers): whether a filler is considered for a role
    verbs: dict[str, str]  # the inflected form of each action
    article: str  # before nouns; none where markers depend on the noun, as German articles do

    @property
    def shown(self) -> NDArray[np.intp]:
        """The output units that stand for some filler, each once."""
        return np.unique(self.units)

    @property
    def places(self) -> NDArray[np.intp]:
        """(fillers,): index of each filler's unit among those shown."""
        return np.searchsorted(self.shown, self.units)

    @classmethod
    def from_world(cls, world: World) -> "Vocabulary":
        """Return the vocabulary of a world."""
        units = [world.lexicon.find_word_unit(word) for word in world.lexicon.words]
        participants = _find_participants(world)
        fill = {role: world.grammar.collect_fillers(r) for r, role in enumerate(world.roles)}
        partaking = set().union(*(fill[role] for role in participants))
        # whatever takes part in an event may have any of these roles: pizzas may eat
        considered = [partaking if r in participants else fill[r] for r in world.roles]
        numbers = range(len(world.lexicon.words))
        candidates = np.array([[n in words for n in numbers] for words in considered])
        candidates.setflags(write=False)  # every answer hands it out
        return cls(
            fillers=world.lexicon.words,
            units=np.array(units),
            participants=participants,
            candidates=candidates,
            verbs=_inflect_verbs(world),
            article="" if any(c.by_filler for c in world.grammar.plain_constructions) else "the ",
        )


def _inflect_verbs(world: World) -> dict[str, str]:
    """Return the form of each action in the world's first construction."""
    form = world.grammar.constructions[0].verb_form
    actions = sorted(world.grammar.collect_fillers(world.grammar.action_role))
    names = [world.lexicon.words[number] for number in actions]
    return {name: inflect_verb(name, form, world.file.verbs.get(name)) for name in names}


def _find_participants(world: World) -> tuple[str, ...]:
    """Find the roles that have no marker in some construction, except the action."""
    unmarked = {
        role
        for construction in world.grammar.plain_constructions
        for role in construction.order
        if construction.markers[role] == NO_FILLER
    } - {world.grammar.action_role}
    return tuple(role for index, role in enumerate(world.roles) if index in unmarked)


def find_indicated_roles(world: World, utterance: Utterance) -> dict[str, str]:
    """Find the word of each role by syntax alone: word order, case and markers.

    Parameters
    ----------
    world : World
        The world whose constructions are tried.
    utterance : Utterance
        A sentence or a prefix of one. Plausibility does not count: in "during dinner, the pizza
        eats" the agent is the pizza.

    Returns
    -------
    dict of str to str
        Word by role; empty where no construction fits.
    """
    found = _find_construction(world, utterance)
    if found is None:
        return {}
    return {world.roles[role]: part.word for role, part in zip(found[1], utterance, strict=True)}


def _find_construction(
    world: World, utterance: Utterance
) -> tuple[Construction, tuple[int, ...]] | None:
    """Return the first construction that fits, and the role of each constituent in it."""
    for construction in world.grammar.plain_constructions:
        places = _place_roles(world, construction, utterance)
        if places is not None:
            return construction, places
    return None


def _place_roles(
    world: World, construction: Construction, utterance: Utterance
) -> tuple[int, ...] | None:
    """Return the role of each constituent if the construction has them in this order."""
    grammar, lexicon = world.grammar, world.lexicon
    actions = grammar.collect_fillers(grammar.action_role)

    def fits(role: int, index: int) -> bool:
        part = utterance.constituents[index]
        word = lexicon.words.index(part.word)
        (marker,) = construction.find_markers(role, np.array([word]))
        wanted = None if marker == NO_FILLER else lexicon.tokens[marker]
        is_action = word in actions
        return part.marker == wanted and is_action == (role == grammar.action_role)

    def place(index: int, order: tuple[int, ...]) -> tuple[int, ...] | None:
        if index == len(utterance):
            return ()
        for at, role in enumerate(order):
            if fits(role, index):
                rest = place(index + 1, order[at + 1 :])
                if rest is not None:
                    return (role, *rest)
            if construction.mentioned[role] == 1:  # may not be left out
                return None
        return None

    return place(0, construction.order)


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
    usual = list(islice(_find_reversals(world), EACH))
    return [
        *pair,
        *(Example("Congruent", text, text) for text, _ in usual),
        *(Example("Reversed", reverse, reverse, text) for text, reverse in usual),
    ]


def _find_reversals(world: World) -> Iterator[tuple[str, str]]:
    """Yield probable sentences of different actions, each with its reversal."""
    vocabulary, seen = Vocabulary.from_world(world), set[str]()
    for sentence in world.sentences:
        utterance = world.parse(sentence.text)
        found = _find_construction(world, utterance)
        if found is None:
            continue
        construction, roles = found
        fillers = dict(zip(roles, (part.word for part in utterance), strict=True))
        action = fillers.get(world.grammar.action_role, "")
        said = [world.roles.index(r) for r in vocabulary.participants]
        if action in seen or len(said) < 2 or not fillers.keys() >= set(said):
            continue
        seen.add(action)
        first, second = said[:2]
        swapped = fillers | {first: fillers[second], second: fillers[first]}
        yield (
            _say(vocabulary, world, construction, fillers),
            _say(vocabulary, world, construction, swapped),
        )


def _say(
    vocabulary: Vocabulary, world: World, construction: Construction, fillers: dict[int, str]
) -> str:
    """Put fillers into words; participants and places have an article where the language has."""
    said = []
    for role, word in fillers.items():
        (marker,) = construction.find_markers(role, np.array([world.lexicon.words.index(word)]))
        if marker != NO_FILLER:
            said.append(world.file.markers[world.tokens[marker]][0])
        named = world.roles[role] in (*vocabulary.participants, *PLACES)
        said.append(f"{vocabulary.article if named else ''}{vocabulary.verbs.get(word, word)}")
    return " ".join(said)
