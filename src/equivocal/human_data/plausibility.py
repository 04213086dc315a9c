"""Who did what in plausible, unlikely and impossible sentences: questions, and exact answers.

Every item of `find_plausibility_items` is asked about twice, for the agent and for the patient. A
reading is literal (what the syntax says), reversed (the two nouns the other way round) or other.

    plausible, unlikely, impossible    the sentences of that kind
    any                                pairs of a plausible and an unlikely sentence, half of each

`believe_ideal` answers as the ideal comprehender of the world does, `IdealReadings` as it would
with other values of the world's parameters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equivocal.human_data.answers import share_beliefs
from equivocal.human_data.questions import PROBES, Question
from equivocal.world import (
    ImpossibleSentenceError,
    PlausibilityItem,
    World,
    find_plausibility_items,
    find_word_unit,
)
from equivocal.world.prefixes import NO_NODE

__all__ = ["AskedItems", "ask_about_items", "believe_ideal"]

READINGS = ("literal", "reversed", "other")
ANY = "any"


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
            and (item.plausibility == plausibility or (plausibility == ANY and self._is_pair(item)))
            for item in self.items
        ]
        return np.flatnonzero(np.array(chosen)[self.number])

    def _is_pair(self, item: PlausibilityItem) -> bool:
        return (item.item, item.construction) in self._pairs

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
            literal=world.units[find_word_unit(world, literal)],
            rival=world.units[find_word_unit(world, rival)],
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
        Probabilities of `READINGS`; NaN where a sentence is never heard, so that nothing is true of
        it.
    """
    found = np.full((1, len(asked.questions), len(READINGS)), np.nan)
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
        last = everything.tree.node_of.max(axis=1)  # nodes are numbered by depth
        word = world.lexicon.words.index
        self._heard = csr_array(heard.astype(float))
        self._whole = csr_array((heard & (last == np.array(nodes)[:, None])).astype(float))
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
