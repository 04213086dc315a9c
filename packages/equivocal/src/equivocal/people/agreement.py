"""How often each reading is given, and how often two answers that are drawn from beliefs differ.

A participant p who believes option k of question i with probability q_pik gives each answer by an
independent draw from q_pi. Two of her answers (w), and answers of two participants (b), differ with
the probabilities

    w = mean over p, i of   1 − Σ_k q_pik²                                                       (1)
    b = mean over i and p ≠ p′ of   1 − Σ_k q_pik q_p′ik                                         (2)

A reader who always gives the likeliest answer has w = 0.

Participants of one group, such as particles of one network, resemble each other. Intervals are by
the pigeonhole bootstrap: participants and items are both samples, and both are resampled with
replacement at the same time (Owen 2007, Annals of Applied Statistics 1, 386–411); this is somewhat
conservative. All questions of an item are resampled together, and so are all particles of a
network, which share its features. No participant is compared with a copy of herself, and pairs
within groups keep their share of all pairs:

    b = α b_within + (1 − α) b_between,   α = pairs within groups / all pairs                    (3)

With few networks or items, percentile intervals are too narrow. With n the smaller of the two
numbers, percentiles are taken at Φ(± t √(n/(n − 1))), t the quantile of Student's distribution with
n − 1 degrees of freedom, which makes the interval of a mean about as wide as the t interval
(Hesterberg 2015, The American Statistician 69, 371–386, "expanded percentiles"). With n below five
the resamples do not reach that far: the interval is then their whole range, and too narrow.

Beliefs are arrays; the functions do not depend on whose beliefs they are.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

DRAWS = 1_000  # resamples of the bootstrap
LEVEL = 0.95


class Estimate(NamedTuple):
    """A number with its 95 % interval over participants and items."""

    value: float
    low: float
    high: float


def share_beliefs(literal: np.ndarray, rival: np.ndarray) -> np.ndarray:
    """Return probabilities of three answers: a reading, its rival, and anything else.

    Parameters
    ----------
    literal, rival : ndarray
        Degrees of belief in two mutually exclusive answers, each between 0 and 1.

    Returns
    -------
    ndarray
        With a last axis of length three. Other answers have the remaining probability; if the two
        beliefs sum to more than one, they are divided by their sum.

    Examples
    --------
    >>> share_beliefs(np.array([0.5, 0.75]), np.array([0.25, 0.75])).tolist()
    [[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]
    """
    rest = np.maximum(1 - literal - rival, 0)
    every = np.stack(np.broadcast_arrays(literal, rival, rest), axis=-1)
    return np.asarray(every / every.sum(axis=-1, keepdims=True))


def summarise_answers(
    beliefs: np.ndarray,
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
    beliefs : ndarray of shape (participants, questions, options)
        Probabilities, which sum to one over options.
    items : sequence of shape (questions,)
        The item that each question is about.
    names : sequence of str
        The names of the options.
    groups : sequence of shape (participants,), optional
        The group of each participant, such as its network; unless given, each participant is a
        group.
    only_items : bool
        Resample items only, for participants that are not a sample, such as the ideal comprehender.
    draws : int
        Number of resamples for the intervals.
    seed : int
        The seed of the bootstrap.

    Returns
    -------
    dict of str to Estimate
        By the names of options, then "w", "b" and "w/b". b needs two participants, w/b beliefs
        that are unsure, and intervals need two groups and two items; otherwise they are NaN.
    """
    group_names = np.arange(len(beliefs)) if groups is None else np.asarray(groups)
    grouped = _sum_groups(beliefs, np.unique(group_names, return_inverse=True)[1])
    item = np.unique(np.asarray(items), return_inverse=True)[1]

    def compute(copies: np.ndarray, each: np.ndarray) -> np.ndarray:
        return _compute_measures(grouped, copies, each[item])

    sizes = len(grouped.people), int(item.max()) + 1
    estimates = bootstrap(compute, sizes, draws, seed, only_items=only_items)
    measures = (*names, "w", "b", "w/b")
    return {name: Estimate(*row) for name, row in zip(measures, estimates.tolist(), strict=True)}


class _Grouped(NamedTuple):
    """Sums over the participants of each group."""

    people: np.ndarray  # (groups,)
    shares: np.ndarray  # (groups, questions, options)
    pairs: np.ndarray  # (groups, questions): agreements of all pairs, including self-pairs
    selves: np.ndarray  # (groups, questions): agreements of two answers of one participant


def _sum_groups(beliefs: np.ndarray, group: np.ndarray) -> _Grouped:
    """Sum over the participants of each group; `group` is the number of each one's group."""
    members = np.equal.outer(np.arange(group.max() + 1), group).astype(float)
    shares = np.tensordot(members, beliefs, axes=1)
    return _Grouped(
        people=members.sum(axis=1),
        shares=shares,
        pairs=(shares**2).sum(axis=-1),
        selves=members @ (beliefs**2).sum(axis=-1),
    )


def _compute_measures(grouped: _Grouped, copies: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Compute shares, w, b and w/b, given the number of copies of each group and question."""
    weight, people = questions / questions.sum(), copies @ grouped.people
    total = np.tensordot(copies, grouped.shares, axes=1)
    shares = weight @ total / people
    w = 1 - weight @ (copies @ grouped.selves) / people
    b = 1 - _compute_agreement(grouped, copies, weight, total)
    return np.array([*shares, w, b, w / b if b > 1e-12 else np.nan])


def _compute_agreement(
    grouped: _Grouped, copies: np.ndarray, weight: np.ndarray, total: np.ndarray
) -> float:
    """Compute 1 − b by (3); NaN if a resample lacks a kind of pairs that the sample has."""
    n = grouped.people
    alike = grouped.pairs @ weight
    between = weight @ (total**2).sum(axis=-1) - copies**2 @ alike
    within = copies @ (alike - grouped.selves @ weight)
    pairs = (copies @ n) ** 2 - copies**2 @ n**2, copies @ (n**2 - n)
    inside, every = (n**2 - n).sum(), n.sum() ** 2 - n.sum()
    agreement = 0.0
    for part, agree, count in zip((every - inside, inside), (between, within), pairs, strict=True):
        if part > 0:
            agreement += part / every * agree / count if count > 0 else np.nan
    return float(agreement) if every > 0 else np.nan


def bootstrap(
    compute: Callable[[np.ndarray, np.ndarray], Sequence[float] | np.ndarray],
    sizes: tuple[int, int],
    draws: int,
    seed: int,
    *,
    only_items: bool,
) -> np.ndarray:
    """Compute measures with their 95 % intervals, by resampling groups of participants and items.

    Parameters
    ----------
    compute : callable
        Takes the number of copies of each group and of each item, and returns the measures.
    sizes : (int, int)
        Number of groups and of items. If there is only one of either, intervals are NaN.
    draws : int
        Number of resamples.
    seed : int
        The same seed gives the same intervals.
    only_items : bool
        Resample items only, for comprehenders that are not a sample, such as the ideal one.

    Returns
    -------
    ndarray of shape (measures, 3)
        Value, low and high of each measure; resamples in which a measure is NaN are ignored.
    """
    value = compute(*map(np.ones, sizes))
    estimates = np.full((len(value), 3), np.nan)
    estimates[:, 0] = value
    size = sizes[1] if only_items else min(sizes)
    if draws and size > 1:
        rng = np.random.default_rng(seed)
        drawn = np.empty((draws, len(value)))
        for row in drawn:
            groups, items = (rng.multinomial(n, np.full(n, 1 / n)) for n in sizes)
            row[:] = compute(np.ones(sizes[0], int) if only_items else groups, items)
        known = ~np.isnan(drawn).all(axis=0)
        far = stats.t.ppf((1 + LEVEL) / 2, size - 1) * np.sqrt(size / (size - 1))
        ends = np.nanquantile(drawn[:, known], stats.norm.cdf([-far, far]), axis=0)
        estimates[known, 1:] = ends.T
    return estimates
