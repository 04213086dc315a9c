"""Questions about who did what, asked after the last word of a sentence, and their exact answers.

About each item of `find_plausibility_items` two questions are asked: who is the agent, and who the
patient. Each has three answers: literal (the unit given by the syntax), reversed (the other noun)
and any other. Sentences are selected by plausibility:

    plausible, unlikely, impossible    the sentences of that kind
    any                                pairs of a plausible and an unlikely sentence, half of each

`believe_ideal` gives the answers of the ideal comprehender of the world.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equivocal.people.agreement import share_beliefs
from equivocal.world import (
    ImpossibleSentenceError,
    PlausibilityItem,
    Utterance,
    World,
    find_plausibility_items,
)

ITEM_READINGS = ("literal", "reversed", "other")
ANY = "any"
PROBES = ("agent", "patient")


@dataclass(frozen=True)
class Question:
    """One probe after one sentence."""

    probe: str
    utterance: Utterance
    units: tuple[str, str]  # whose activations give the beliefs: of the literal reading, its rival


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
    questions = []
    for item in items:
        nouns = [world.units[world.lexicon.find_word_unit(n)] for n in (item.agent, item.patient)]
        for probe, rival in zip(PROBES, reversed(nouns), strict=True):
            literal = nouns[PROBES.index(probe)]
            questions.append(Question(probe, item.sentence, (literal, rival)))
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
    readings = np.full((1, len(asked.questions), len(ITEM_READINGS)), np.nan)
    for n, question in enumerate(asked.questions):
        try:
            beliefs = asked.world.true_beliefs(question.utterance, question.probe)
        except ImpossibleSentenceError:
            continue
        readings[0, n] = share_beliefs(*(np.array(beliefs[unit]) for unit in question.units))
    return readings
