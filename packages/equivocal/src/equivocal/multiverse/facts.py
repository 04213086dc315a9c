"""Which of the facts that the paper prints are met by every specification of a grid.

The facts, their sources and tolerances are data: `record/facts.toml`, which also explains each
rule. A new fact of a known rule is an entry there; a new rule is a function and a line of `RULES`.
A fact is 1 (met), 0 (not met), or NaN where a record cannot decide it: too few networks for a test,
differences that do not vary, or a measure that was not taken. `answer_in_words` compares all
specifications with the facts, for each reading of N; those whose sampler diverged are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from equivocal.multiverse.grid import CHOICES, Point
from equivocal.multiverse.tasks import MAIN, STATE
from equivocal.statistics.summaries import compare_with_zero
from equivocal.store import read_toml

__all__ = ["answer_in_words", "tabulate_facts", "tabulate_matches"]

Fact = dict[str, Any]
REVERSAL = {"condition": "reversal"}
N_READ_AS = {
    "every word": "N = 10,000 sentences, with all questions about them",
    "last word": "N = 10,000 sentences, with the questions after their last words",
    "drawn pairs": "N = 10,000 (constituent, probe) pairs",
}


class Reading(NamedTuple):
    """A record: accuracies of the networks, and activations (networks, items).

    `cells` are by condition, measure and estimate: "mle", or the factor of the prior variance.
    """

    scores: dict[str, list[float]]
    cells: dict[tuple[str, str, str], np.ndarray]

    def get(self, condition: str, measure: str, estimate: str) -> np.ndarray:
        """Return activations (networks, items), or a single NaN where they were not measured."""
        return self.cells.get((condition, measure, estimate), np.full((1, 1), np.nan))


def read_record(record: dict[str, Any]) -> Reading:
    """Arrange the activations of a record."""
    cells = {
        (cell["condition"], cell["measure"], name): np.asarray(values, float)
        for cell in record["cells"]
        for name, values in cell.items()
        if isinstance(values, list)
    }
    return Reading(record["scores"], cells)


@cache
def load_facts() -> tuple[Fact, ...]:
    """Load the facts in the order of the paper: id, kind, text, where, rule and its parameters."""
    path = resources.files("equivocal.multiverse") / "record" / "facts.toml"
    return tuple(read_toml(str(path))["facts"])


def judge_facts(reading: Reading) -> dict[str, float]:
    """Judge every fact: 1 where it is met, 0 where not, NaN where the reading cannot decide."""
    return {fact["id"]: RULES[fact["rule"]](fact, reading) for fact in load_facts()}


def _get(reading: Reading, fact: Fact, measure: str, estimate: str) -> np.ndarray:
    """Get activations (networks, items); "change" is Bayesian − trained at the main prior."""
    if estimate == "change":
        return _get_change(reading, fact, measure, MAIN)
    return reading.get(fact["condition"], measure, estimate)


def _get_change(reading: Reading, fact: Fact, measure: str, prior: str) -> np.ndarray:
    """Get Bayesian − trained activations (networks, items) at a prior."""
    bayes, trained = (_get(reading, fact, measure, name) for name in (prior, "mle"))
    return np.asarray(bayes - trained)


def _decide(value: float, above: float = -np.inf, below: float = np.inf) -> float:
    """Return 1 if a number lies between two limits, 0 if not, and NaN for NaN."""
    return value if np.isnan(value) else float(above < value < below)


def _judge_score(fact: Fact, reading: Reading) -> float:
    """Judge an accuracy; the paper does not say what it counts, so either score may meet it."""
    values = [100 * float(np.mean(reading.scores[name])) for name in fact["scores"]]
    return float(any(abs(value - fact["percent"]) <= fact["tolerance"] for value in values))


def _judge_level(fact: Fact, reading: Reading) -> float:
    """Judge whether a mean activation lies between limits."""
    value = float(_get(reading, fact, fact["measure"], fact["estimate"]).mean())
    return _decide(value, fact.get("above", -np.inf), fact.get("below", np.inf))


def _judge_order(fact: Fact, reading: Reading) -> float:
    """Judge whether the mean activations of measures decrease in the order given."""
    means = [_get(reading, fact, name, fact["estimate"]).mean() for name in fact["measures"]]
    return _decide(float(np.diff(means).max()), below=0.0)


def _judge_zero(fact: Fact, reading: Reading) -> float:
    """Judge a test of activations against zero."""
    return _judge_test(fact, _get(reading, fact, fact["measure"], fact["estimate"]))


def _judge_paired(fact: Fact, reading: Reading) -> float:
    """Judge a paired test of Bayesian against trained activations."""
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
    """Judge whether the first of two priors changes activations less than the second."""
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


def tabulate_matches(points: Sequence[Point], records: Mapping[str, Any]) -> pd.DataFrame:
    """Make a row for each specification: its choices, what it meets, and the effect.

    Returns
    -------
    DataFrame
        `key`, the choices, a column for each fact (1, 0 or NaN), `met`, `claims_met`,
        `numbers_met`, `effect_agent`, `effect_patient`, and the state of the sampler.
    """
    kinds, rows = {fact["id"]: fact["kind"] for fact in load_facts()}, []
    for point, (key, record) in zip(points, records.items(), strict=True):
        reading = read_record(record)
        facts = judge_facts(reading)
        met = [kinds[name] for name, value in facts.items() if value == 1]
        counts = {f"{kind}s_met": met.count(kind) for kind in ("claim", "number")}
        effects = {
            f"effect_{role}": float(
                _get_change(reading, REVERSAL, f"indicated {role}", MAIN).mean()
            )
            for role in ("agent", "patient")
        }
        state = {name: record[name] for name in STATE}
        rows.append(
            {"key": key} | point.varied | facts | {"met": len(met)} | counts | effects | state
        )
    return pd.DataFrame(rows)


def find_nearest(matches: pd.DataFrame) -> pd.Series:
    """Return the row that meets most claims, and among those most facts."""
    return matches.sort_values(["claims_met", "met"], ascending=False, kind="stable").iloc[0]


def tabulate_facts(matches: pd.DataFrame) -> pd.DataFrame:
    """Tabulate each fact: where it is printed, and how many specifications meet it."""
    table = pd.DataFrame(load_facts())[["id", "kind", "text", "where"]]
    values = matches[table["id"]]
    return table.assign(
        met_by=(values == 1).sum().to_numpy(),
        undecided=values.isna().sum().to_numpy(),
        nearest=find_nearest(matches)[table["id"]].to_numpy(float),
    )


def answer_in_words(matches: pd.DataFrame) -> tuple[str, ...]:
    """Say in plain words whether any specification gives the paper's results."""
    facts = load_facts()
    claims = [fact["id"] for fact in facts if fact["kind"] == "claim"]
    stable, posteriors = matches[matches["diverged"] == 0], matches["key"].nunique()
    kept = stable["key"].nunique()
    tried = (
        f"of {kept} distinct posteriors whose steps do not diverge (of {posteriors} that were "
        "sampled)"
    )
    if not kept:
        return (f"Unknown: {tried}, none can be compared; give smaller steps.",)
    complete = stable.loc[stable["met"] == len(facts), "key"].nunique()
    nearly = stable.loc[stable["claims_met"] == len(claims), "key"].nunique()
    if complete:
        first = f"Yes: {tried}, {complete} meet all {len(facts)} facts."
    elif nearly:
        first = (
            f"In part: {tried}, {nearly} meet all {len(claims)} claims, but none also meets all "
            "printed numbers."
        )
    else:
        first = f"No: {tried}, none meets all {len(claims)} claims of the paper at once."
    parts = [first, *(_describe_nearest(part, matches) for _, part in stable.groupby("rows"))]
    never = [fact for fact in facts if not (stable[fact["id"]] == 1).any()]
    if never:
        lost = [fact["text"] for fact in never if fact["kind"] == "claim"]
        named = f" ({'; '.join(lost)})" if lost else ""
        numbers = len(never) - len(lost)
        parts.append(f"Never met: {numbers} printed numbers and {len(lost)} claims{named}.")
    return tuple(parts)


def _describe_nearest(matches: pd.DataFrame, everything: pd.DataFrame) -> str:
    """Describe the nearest specification of one reading of N: its settings, and what it misses."""
    facts, own, nearest = load_facts(), everything.iloc[0], find_nearest(matches)
    claims = [fact for fact in facts if fact["kind"] == "claim"]
    missed = [fact["text"] for fact in claims if nearest[fact["id"]] != 1]
    changed = [name for name in CHOICES if name != "rows" and nearest[name] != own[name]]
    settings = ", ".join(f"{name.replace('_', ' ')} {nearest[name]}" for name in changed)
    return (
        f"If {N_READ_AS[nearest['rows']]} ({matches['key'].nunique()} posteriors), the nearest "
        f"specification meets {nearest['claims_met']:g} of {len(claims)} claims and "
        f"{nearest['numbers_met']:g} of {len(facts) - len(claims)} printed numbers; it is the "
        f"study's own but for: {settings or 'nothing'}. "
        f"Claims that it misses: {'; '.join(missed) or 'none'}."
    )
