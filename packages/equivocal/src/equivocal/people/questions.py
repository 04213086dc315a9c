"""Questions about who did what, asked after the last word of a sentence.

A sentence has a literal reading, given by its syntax (`tracked_units`), and often a rival reading:
`rival_units` or, in the stimuli of a study, the meaning of the same item in another condition. Each
probe of a sentence is a question ("agent": who did it?) with three answers: the unit of the literal
reading, that of the rival, and any other.

The rival is called *plausible* if its meaning is likelier in the world than the literal one, given
the words without their order: after "the egg eats the man", that the man eats the egg. If the
literal reading is itself the plausible one, it is called literal, and any other answer is other.

About each item of `find_plausibility_items` two questions are asked, for the agent and for the
patient (`AskedItems`). Their readings are literal, reversed (the two nouns exchanged) or other.
Sentences are selected by plausibility:

    plausible, unlikely, impossible    the sentences of that kind
    any                                pairs of a plausible and an unlikely sentence, half of each

`believe_ideal` gives the answers of the ideal comprehender of the world, `IdealReadings` those with
other values of the world's parameters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equivocal.people.drawn_answers import share_beliefs
from equivocal.world import (
    Corpus,
    ImpossibleSentenceError,
    PlausibilityItem,
    Utterance,
    World,
    find_plausibility_items,
    name_role_unit,
)
from equivocal.world.items import Item, find_shipped_items, load_items
from equivocal.world.queries import NO_NODE
from lastlayer.errors import UserError

__all__ = [
    "READINGS",
    "AskedItems",
    "Question",
    "ask_about_items",
    "believe_ideal",
    "list_questions",
]

READINGS = ("literal", "plausible", "other")
ITEM_READINGS = ("literal", "reversed", "other")  # of `AskedItems`
ANY = "any"
PROBES = ("agent", "patient")
SAMPLED = 20_000  # sentences that are sampled from a world too large to enumerate
# Items of the package, and the world whose default sentences they are
SHIPPED_ITEMS = {
    "passive": "sg2018",
    "word_order": "word_order",
    "attachment": "attachment",
    "paper": "paper",
}


@dataclass(frozen=True)
class Question:
    """One probe after one sentence."""

    condition: str
    item: str
    probe: str
    utterance: Utterance
    literal: str  # the unit of the literal reading
    rival: str | None  # the unit of the rival reading, if it is a different one
    plausible: bool  # whether the rival is likelier in the world

    @property
    def units(self) -> tuple[str, ...]:
        """The units whose activations give the beliefs."""
        return (self.literal,) if self.rival is None else (self.literal, self.rival)


def list_questions(items: Iterable[Item], world: World) -> list[Question]:
    """List the questions about sentences.

    Parameters
    ----------
    items : iterable of Item
        Sentences with tracked units. The rivals of an item that has none are the tracked units of
        the same item in the first other condition.
    world : World
        The world that determines which readings are plausible.
    """
    items = list(items)
    told = world.all_derivations if world.is_exact else world.sample(SAMPLED)
    questions = []
    for item in items:
        rivals = item.rivals or _find_rivals(item, items)
        literal, other = (
            _weigh_reading(told, item.utterance, units) if units else 0.0
            for units in (item.tracked, rivals)
        )
        for probe, unit in item.tracked.items():
            rival = rivals.get(probe)
            named = (item.condition, item.name, probe, item.utterance, unit)
            questions.append(Question(*named, None if rival == unit else rival, other > literal))
    return questions


def _find_rivals(item: Item, items: list[Item]) -> dict[str, str]:
    """Return the tracked units of an item in the first condition where they are different."""
    others = (one.tracked for one in items if one.name == item.name and one.tracked != item.tracked)
    return next(others, {})


def _weigh_reading(corpus: Corpus, utterance: Utterance, units: dict[str, str]) -> float:
    """Return the probability of events that have the words of a sentence and these answers."""
    world, told = corpus.world, corpus.derivations
    fits = np.ones(len(told), bool)
    words, features = world.lexicon.words, world.lexicon.features
    has_unit = np.vstack([features, np.zeros(features.shape[1], bool)])  # last row: no filler
    roles = {name_role_unit(role): number for number, role in enumerate(world.roles)}
    asked = set[str]()
    for probe, unit in units.items():
        if probe in world.roles:
            fillers = told.fillers[:, world.roles.index(probe)]
            fits &= has_unit[fillers, world.units.index(unit)]
            asked.add(unit)
        elif unit in roles and probe in words:
            fits &= told.fillers[:, roles[unit]] == words.index(probe)
            asked.add(probe)
    for part in utterance:
        if part.word not in asked and part.word in words:
            fits &= (told.fillers == words.index(part.word)).any(axis=1)
    return float(told.weight[fits].sum())


def load_sentences(path: Path, world: World) -> list[Item]:
    """Load sentences from a CSV file; see `equivocal.world.items` for the format."""
    return list(load_items(path, world, needs=("tracked_units",), balanced=False).rows.values())


def find_sentences(world: World) -> tuple[list[Item], str]:
    """Find sentences of a world: constructions, the stimuli of the paper, or unlikely reversals.

    Worlds such as `both_ways` have unlikely reversals: every item of `find_plausibility_items`.

    Returns
    -------
    items : list of Item
        Sentences with tracked units.
    source : str
        A description of their source.

    Raises
    ------
    UserError
        Where there are none.
    """
    for name, home in SHIPPED_ITEMS.items():
        if World.load(home).fingerprint == world.fingerprint:
            return load_sentences(find_shipped_items(name), world), f"the items {name!r}"
    both_ways = list(_list_reversals(world))
    if both_ways:
        return both_ways, f"all sentences of world {world.name!r} in both directions"
    raise UserError(
        f"no sentences are shipped for world {world.name!r}; give some with --sentences FILE.csv "
        "(columns condition, item, sentence, tracked_units and perhaps rival_units)."
    )


def _list_reversals(world: World) -> Iterator[Item]:
    """List the sentences of a world in both directions, if one direction is unlikely."""
    try:
        found = find_plausibility_items(world)
    except UserError:  # no agents and patients, or too large
        return
    if all(item.plausibility != "unlikely" for item in found):
        return
    for item in found:
        units = map(world.lexicon.find_word_unit, (item.agent, item.patient))
        nouns = [world.units[unit] for unit in units]
        yield Item(
            condition=f"{item.plausibility} {item.construction}",
            name=item.item,
            utterance=item.sentence,
            critical=len(item.sentence),
            tracked=dict(zip(PROBES, nouns, strict=True)),
            rivals=dict(zip(PROBES, reversed(nouns), strict=True)),
        )


@dataclass(frozen=True, eq=False)
class AskedItems:
    """Sentences and the questions about them; arrays have an entry for each question."""

    world: World
    items: tuple[PlausibilityItem, ...]
    questions: tuple[Question, ...]
    number: np.ndarray  # of the item

    def select(self, construction: str = ANY, plausibility: str = ANY) -> np.ndarray:
        """Return the numbers of the questions about one kind of sentences, as defined above."""
        chosen = [
            (construction in (ANY, item.construction))
            and (plausibility == item.plausibility or (plausibility == ANY and key in self._pairs))
            for item in self.items
            for key in [(item.item, item.construction)]
        ]
        return np.flatnonzero(np.array(chosen)[self.number])

    @cached_property
    def _pairs(self) -> set[tuple[str, str]]:
        """The item and construction of each pair of a plausible and an unlikely sentence."""
        return {(i.item, i.construction) for i in self.items if i.plausibility == "unlikely"}

    @property
    def constructions(self) -> tuple[str, ...]:
        """The constructions, in the order of the world."""
        return tuple(dict.fromkeys(item.construction for item in self.items))

    @property
    def names(self) -> np.ndarray:
        """The name of each question's item, which is the same in both directions."""
        return np.array([self.items[n].item for n in self.number])


def ask_about_items(world: World) -> AskedItems:
    """Build the questions about every item of a world, in both directions.

    Parameters
    ----------
    world : World
        A world that `find_plausibility_items` accepts.
    """
    items = find_plausibility_items(world)
    questions = [
        Question(
            condition=f"{item.plausibility} {item.construction}",
            item=item.item,
            probe=probe,
            utterance=item.sentence,
            literal=world.units[world.lexicon.find_word_unit(literal)],
            rival=world.units[world.lexicon.find_word_unit(rival)],
            plausible=item.plausibility != "plausible",
        )
        for item in items
        for probe, literal, rival in zip(
            PROBES, (item.agent, item.patient), (item.patient, item.agent), strict=True
        )
    ]
    number = np.repeat(np.arange(len(items)), len(PROBES))
    return AskedItems(world, items, tuple(questions), number)


def believe_ideal(asked: AskedItems) -> np.ndarray:
    """Compute the exact beliefs of the noisy-channel comprehender.

    Returns
    -------
    ndarray of shape (1, questions, 3)
        Probabilities of `ITEM_READINGS`; NaN if a sentence is impossible, so that beliefs about it
        are undefined.
    """
    found = np.full((1, len(asked.questions), len(ITEM_READINGS)), np.nan)
    for n, question in enumerate(asked.questions):
        try:
            beliefs = asked.world.true_beliefs(question.utterance, question.probe)
        except ImpossibleSentenceError:
            continue
        found[0, n] = share_beliefs(*(np.array(beliefs[unit]) for unit in question.units))
    return found


class IdealReadings:
    """The readings of the noisy-channel comprehender if derivations have other weights.

    Parameters
    ----------
    world : World
        The world of the derivations, whose weights come from `Reweighting.compute_weights`.
    asked : AskedItems
        The sentences.
    """

    def __init__(self, world: World, asked: AskedItems) -> None:
        everything = world.all_derivations
        agent = everything.derivations.fillers[:, world.roles.index("agent")]
        nodes = [everything.tree.find(world.encode(item.sentence)) for item in asked.items]
        heard = np.array([(everything.tree.node_of == node).any(axis=1) for node in nodes])
        heard[np.array(nodes) == NO_NODE] = False
        word = world.lexicon.words.index
        self._heard = csr_array(heard.astype(float))
        ends = everything.tree.ends == np.array(nodes)[:, None]
        self._whole = csr_array((heard & ends).astype(float))
        self._literal, self._reversed = (
            _select_by_agent(heard, agent, [word(name) for name in names])
            for names in zip(*((item.agent, item.patient) for item in asked.items), strict=True)
        )

    def read(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities of readings, (items, 3); NaN if a sentence is impossible."""
        total = self._heard @ weights
        total[total == 0] = np.nan
        literal, reversed_ = (acts @ weights / total for acts in (self._literal, self._reversed))
        other = np.maximum(1 - literal - reversed_, 0)
        return np.stack([literal, reversed_, other], axis=1)

    def hear(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each sentence, (items,), whatever its meaning."""
        return np.asarray(self._whole @ weights)


def _select_by_agent(heard: np.ndarray, agent: np.ndarray, words: Sequence[int]) -> csr_array:
    """Return (items, derivations): 1 if the sentence is heard and the item's word is the agent."""
    return csr_array((heard & (agent == np.array(words)[:, None])).astype(float))
