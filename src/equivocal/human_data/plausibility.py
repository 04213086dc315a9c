"""Who did what in plausible, unlikely and impossible sentences: questions, and exact answers.

Every item of `find_plausibility_items` is asked about twice, for the agent and for the patient. A
reading is literal (what the syntax says), reversed (the two nouns the other way round) or other.

    plausible, unlikely, impossible    the sentences of that kind
    any                                pairs of a plausible and an unlikely sentence, half of each
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equivocal.human_data.answers import share_beliefs
from equivocal.human_data.questions import PROBES, Question
from equivocal.world import (
    ImpossibleSentenceError,
    PlausibilityItem,
    World,
    find_plausibility_items,
    find_word_unit,
)

__all__ = ["ANY", "READINGS", "AskedItems", "ask_about_items", "believe_ideal"]

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
