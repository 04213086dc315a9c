"""Beliefs in fillers that the sentences of a corpus warrant: those of a learner who counted them.

    warranted_belief_ROLE    the learner's belief in the filler of a role, after each word

The learner (`equivocal.world.learner`) also answers where the words are impossible in the world.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from equivocal.world import ImpossibleSentenceError, Utterance
from equivocal.world.corpus import Corpus
from equivocal.world.learner import CountingLearner

__all__ = ["Warrant", "build_warrant"]

Warrant = Callable[[Utterance, Mapping[str, str]], dict[str, np.ndarray]]


def build_warrant(heard: Corpus) -> Warrant:
    """Return a function of a sentence and its fillers by role; common beginnings are heard once."""
    learner, world = CountingLearner(heard.world, heard), heard.world

    @cache
    def believe(words: Utterance, role: str) -> np.ndarray:
        try:
            return learner.beliefs(words, role).to_numpy()
        except ImpossibleSentenceError:  # no construction has this order of words
            return np.full(len(world.units), np.nan)

    def warrant(utterance: Utterance, roles: Mapping[str, str]) -> dict[str, np.ndarray]:
        prefixes = [utterance.first(place + 1) for place in range(len(utterance))]
        return {
            f"warranted_belief_{role}": np.array(
                [believe(words, role)[world.lexicon.find_word_unit(word)] for words in prefixes]
            )
            for role, word in roles.items()
        }

    return warrant
