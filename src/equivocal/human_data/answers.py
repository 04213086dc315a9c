"""Answers drawn from beliefs: how often each reading is given, and how often answers differ.

A participant p who believes option k of question i with q_pik answers by drawing from q_pi, every
time anew. Two of her answers, and answers of two participants, differ with the probabilities

    w = mean over p, i of   1 − Σ_k q_pik²                                                       (1)
    b = mean over i and p ≠ p′ of   1 − Σ_k q_pik q_p′ik                                         (2)

A reader who always gives the likeliest answer has w = 0. From R answers each, c_pik of them k, the
unbiased estimates have (Σ_k c² − R) / R(R−1) in place of Σ_k q² and c/R in place of q.

Participants of one group, such as particles of one network, resemble each other. Intervals draw
groups and items anew (the pigeonhole bootstrap): participants and items are both samples, and both
are drawn with replacement, at once (Owen 2007, Annals of Applied Statistics 1, 386–411); this is
somewhat conservative. What belongs together is drawn together: all questions of an item, and all
particles of a network, which share its features. No participant is compared with a copy of herself,
and pairs within groups keep the share that they have of all pairs:

    b = α b_within + (1 − α) b_between,   α = pairs within groups / all pairs                    (3)

Percentiles of few networks or items are too narrow. With n the smaller of the two numbers, they are
taken at Φ(± t √(n/(n − 1))), t the quantile of Student's distribution with n − 1 degrees of
freedom, which makes the interval of a mean about as wide as the t interval (Hesterberg 2015, The
American Statistician 69, 371–386, "expanded percentiles"). With fewer than five the draws
themselves end before that: the interval is then their whole range, and too narrow.

Beliefs are arrays; whose they are is of no concern here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from equivocal.errors import UserError

__all__ = ["Estimate", "choose_likeliest", "count_answers", "draw_answers", "summarise_answers"]

DRAWS = 1_000  # of the bootstrap
LEVEL = 0.95


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
    groups: Sequence[object] | np.ndarray | None = None,
    only_items: bool = False,
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
    groups : sequence of shape (participants,), optional
        The group of each participant, such as its network; each is on its own unless given.
    only_items : bool
        Draw only items anew: the participants are no sample, as the ideal comprehender is none.
    draws : int
        How often groups and items are drawn anew for the intervals.
    seed : int
        The seed of these draws.

    Returns
    -------
    dict of str to Estimate
        By the names of options, then "w", "b" and "w/b". b needs two participants, and w/b
        answers that differ: NaN otherwise. So are intervals of a single group or item.
    """
    own = np.arange(len(answered.shares)) if groups is None else np.asarray(groups)
    grouped = _group(answered, np.unique(own, return_inverse=True)[1])
    item = np.unique(np.asarray(items), return_inverse=True)[1]
    G, size = len(grouped.people), int(item.max()) + 1
    value = _compute(grouped, np.ones(G), np.ones(len(item)))
    drawn = [
        _compute(grouped, copies, each[item])
        for copies, each in draw_copies(G, size, draws, seed, only_items=only_items)
    ]
    least = size if only_items else min(G, size)
    low, high = compute_intervals(np.reshape(drawn, (-1, len(value))), least)
    measures = (*names, "w", "b", "w/b")
    each = zip(measures, value, low, high, strict=True)
    return {name: Estimate(float(v), float(a), float(b)) for name, v, a, b in each}


class _Grouped(NamedTuple):
    """Sums over the participants of each group."""

    people: np.ndarray  # (groups,)
    shares: np.ndarray  # (groups, questions, options)
    pairs: np.ndarray  # (groups, questions): agreements of all pairs, each with herself too
    selves: np.ndarray  # (groups, questions): those of each with herself
    agreement: np.ndarray  # (groups, questions)


def _group(answered: Answered, group: np.ndarray) -> _Grouped:
    members = np.equal.outer(np.arange(group.max() + 1), group).astype(float)
    shares = np.tensordot(members, answered.shares, axes=1)
    return _Grouped(
        people=members.sum(axis=1),
        shares=shares,
        pairs=(shares**2).sum(axis=-1),
        selves=members @ (answered.shares**2).sum(axis=-1),
        agreement=members @ answered.agreement,
    )


def _compute(grouped: _Grouped, copies: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Compute shares, w, b and w/b, with so many copies of each group and question."""
    weight, people = questions / questions.sum(), copies @ grouped.people
    total = np.tensordot(copies, grouped.shares, axes=1)
    shares = weight @ total / people
    w = 1 - weight @ (copies @ grouped.agreement) / people
    b = 1 - _compute_agreement(grouped, copies, weight, total)
    return np.array([*shares, w, b, w / b if b > 1e-12 else np.nan])


def _compute_agreement(
    grouped: _Grouped, copies: np.ndarray, weight: np.ndarray, total: np.ndarray
) -> float:
    """Compute 1 − b by (3); NaN without a pair of either kind that the sample has."""
    n = grouped.people
    alike = grouped.pairs @ weight
    between = weight @ (total**2).sum(axis=-1) - copies**2 @ alike
    within = copies @ (alike - grouped.selves @ weight)
    pairs = (copies @ n) ** 2 - copies**2 @ n**2, copies @ (n**2 - n)
    inside, every = (n**2 - n).sum(), n.sum() ** 2 - n.sum()
    found = 0.0
    for part, agree, count in zip((every - inside, inside), (between, within), pairs, strict=True):
        if part > 0:
            found += part / every * agree / count if count > 0 else np.nan
    return float(found) if every > 0 else np.nan


def draw_copies(
    groups: int, items: int, draws: int, seed: int, *, only_items: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw how many copies of each group of participants, and of each item, there are.

    Parameters
    ----------
    groups, items : int
        How many there are. Nothing is drawn where there is one of either.
    draws : int
        How often.
    seed : int
        The same seed gives the same copies.
    only_items : bool
        Draw items alone, for comprehenders that are no sample, such as the ideal one.
    """
    rng = np.random.default_rng(seed)
    enough = items > 1 and (only_items or groups > 1)
    for _ in range(draws if enough else 0):
        people, each = (rng.multinomial(n, np.full(n, 1 / n)) for n in (groups, items))
        yield (np.ones(groups, int) if only_items else people), each


def compute_intervals(drawn: np.ndarray, size: int) -> np.ndarray:
    """Compute (2, columns): the 95 % interval of each column, apart from NaN.

    Parameters
    ----------
    drawn : ndarray of shape (draws, columns)
        What was computed of each draw.
    size : int
        How many networks or items were drawn, whichever is less.
    """
    ends = np.full((2, drawn.shape[1]), np.nan)
    if not len(drawn):
        return ends
    known = ~np.isnan(drawn).all(axis=0)
    far = stats.t.ppf((1 + LEVEL) / 2, size - 1) * np.sqrt(size / (size - 1))
    ends[:, known] = np.nanquantile(drawn[:, known], stats.norm.cdf([-far, far]), axis=0)
    return ends
