"""The words that answer a probe, the roles that word order gives them, and sentences to begin with.

A network answers with output units, people ask for words. Each word is read off one unit: the one
that has its name, or else the one of its features that the fewest words share. Examples are found
in the world itself: congruent, reversed, misleading. The paper's own pair is added in the worlds of
its words; a new group of examples belongs in `find_examples`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from equivocal.world import Constituent, Utterance, World, find_word_unit
from equivocal.world.grammar import NO_FILLER, Construction
from equivocal.world.queries import NO_NODE
from equivocal.world.spelling import inflect_verb

__all__ = ["PAPER_PAIR", "Example", "Vocabulary", "find_examples", "find_indicated_roles"]

PAPER_PAIR = ("during dinner, the woman eats the pizza", "during dinner, the pizza eats the woman")
PAPER_WORLDS = ("paper", "slips")  # which have its words
PLACES = ("location", "place")  # roles whose words take an article
TAKEN_BACK = "An early belief is taken back"
EACH = 3  # examples of a kind
MISLED = 0.6  # belief that a misleading sentence builds up and takes back, at least
MOST_BELIEFS = 50_000_000  # pairs × units that may be looked through for misleading sentences


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The words of a world as answers."""

    fillers: tuple[str, ...]  # every word
    units: NDArray[np.intp]  # (fillers,): the output unit that stands for each
    participants: tuple[str, ...]  # roles that word order alone marks: who does what to whom
    candidates: NDArray[np.bool_]  # (roles, fillers): what is considered for each role
    verbs: dict[str, str]  # how each action is said

    @property
    def shown(self) -> NDArray[np.intp]:
        """The output units that stand for some filler, each once."""
        return np.unique(self.units)

    @property
    def places(self) -> NDArray[np.intp]:
        """(fillers,): where the unit of each filler stands among those shown."""
        return np.searchsorted(self.shown, self.units)

    @classmethod
    def from_world(cls, world: World) -> "Vocabulary":
        """Return the vocabulary of a world."""
        units = [find_word_unit(world, word) for word in world.lexicon.words]
        participants = _find_participants(world)
        fill = {role: world.grammar.collect_fillers(r) for r, role in enumerate(world.roles)}
        partaking = set().union(*(fill[role] for role in participants))
        # whatever takes part may do so in any of these roles: pizzas may eat
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
        )


def _inflect_verbs(world: World) -> dict[str, str]:
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
    """Find the word of each role by word order, case and markers alone.

    Parameters
    ----------
    world : World
        Whose constructions are tried.
    utterance : Utterance
        A sentence or a prefix of one. Plausibility does not count: in "during dinner, the pizza
        eats" the agent is the pizza.

    Returns
    -------
    dict of str to str
        Word by role; empty where no construction fits.
    """
    for construction in world.grammar.plain_constructions:
        places = _place_roles(world, construction, utterance)
        if places is not None:
            return {
                world.roles[role]: utterance.constituents[index].word
                for index, role in enumerate(places)
            }
    return {}


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
