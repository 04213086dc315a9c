"""What the sentences that networks heard warrant: the belief of a learner who counted the same.

Beside a belief of networks stands the truth, which knows everything; a listener who has only heard
the corpus, with what was meant, can know less. `equivocal.world.learner` says how much, and also
answers where the world has no truth. It counts all sentences of the corpus, the tenth that is held
out of training among them.
"""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from equivocal.asking.closed_form import LEVEL
from equivocal.asking.source import TRAINING
from equivocal.world.errors import ImpossibleSentenceError
from equivocal.world.learner import CountingLearner

if TYPE_CHECKING:
    from equivocal.asking.answer import Answer
    from equivocal.world import World

__all__ = ["describe_warranted", "learn_shipped"]

DRAWS = 200  # learners, for an interval; they take some milliseconds for each role
ENDS = (1 - LEVEL) / 2, (1 + LEVEL) / 2


@cache
def learn_shipped(world: "World") -> CountingLearner:
    """Return the learner of the corpus that the networks of the package were trained on."""
    return CountingLearner(world, world.sample(TRAINING["sentences"], seed=0), draws=DRAWS)


def describe_warranted(answer: "Answer", world: "World") -> str:
    """Return a line with the learner's own reading, of the roles that networks read; or nothing."""
    from equivocal.asking.summary import format_percent

    learner, said = learn_shipped(world), []
    for role, read in (item for one in answer.readings()[:1] for item in one.parts.items()):
        if role not in answer.participants:
            continue
        try:
            beliefs = learner.beliefs(answer.heard, role)
        except ImpossibleSentenceError:
            return ""
        heard = (
            word for word in answer.said(len(answer.heard) - 1) if answer.considers(role, word)
        )
        units = {name: world.lexicon.find_word_unit(name) for name in sorted({read.filler, *heard})}
        best = max(units, key=lambda name: beliefs.iloc[units[name]])
        drawn = learner.members(answer.heard, role)[:, units[best]]
        numbers = [beliefs.iloc[units[best]], *np.quantile(drawn, ENDS)]
        belief, low, high = (format_percent(float(number)) for number in numbers)
        said.append(f"{role} {best} {belief} ({low} to {high})")
    heard_by_all = f"{TRAINING['sentences']:,} sentences of their corpus"
    return f"Warranted by the {heard_by_all}: {', '.join(said)}." if said else ""
