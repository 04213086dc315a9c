"""Every fact that the paper prints about its results, and whether a reading meets it.

The facts, their sources and tolerances are data: `record/facts.toml`, which also says what each
rule means. A new fact of a known rule is an entry there; a new rule is a function and a line of
`RULES`. A fact is True, False, or NaN where the reading cannot decide it: too few networks for a
test, differences that do not vary, or a measure that was not taken.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from equivocal.store import read_toml
from equivocal.study.readings import Reading
from equivocal.study.statistics import compare_with_zero

__all__ = ["judge_facts", "load_facts"]

Fact = dict[str, Any]
MAIN = "1.0"  # factor of the prior variance in the main analysis


@cache
def load_facts() -> tuple[Fact, ...]:
    """Load the facts in the order of the paper: id, kind, text, where and what the rule needs."""
    path = resources.files("equivocal.study") / "record" / "facts.toml"
    return tuple(read_toml(str(path))["facts"])


def judge_facts(reading: Reading) -> dict[str, float]:
    """Judge every fact: 1 where it is met, 0 where not, NaN where that cannot be said."""
    return {fact["id"]: _judge(fact, reading) for fact in load_facts()}


def _judge(fact: Fact, reading: Reading) -> float:
    try:
        return RULES[fact["rule"]](fact, reading)
    except _UnknownError:
        return np.nan


class _UnknownError(Exception):
    """The reading does not hold what a fact is about."""


def _get(reading: Reading, fact: Fact, measure: str, estimate: str) -> np.ndarray:
    """Get activations (networks, items); "change" is Bayesian − trained at the main prior."""
    if estimate == "change":
        return _get_change(reading, fact, measure, MAIN)
    found = reading.get(fact["condition"], measure, estimate)
    if not found.size:
        raise _UnknownError
    return found


def _get_change(reading: Reading, fact: Fact, measure: str, prior: str) -> np.ndarray:
    bayes, trained = (_get(reading, fact, measure, name) for name in (prior, "mle"))
    return np.asarray(bayes - trained)


def _decide(value: float, above: float = -np.inf, below: float = np.inf) -> float:
    """Return whether a number lies between two others; unknown where it is NaN."""
    if np.isnan(value):
        raise _UnknownError
    return float(above < value < below)


def _judge_score(fact: Fact, reading: Reading) -> float:
    """Judge an accuracy; the paper does not say what it counts, so either score may meet it."""
    values = [100 * float(np.mean(reading.scores[name])) for name in fact["scores"]]
    return float(any(abs(value - fact["percent"]) <= fact["tolerance"] for value in values))


def _judge_level(fact: Fact, reading: Reading) -> float:
    value = float(_get(reading, fact, fact["measure"], fact["estimate"]).mean())
    return _decide(value, fact.get("above", -np.inf), fact.get("below", np.inf))


def _judge_order(fact: Fact, reading: Reading) -> float:
    means = [_get(reading, fact, name, fact["estimate"]).mean() for name in fact["measures"]]
    return float(all(np.diff(means) < 0))


def _judge_zero(fact: Fact, reading: Reading) -> float:
    return _judge_test(fact, _get(reading, fact, fact["measure"], fact["estimate"]))


def _judge_paired(fact: Fact, reading: Reading) -> float:
    return _judge_test(fact, _get_change(reading, fact, fact["measure"], fact["prior"]))


def _judge_test(fact: Fact, cells: np.ndarray) -> float:
    """Judge sign, p and t of a test over networks or over items."""
    test = compare_with_zero(cells.mean(axis=1 if fact["by"] == "networks" else 0))
    met = _decide(test.p, fact.get("p_above", -np.inf), fact.get("p_below", np.inf))
    if "sign" in fact:
        met *= float(np.sign(test.t) == fact["sign"])
    if "t" in fact:
        met *= float(abs(test.t - fact["t"]) <= fact["tolerance"])
    return met


def _judge_nearer(fact: Fact, reading: Reading) -> float:
    small, large = (
        abs(float(_get_change(reading, fact, fact["measure"], prior).mean()))
        for prior in fact["priors"]
    )
    return _decide(small, below=large)


RULES: dict[str, Callable[[Fact, Reading], float]] = {
    "score": _judge_score,
    "level": _judge_level,
    "order": _judge_order,
    "zero": _judge_zero,
    "paired": _judge_paired,
    "nearer": _judge_nearer,
}
