"""Answers drawn from beliefs: how often each reading is given, and how often answers differ.

A participant p who believes option k of question i with q_pik answers by drawing from q_pi, every
time anew. Two of her answers, and answers of two participants, differ with the probabilities

    w = mean over p, i of   1 − Σ_k q_pik²                                                       (1)
    b = mean over i and p ≠ p′ of   1 − Σ_k q_pik q_p′ik                                         (2)

A reader who always gives the likeliest answer has w = 0. From R answers each, c_pik of them k, the
unbiased estimates have (Σ_k c² − R) / R(R−1) in place of Σ_k q² and c/R in place of q.

Participants and items are both samples. Intervals are those of the pigeonhole bootstrap (Owen 2007,
Annals of Applied Statistics 1, 386–411), which draws both anew, with replacement; it is somewhat
conservative. All questions of an item are drawn together, and no participant is compared with a
copy of herself. Beliefs are arrays, of any origin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from equivocal.errors import UserError

__all__ = [
    "Answered",
    "Estimate",
    "choose_likeliest",
    "count_answers",
    "draw_answers",
    "expect_answers",
    "share_beliefs",
    "summarise_answers",
]

LEVEL = 0.95
DRAWS = 1_000  # of the bootstrap


class Estimate(NamedTuple):
    """A number with its 95 % interval over participants and items."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Answered:
    """How often each option is given, and how often one participant repeats an answer."""

    shares: np.ndarray  # (participants, questions, options)
    agreement: np.ndarray  # (participants, questions): two answers of one participant are equal


def share_beliefs(literal: np.ndarray, rival: np.ndarray) -> np.ndarray:
    """Return probabilities of three answers: a reading, its rival, and anything else.

    Parameters
    ----------
    literal, rival : ndarray
        Degrees of belief in two answers that exclude each other, each between 0 and 1.

    Returns
    -------
    ndarray
        With a last axis of three. What the two leave of one is believed of other answers; if they
        sum to more than one, they are divided by their sum.

    Examples
    --------
    >>> share_beliefs(np.array([0.5, 0.75]), np.array([0.25, 0.75])).tolist()
    [[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]
    """
    rest = np.maximum(1 - literal - rival, 0)
    every = np.stack(np.broadcast_arrays(literal, rival, rest), axis=-1)
    return np.asarray(every / every.sum(axis=-1, keepdims=True))


def draw_answers(beliefs: np.ndarray, repetitions: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the answers of every participant to every question.

    Parameters
    ----------
    beliefs : ndarray of shape (participants, questions, options)
        Probabilities, which sum to one over options.
    repetitions : int
        How often each question is asked.
    rng : numpy.random.Generator
        Where chance comes from.

    Returns
    -------
    ndarray of shape (participants, questions, repetitions)
        Numbers of options.
    """
    _check(beliefs)
    below = np.cumsum(beliefs, axis=-1)[..., None, :-1]  # the last is 1, but for round-off
    return np.asarray((rng.random((*beliefs.shape[:-1], repetitions, 1)) >= below).sum(axis=-1))


def choose_likeliest(beliefs: np.ndarray, repetitions: int) -> np.ndarray:
    """Return the answers of readers who always give the likeliest one; see `draw_answers`."""
    _check(beliefs)
    return np.repeat(beliefs.argmax(axis=-1)[..., None], repetitions, axis=-1)


def expect_answers(beliefs: np.ndarray) -> Answered:
    """Return what answers drawn from beliefs will be like, without drawing any."""
    _check(beliefs)
    return Answered(beliefs, (beliefs**2).sum(axis=-1))


def count_answers(answers: np.ndarray, options: int) -> Answered:
    """Count answers (participants, questions, repetitions), of which there are two or more each."""
    R = answers.shape[-1]
    if R < 2:
        raise UserError(f"to see whether answers differ takes two of each, got {R}; ask again.")
    counts = np.stack([(answers == k).sum(axis=-1) for k in range(options)], axis=-1)
    return Answered(counts / R, ((counts**2).sum(axis=-1) - R) / (R * (R - 1)))


def _check(beliefs: np.ndarray) -> None:
    if beliefs.ndim != 3 or not np.allclose(beliefs.sum(axis=-1), 1) or not (beliefs >= 0).all():
        raise UserError(
            "beliefs must be (participants, questions, options), at least zero and one in sum over "
            f"options; got an array of shape {beliefs.shape}."
        )


def summarise_answers(
    answered: Answered,
    items: Sequence[object] | np.ndarray,
    names: Sequence[str],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Summarise answers: the share of each option, w, b and w/b, with intervals.

    Parameters
    ----------
    answered : Answered
        From `count_answers` or `expect_answers`.
    items : sequence of shape (questions,)
        The item that each question is about.
    names : sequence of str
        The names of the options.
    draws : int
        How often participants and items are drawn anew for the intervals.
    seed : int
        The seed of these draws.

    Returns
    -------
    dict of str to Estimate
        By the names of options, then "w", "b" and "w/b". b needs two participants, and w/b
        answers that differ: NaN otherwise. So are intervals of a single participant or item.
    """
    P = len(answered.shares)
    groups = np.unique(np.asarray(items), return_inverse=True)[1]
    size = int(groups.max()) + 1
    value = _compute(answered, np.ones(P), np.ones(len(groups)))
    rng = np.random.default_rng(seed)
    drawn = np.full((draws, len(value)), np.nan)
    if P > 1 and size > 1:
        for n in range(draws):
            people, each = (rng.multinomial(m, np.full(m, 1 / m)) for m in (P, size))
            drawn[n] = _compute(answered, people, each[groups])
    tails = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    ends = [
        np.quantile(column[~np.isnan(column)], tails)
        if not np.isnan(column).all()
        else (np.nan,) * 2
        for column in drawn.T
    ]
    measures = (*names, "w", "b", "w/b")
    return {
        name: Estimate(float(v), float(low), float(high))
        for name, v, (low, high) in zip(measures, value, ends, strict=True)
    }


def _compute(answered: Answered, people: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Compute shares, w, b and w/b, with so many copies of each participant and question."""
    weight = questions / questions.sum()
    summed = np.einsum("p,pik->ik", people, answered.shares)
    own = np.einsum("p,pik->i", people**2, answered.shares**2)
    P = people.sum()
    pairs = P**2 - (people**2).sum()  # of different participants
    shares = weight @ summed / P
    w = 1 - weight @ (people @ answered.agreement) / P
    b = 1 - weight @ ((summed**2).sum(axis=-1) - own) / pairs if pairs else np.nan
    return np.array([*shares, w, b, w / b if b > 1e-12 else np.nan])
