"""The answers to the questions of the registration, from the tables of a trial.

Intervals are over items (pairs of nouns with a verb), drawn anew; differences are paired by item.
The smallest differences that count are those of `data/registration.md`.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from equivocal.english.comprehenders import EXACT, TRAINED
from equivocal.english.registered_test import Trial

SINGLE = (TRAINED, "temperature", "label smoothing", "ridge")
LEAST = 0.02  # nats, or a difference of probabilities
REVERSALS = ("impossible reversed", "unlikely reversed")
CONTROLS = ("reversible plausible", "reversible reversed")
PLAUSIBLE = ("impossible plausible", "unlikely plausible")
GROUPS = {
    "object-first": ("object cleft", "object relative"),
    "passive": ("passive", "passive cleft"),
    "subject-first": ("active", "subject cleft", "subject relative"),
}
PEOPLE = 0.38, 0.58  # w/b
WEAK = 0.75  # literal reading of a control below which a construction has failed
DRAWS = 2_000

Finding: TypeAlias = tuple[Any, ...]  # a row of the table of answers


def answer_questions(trial: Trial) -> pd.DataFrame:
    """Answer every registered question.

    Returns
    -------
    DataFrame
        One row per comparison: question, comparison, value, low, high, threshold, holds.
    """
    rows = [
        *_compare_losses(trial),
        *_compare_doubts(trial),
        *_order_constructions(trial),
        *_follow_shares(trial),
        *_compare_readers(trial),
        *_follow_words(trial),
        *_find_failures(trial),
    ]
    columns = ["question", "comparison", "value", "low", "high", "threshold", "holds"]
    return pd.DataFrame(rows, columns=columns)


def _bootstrap(values: pd.Series) -> tuple[float, float, float]:
    """Return the mean over items with its 95 % interval."""
    x = values.to_numpy()
    rng = np.random.default_rng(0)
    means = x[rng.integers(len(x), size=(DRAWS, len(x)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(x.mean()), float(low), float(high)


def _average(
    trial: Trial, measure: str, kinds: Iterable[str], **where: Iterable[str]
) -> "pd.Series[float]":
    """Return the mean of a measure for each item."""
    table = trial.sentences
    wanted = {"comprehender": [EXACT], "held_out": ["new words"], "kind": kinds} | where
    chosen = [table[name].isin(list(values)) for name, values in wanted.items()]
    return table[np.all(chosen, axis=0)].groupby("item")[measure].mean()


def _compare_losses(trial: Trial) -> Iterator[Finding]:
    holdouts = ("1a", "new words"), ("1b", "like sentences")
    names = *SINGLE, "bagged ridge", "ensemble of networks"
    sides = ("reversals", REVERSALS, LEAST), ("plausible", PLAUSIBLE, -LEAST)
    for (part, held_out), name, (what, kinds, least) in product(holdouts, names, sides):
        exact, other = (
            _average(trial, "nll", kinds, comprehender=[one], held_out=[held_out])
            for one in (EXACT, name)
        )
        if other.empty:
            continue
        value, low, high = _bootstrap(other - exact)
        holds: bool | None = value >= least and (low > 0 or kinds == PLAUSIBLE)
        if name not in SINGLE:
            holds = None  # reported, not part of the answer
        text = f"loss on {what}, {name} less exact posterior"
        yield part, text, value, low, high, least, holds


def _compare_doubts(trial: Trial) -> Iterator[Finding]:
    rng = np.random.default_rng(0)
    up = _average(trial, "information", REVERSALS).to_numpy()
    controls = _average(trial, "information", CONTROLS).to_numpy()
    drawn = [
        rng.choice(up, len(up)).mean() - rng.choice(controls, len(controls)).mean()
        for _ in range(DRAWS)
    ]
    value, (low, high) = up.mean() - controls.mean(), np.quantile(drawn, [0.025, 0.975])
    text = "information, reversals less controls"
    yield "2", text, value, low, high, LEAST, bool(value >= LEAST and low > 0)
    scores = {}
    for name in ("information", "entropy", "distance", "ensemble", "bagged"):
        each = [
            measure_ranking(part[name], part["wrong"]) for _, part in trial.rows.groupby("seed")
        ]
        scores[name] = float(np.mean(each))
    for name, area in scores.items():
        holds = None if name == "information" else scores["information"] >= area - 0.01
        text = f"wrong answers told by {name}: area under the ROC curve"
        yield "2", text, area, np.nan, np.nan, np.nan, holds


def measure_ranking(score: "pd.Series[float]", wrong: "pd.Series[float]") -> float:
    """Return P(a wrong answer has the higher score than a right one), ties counted half."""
    bad, good = score[wrong > 0], score[wrong <= 0]
    if bad.empty or good.empty:
        return float("nan")
    return float(mannwhitneyu(bad, good).statistic / (len(bad) * len(good)))


def _order_constructions(trial: Trial) -> Iterator[Finding]:
    literal = {
        name: _average(trial, "literal", REVERSALS, construction=group)
        for name, group in GROUPS.items()
    }
    for more, less in pairwise(GROUPS):
        value, low, high = _bootstrap(literal[less] - literal[more])
        text = f"non-literal readings of reversals, {more} less {less}"
        yield "3", text, value, low, high, LEAST, value >= LEAST and low > 0


def _follow_shares(trial: Trial) -> Iterator[Finding]:
    table = trial.shares
    chosen = (table["comprehender"] == EXACT) & (table["kind"] == "impossible reversed")
    means = table[chosen].groupby("share")["literal"].mean()
    steps = list(means.index)
    for before, after in pairwise(steps):
        text = f"literal reading, {after:.0%} less {before:.0%} implausible sentences"
        value = float(means[after] - means[before])
        yield "4", text, value, np.nan, np.nan, LEAST, value >= LEAST


def _compare_readers(trial: Trial) -> Iterator[Finding]:
    ratio = trial.draws.set_index("readers")["ratio"]
    own = ratio.drop("readers of all networks")
    value, low, high = own.mean(), own.min(), own.max()
    text = "w/b, readers of one network (least and greatest of the networks)"
    yield "5", text, value, low, high, PEOPLE[0], bool(PEOPLE[0] <= value <= PEOPLE[1])
    together = "readers of all networks"
    yield "5", f"w/b, {together}", ratio[together], np.nan, np.nan, np.nan, None


def _follow_words(trial: Trial) -> Iterator[Finding]:
    table = trial.words[trial.words["kind"] == "impossible reversed"]
    curves = {
        name: part.set_index("position")["information"]
        for name, part in table.groupby("construction")
    }
    active, passive = curves["active"], curves["passive"]
    rise = active[2] - active[1]  # the noun chef, the verb cooked
    fall = passive[3] - passive.iloc[-1]  # the participle, the last word
    text = "information about the first noun of actives, after the verb less before"
    yield "6", text, rise, np.nan, np.nan, LEAST, bool(rise >= LEAST)
    text = "information about the first noun of passives, after the participle less the by-phrase"
    yield "6", text, fall, np.nan, np.nan, LEAST, bool(fall >= LEAST)


def _find_failures(trial: Trial) -> Iterator[Finding]:
    table = trial.loss[(trial.loss["comprehender"] == EXACT) & trial.loss["kind"].isin(CONTROLS)]
    for name, value in table.groupby("construction", sort=False)["literal"].mean().items():
        text = f"literal reading of controls, {name}"
        yield "7", text, value, np.nan, np.nan, WEAK, bool(value >= WEAK)
