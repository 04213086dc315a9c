"""What the sentences that networks heard warrant: the belief of a learner who counted the same.

Beside a belief of networks stands the truth, which knows everything; a listener who has only heard
the corpus, with what was meant, can know less. `equivocal.world.learner` says how much, and also
answers where the world has no truth. It is asked once the action has been heard: before, it would
have to sum over everything that can happen.

`static/learner.js` is the same in JavaScript, with draws of its own; change the two together.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equivocal.asking.ensembles import LEVEL
from equivocal.network.settings import TrainingSettings, split_corpus
from equivocal.world.errors import ImpossibleSentenceError
from equivocal.world.learner import CountingLearner

if TYPE_CHECKING:
    from equivocal.asking.source import Source
    from equivocal.asking.vocabulary import Vocabulary
    from equivocal.world import Utterance

__all__ = ["Warrant"]

DRAWS = 200  # learners, for an interval; they take some milliseconds for each role


class Warrant:
    """The beliefs that the sentences which some networks were trained on warrant."""

    def __init__(self, source: "Source", vocabulary: "Vocabulary") -> None:
        self.source, self.world, self.vocabulary = source, source.world, vocabulary
        self._kept: dict[Utterance, NDArray[np.float64] | None] = {}

    @cached_property
    def learner(self) -> CountingLearner | None:
        """The learner; None where the networks heard different sentences."""
        names = ("sentences", "seed", "held_out")
        heard = [TrainingSettings(**each.training) for each in self.source.members]
        if len({tuple(getattr(one, name) for name in names) for one in heard}) > 1:
            return None
        return CountingLearner(self.world, split_corpus(self.world, heard[0])[0], draws=DRAWS)

    @property
    def sentences(self) -> int:
        """How many sentences the learner counted."""
        return 0 if self.learner is None else int(self.learner.rows.weight.sum())

    def find_beliefs(self, heard: "Utterance") -> NDArray[np.float64] | None:
        """Return (belief, low and high; roles; fillers) after some words, or None."""
        if heard not in self._kept:
            self._kept[heard] = self._find_beliefs(heard)
        return self._kept[heard]

    def _find_beliefs(self, heard: "Utterance") -> NDArray[np.float64] | None:
        if self.learner is None or not {part.word for part in heard} & self.vocabulary.verbs.keys():
            return None
        found = np.full((3, len(self.world.roles), len(self.vocabulary.fillers)), np.nan)
        for r, role in enumerate(self.world.roles):
            try:
                found[:, r] = self.learner.bound(heard, role, LEVEL)[:, self.vocabulary.units]
            except ImpossibleSentenceError:  # no construction has this order of words
                continue
        return found

    def describe(self) -> dict[str, Any] | None:
        """Return the learner for the page, as JSON values and arrays; None where there is none."""
        learner, grammar = self.learner, self.world.grammar
        if learner is None:
            return None
        rows, plain = learner.rows, range(len(grammar.plain_constructions))
        features = self.world.lexicon.features[:, self.vocabulary.units]
        return {
            "sentences": self.sentences,
            "draws": DRAWS,
            "alpha": learner.alpha,
            "order": learner.order,
            "support": [learner.support[role].tolist() for role in learner.order],
            "rows": rows.fillers[:, learner.order].astype(np.int16).ravel(),
            "counts": rows.weight.astype(np.uint32),
            "meanings": [np.flatnonzero(column).tolist() for column in features.T],
            "mentions": [
                [learner.count_mentions(each, role) for role in range(len(self.world.roles))]
                for each in plain
            ],
            "shares": {
                str(action): {
                    str(each): count
                    for each, count in zip(*learner.count_constructions(action), strict=True)
                }
                for action in learner.support[grammar.action_role].tolist()
            },
            "noise": {name: learner.count_noise(name) for name in self.world.file.noise},
            "disturbances": [
                {
                    "meant": each.meant,
                    "heard": each.heard,
                    "name": grammar.constructions[each.heard].noise,
                    "needs": [[role, np.flatnonzero(words).tolist()] for role, words in each.needs],
                }
                for each in grammar.disturbances
            ],
        }
