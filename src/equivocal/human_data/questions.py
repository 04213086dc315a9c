"""Questions about who did what, asked after the last word of a sentence.

A sentence has a literal reading, what its syntax says (`tracked_units`), and often a rival:
`rival_units`, or in the stimuli of a study what the same item means in another condition. Each
probe of a sentence is a question ("agent": who did it?), with the unit of the literal reading, that
of the rival, and everything else as answers.

The rival is called *plausible* where the world is likelier to bring about its meaning than the
literal one, given the words alone in whatever order: after "the egg eats the man", that the man
eats the egg. Of a plausible sentence the literal reading is also the plausible one; it is called
literal, and any other answer is other.

Items of `find_plausibility_items` are asked about twice, for the agent and for the patient
(`AskedItems`). A reading of them is literal, reversed (the two nouns the other way round) or other:

    plausible, unlikely, impossible    the sentences of that kind
    any                                pairs of a plausible and an unlikely sentence, half of each

`believe_ideal` answers as the ideal comprehender of the world does, `IdealReadings` as it would
with other values of the world's parameters.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equivocal.errors import UserError
from equivocal.human_data.answers import share_beliefs
from equivocal.study.settings import load_study
from equivocal.suites import CONSTRUCTIONS, load_construction
from equivocal.world import (
    Corpus,
    ImpossibleSentenceError,
    PlausibilityItem,
    Utterance,
    World,
    find_plausibility_items,
    name_role_unit,
)
from equivocal.world.items import Item, load_items
from equivocal.world.queries import NO_NODE

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
SAMPLED = 20_000  # sentences, where a world is too large to enumerate
SHIPPED_STUDY = "paper"  # whose stimuli are asked of networks of its world


@dataclass(frozen=True)
class Question:
    """One probe after one sentence."""

    condition: str
    item: str
    probe: str
    utterance: Utterance
    literal: str  # the unit that the syntax indicates
    rival: str | None  # the unit of the rival reading, where that is another
    plausible: bool  # whether the world favours the rival

    @property
    def units(self) -> tuple[str, ...]:
        """The units whose activation is read."""
        return (self.literal,) if self.rival is None else (self.literal, self.rival)


def list_questions(items: Iterable[Item], world: World) -> list[Question]:
    """List the questions about sentences.

    Parameters
    ----------
    items : iterable of Item
        With tracked units. Without rivals of its own, an item gets those that it tracks in the
        first other condition.
    world : World
        Which says what is plausible.
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
    """Return what an item tracks in the first other condition in which that is something else."""
    others = (one.tracked for one in items if one.name == item.name and one.tracked != item.tracked)
    return next(others, {})


def _weigh_reading(corpus: Corpus, utterance: Utterance, units: dict[str, str]) -> float:
    """Return how likely an event is that has the words of a sentence and answers as in `units`."""
    world, told = corpus.world, corpus.derivations
    fits = np.ones(len(told), bool)
    words, features = world.lexicon.words, world.lexicon.features
    has_unit = np.vstack([features, np.zeros(features.shape[1], bool)])  # the last: no filler
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
    """Load sentences of the user's own; see `equivocal.world.items` for the format."""
    return list(load_items(path, world, needs=("tracked_units",), balanced=False).rows.values())


def find_sentences(world: World) -> tuple[list[Item], str]:
    """Find sentences of a world: constructions, the stimuli of the paper, or unlikely reversals.

    The last are in worlds such as `both_ways`: every item of `find_plausibility_items`.

    Returns
    -------
    items : list of Item
        Sentences with tracked units.
    source : str
        Where they are from.

    Raises
    ------
    UserError
        Where there are none.
    """
    found = list(_load_constructions(world))
    if found:
        items = [item for _, own in found for item in own]
        return items, " and ".join(name for name, _ in found)
    study = load_study(SHIPPED_STUDY)
    if World.load(study.world_source).fingerprint == world.fingerprint:
        return load_sentences(study.stimuli_path, world), f"the stimuli of study {study.name}"
    both_ways = list(_list_reversals(world))
    if both_ways:
        return both_ways, f"all sentences of world {world.name!r} in both directions"
    raise UserError(
        f"no sentences are shipped for world {world.name!r}; give some with --sentences FILE.csv "
        "(columns condition, item, sentence, tracked_units and perhaps rival_units)."
    )


def _load_constructions(world: World) -> Iterator[tuple[str, tuple[Item, ...]]]:
    for name in CONSTRUCTIONS:
        construction = load_construction(name)
        if construction.world.fingerprint == world.fingerprint:
            yield name, construction.items


def _list_reversals(world: World) -> Iterator[Item]:
    """List the sentences of a world in both directions, where one of them is unlikely."""
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
        """Return the numbers of the questions about one kind of sentences; ANY is defined above."""
        chosen = [
            (construction in (ANY, item.construction))
            and (plausibility == item.plausibility or (plausibility == ANY and key in self._pairs))
            for item in self.items
            for key in [(item.item, item.construction)]
        ]
        return np.flatnonzero(np.array(chosen)[self.number])

    @cached_property
    def _pairs(self) -> set[tuple[str, str]]:
        return {(i.item, i.construction) for i in self.items if i.plausibility == "unlikely"}

    @property
    def constructions(self) -> tuple[str, ...]:
        """The constructions, in the order of the world."""
        return tuple(dict.fromkeys(item.construction for item in self.items))

    @property
    def names(self) -> np.ndarray:
        """The item of each question, by name, the same in both directions."""
        return np.array([self.items[n].item for n in self.number])


def ask_about_items(world: World) -> AskedItems:
    """Build the questions about every item of a world, in both directions.

    Parameters
    ----------
    world : World
        As `find_plausibility_items` takes it.
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
        Probabilities of `ITEM_READINGS`; NaN where a sentence is never heard, so that nothing is
        true of it.
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
    """What the noisy-channel comprehender reads if derivations have other weights.

    Parameters
    ----------
    world : World
        The world whose derivations are weighed, as by `Reweighting.compute_weights`.
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
            _select(heard, agent, [word(name) for name in names])
            for names in zip(*((item.agent, item.patient) for item in asked.items), strict=True)
        )

    def read(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (items, 3): probabilities of the readings; NaN where a sentence is never heard."""
        total = self._heard @ weights
        total[total == 0] = np.nan
        literal, reversed_ = (acts @ weights / total for acts in (self._literal, self._reversed))
        other = np.maximum(1 - literal - reversed_, 0)
        return np.stack([literal, reversed_, other], axis=1)

    def hear(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (items,): how probable each sentence is, whoever acts."""
        return np.asarray(self._whole @ weights)


def _select(heard: np.ndarray, agent: np.ndarray, words: Sequence[int]) -> csr_array:
    """Return (items, derivations): whether a sentence is heard and the item's word acts."""
    return csr_array((heard & (agent == np.array(words)[:, None])).astype(float))
