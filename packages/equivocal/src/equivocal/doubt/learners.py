"""Answers that need no network: ½, the best constant, and learners who heard the same sentences.

    half               ½ for every belief
    constant           the mean of the true beliefs of each condition and role: what someone answers
                       who knows how often a reversal is meant, and nothing of any sentence
    learner-counts, learner-pooled, learner-form
                       `equivocal.world.learning.learn`, from the sentences that networks train on

They have one row for each corpus, whose network is "none".
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Literal

import numpy as np
from scipy.special import entr

from equivocal.doubt.answers import Setting, Strength
from equivocal.truth import CONDITIONS, ROLES, PooledBeliefs, ReversalQuestions
from equivocal.world import Corpus
from equivocal.world.learning import learn

__all__ = ["LEARNERS"]

CERTAIN = 1e-16  # beliefs keep this distance from 0 and 1


def pool_certain(asked: ReversalQuestions, nouns: np.ndarray) -> PooledBeliefs:
    """Return beliefs without epistemic uncertainty about the two nouns of each question."""
    p = np.full((len(asked.truth), len(asked.units)), 0.5)
    np.put_along_axis(p, asked.nouns, nouns, axis=1)
    return PooledBeliefs(np.log(p), np.log1p(-p), entr(p) + entr(1 - p))


def answer_half(asked: ReversalQuestions, _heard: Corpus) -> Iterator[Strength]:
    """Answer ½."""
    half = np.full_like(asked.truth, 0.5)
    yield Strength(Setting("½ everywhere"), pool_certain(asked, half))


def answer_constant(asked: ReversalQuestions, _heard: Corpus) -> Iterator[Strength]:
    """Answer the mean of the true beliefs about the same noun in the same condition and role."""
    nouns = np.empty_like(asked.truth)
    for condition in range(len(CONDITIONS)):
        for role in range(len(ROLES)):
            own = (asked.condition == condition) & (asked.role == role)
            nouns[own] = asked.truth[own].mean(axis=0)
    yield Strength(Setting("by condition"), pool_certain(asked, nouns))


def answer_learner(
    asked: ReversalQuestions, heard: Corpus, prior: Literal["counts", "pooled", "form"]
) -> Iterator[Strength]:
    """Answer as a learner who heard the sentences that networks are trained on."""
    learner, units = learn(heard.world, heard, prior), list(asked.units)

    @cache
    def believe(item: int, condition: int, role: int) -> np.ndarray:
        """Return p and E[H(y)], with the exact mean and the spread of draws."""
        text = getattr(asked.items[item], CONDITIONS[condition])
        exact = learner.beliefs(text, ROLES[role]).to_numpy()[units]
        drawn = learner.members(text, ROLES[role])[:, units]
        mean, average, members = (
            np.clip(part, CERTAIN, 1 - CERTAIN) for part in (exact, drawn.mean(axis=0), drawn)
        )
        within = (entr(members) + entr(1 - members)).mean(axis=0)
        epistemic = entr(average) + entr(1 - average) - within
        return np.stack([mean, entr(mean) + entr(1 - mean) - epistemic])

    rows = zip(asked.item.tolist(), asked.condition.tolist(), asked.role.tolist(), strict=True)
    p, aleatoric = np.stack([believe(*row) for row in rows], axis=1)
    yield Strength(
        Setting("α = 1" if prior != "form" else "known form"),
        PooledBeliefs(np.log(p), np.log1p(-p), aleatoric),
    )


COUNTS = "learner-counts"
LEARNERS: dict[str, Callable[[ReversalQuestions, Corpus], Iterator[Strength]]] = {
    "half": answer_half,
    "constant": answer_constant,
    COUNTS: partial(answer_learner, prior="counts"),
    "learner-pooled": partial(answer_learner, prior="pooled"),
    "learner-form": partial(answer_learner, prior="form"),
}
