"""Which facts of the paper each specification meets, which can be had together, and the nearest.

`tabulate_matches` makes a row for each specification and reading from the records of
`equivocal.study.readings`; everything else is computed from that table.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from equivocal.study.designs import Design
from equivocal.study.grids import CHOICES, TRAINING, Specification
from equivocal.study.multiverse import STATE
from equivocal.study.readings import Reading, judge_facts, list_readings, load_facts
from equivocal.study.settings import read_record

__all__ = [
    "answer_in_words",
    "find_best",
    "find_nearest",
    "relate_facts",
    "tabulate_facts",
    "tabulate_matches",
    "tabulate_together",
]

MOST = 5  # examples in a sentence
NOTE = "Settings of the nearest specification that are not the study's:"
CERTAIN = 1e-12  # activations are not taken to be nearer to 0 or 1 than this


def tabulate_matches(
    design: Design,
    points: Mapping[str, Specification],
    records: Mapping[str, dict[str, Any]],
    rounds: Mapping[str, int],
) -> pd.DataFrame:
    """Make a row for each specification: its choices, what it meets, and the effect.

    Parameters
    ----------
    design : Design
        Which says what the paper prints about choices.
    points, records, rounds : mapping
        Specification, record and round of the design (0: before refinement), by key.

    Returns
    -------
    DataFrame
        `key`, `round`, `training` (a number), `as_printed`, `free` (of the design before it is
        refined, with a posterior that was drawn freely), the choices, a column for each fact (1, 0
        or NaN), `met`, `claims_met`, `numbers_met`, `undecided`, `effect_agent`, `effect_patient`,
        the same as differences of logits (`logit_agent`, `logit_patient`), and the state of the
        sampler.
    """
    trainings: dict[tuple[Any, ...], int] = {}
    rows = []
    for key, record in records.items():
        choices = points[key].model_dump()
        training = tuple(choices[name] for name in TRAINING)
        number = trainings.setdefault(training, len(trainings))
        for (items, word), reading in list_readings(record).items():
            own = choices | {"items": items, "critical_word": word}
            row = {"key": key, "round": rounds[key], "training": number}
            row |= {"as_printed": design.is_as_printed(own), "free": points[key] in design.free}
            row |= own
            facts = judge_facts(reading)
            state = {name: record[name] for name in STATE}
            rows.append(row | facts | _count(facts) | _measure_effects(reading) | state)
    return pd.DataFrame(rows)


def _count(facts: dict[str, float]) -> dict[str, int]:
    """Count the facts that are met, by kind."""
    kinds = {fact["id"]: fact["kind"] for fact in load_facts()}
    met = [kinds[name] for name, value in facts.items() if value == 1]
    return {
        "met": len(met),
        "claims_met": met.count("claim"),
        "numbers_met": met.count("number"),
        "undecided": int(np.isnan(list(facts.values())).sum()),
    }


def _measure_effects(reading: Reading) -> dict[str, float]:
    """Measure Bayesian − trained of the indicated words of reversals: activations and logits."""
    effects = {}
    for role in ("agent", "patient"):
        bayes, mle = (reading.get("reversal", f"indicated {role}", name) for name in ("1.0", "mle"))
        effects[f"effect_{role}"] = float((bayes - mle).mean()) if bayes.size else np.nan
        apart = [logit(np.clip(each, CERTAIN, 1 - CERTAIN)) for each in (bayes, mle)]
        effects[f"logit_{role}"] = float((apart[0] - apart[1]).mean()) if bayes.size else np.nan
    return effects


def find_best(matches: pd.DataFrame, number: int) -> list[str]:
    """Return the keys of the specifications that meet most facts, one for each training."""
    ordered = matches.sort_values(["met", "claims_met"], ascending=False, kind="stable")
    return [str(key) for key in ordered.drop_duplicates("training")["key"].head(number)]


def find_nearest(matches: pd.DataFrame) -> pd.Series:
    """Return the row that meets most claims, and among those most facts."""
    return matches.sort_values(["claims_met", "met"], ascending=False, kind="stable").iloc[0]


def tabulate_facts(matches: pd.DataFrame) -> pd.DataFrame:
    """Tabulate each fact: where it is printed, and how many specifications meet it."""
    nearest, rows = find_nearest(matches), []
    for fact in load_facts():
        values = matches[fact["id"]].to_numpy(float)
        row = {name: fact[name] for name in ("id", "kind", "text", "where")}
        row["met_by"] = np.count_nonzero(values == 1)
        row["as_printed"] = np.count_nonzero(values[matches["as_printed"]] == 1)
        row["undecided"] = np.count_nonzero(np.isnan(values))
        rows.append(row | {"nearest": nearest[fact["id"]]})
    return pd.DataFrame(rows)


def tabulate_together(matches: pd.DataFrame) -> pd.DataFrame:
    """Count for each pair of facts how many specifications meet both.

    Returns
    -------
    DataFrame
        `first`, `second`, `both`, and `of`: how many decide both. The pair of a fact with itself
        counts how many meet it.
    """
    names = [fact["id"] for fact in load_facts()]
    met, known = (matches[names] == 1).astype(int), matches[names].notna().astype(int)
    counts = pd.DataFrame({"both": (met.T @ met).unstack(), "of": (known.T @ known).unstack()})
    return counts.rename_axis(["first", "second"]).reset_index()


def relate_facts(together: pd.DataFrame) -> pd.DataFrame:
    """Add the share of specifications that meet both facts, and whether the two exclude each other.

    Parameters
    ----------
    together : DataFrame
        As `tabulate_together` returns it.

    Returns
    -------
    DataFrame
        With `share`, NaN where no specification decides both, and `apart`: whether each fact is
        met somewhere, but never with the other.
    """
    alone = together[together["first"] == together["second"]].set_index("first")["both"]
    met = [together[name].map(alone) > 0 for name in ("first", "second")]
    share = together["both"] / together["of"].where(together["of"] > 0)
    return together.assign(share=share, apart=met[0] & met[1] & (together["both"] == 0))


def answer_in_words(matches: pd.DataFrame) -> tuple[str, ...]:
    """Answer whether the paper's results come out under any specification, in plain words.

    The last sentence, which begins with `NOTE`, has the settings of the nearest specification.
    """
    facts = load_facts()
    claims = [fact["id"] for fact in facts if fact["kind"] == "claim"]
    numbers = len(facts) - len(claims)
    printed = matches[matches["as_printed"]]
    parts = [_answer_first(matches, printed, claims, len(facts))]
    nearest = find_nearest(matches)
    missed = [fact["text"] for fact in facts if fact["id"] in claims and nearest[fact["id"]] != 1]
    parts.append(
        f"The nearest specification meets {nearest['claims_met']:g} of {len(claims)} claims and "
        f"{nearest['numbers_met']:g} of {numbers} printed numbers. {_describe(nearest, matches)}"
    )
    if missed:
        parts.append(f"Claims that it misses: {'; '.join(_merge_tests(missed))}.")
    never = [fact for fact in facts if not (matches[fact["id"]] == 1).any()]
    if never:
        lost = [fact["text"] for fact in never if fact["kind"] == "claim"]
        parts.append(
            f"Never met: {len(never) - len(lost)} printed numbers and {len(lost)} claims"
            + (f" ({'; '.join(lost)})." if lost else ".")
        )
    if apart := _find_apart(matches):
        texts = {fact["id"]: fact["text"] for fact in facts}
        pairs = "; ".join(f"{texts[one]!r} with {texts[other]!r}" for one, other in apart[:MOST])
        parts.append(
            f"{len(apart)} pairs of claims are each met somewhere and never together, the most "
            f"frequent of them: {pairs}."
        )
    apart_from_study = _list_differences(nearest, matches)
    settings = [f"{name} = {nearest[name]}" for name in apart_from_study]
    return (*parts, f"{NOTE} {', '.join(settings) or 'none'}.")


def _answer_first(
    matches: pd.DataFrame, printed: pd.DataFrame, claims: list[str], facts: int
) -> str:
    """Say yes or no, first for specifications that keep everything that the paper prints."""
    tried = f"{len(matches):,} specifications"
    kept = f"{len(printed):,} of which keep every number that the paper prints about its method"
    for there, whose in ((printed, "as printed"), (matches, "not as printed")):
        complete = int((there["met"] == facts).sum())
        nearly = int((there["claims_met"] == len(claims)).sum())
        if complete:
            return f"Yes: of {tried}, {kept}, {complete} ({whose}) meet all {facts} facts."
        if nearly:
            return (
                f"In part: of {tried}, {kept}, {nearly} ({whose}) meet all {len(claims)} claims, "
                "but none also meets all printed numbers."
            )
    return f"No: of {tried}, {kept}, none meets all {len(claims)} claims of the paper at once."


def _find_apart(matches: pd.DataFrame) -> list[tuple[str, str]]:
    """Find pairs of claims that are each met somewhere, but nowhere together."""
    claims = [fact["id"] for fact in load_facts() if fact["kind"] == "claim"]
    related = relate_facts(tabulate_together(matches))
    named = related.loc[related["apart"], ["first", "second"]]
    apart = set(named.itertuples(index=False, name=None))
    pairs = [pair for pair in combinations(claims, 2) if pair in apart]
    met = (matches[claims] == 1).sum()
    return sorted(pairs, key=lambda pair: -met[list(pair)].min())


def _merge_tests(texts: list[str]) -> list[str]:
    """Name once what is said of tests over networks and over items."""
    found: dict[str, list[str]] = {}
    for text in texts:
        what, _, over = text.partition(" over ")
        found.setdefault(what, []).extend([over] if over else [])
    return [" over ".join([what, *filter(None, [" and ".join(by)])]) for what, by in found.items()]


def _list_differences(row: pd.Series, matches: pd.DataFrame) -> list[str]:
    """List the choices in which a specification is not the study's own, which is the first row."""
    own = matches.iloc[0]
    return [name for name in CHOICES if row[name] != own[name]]


def _describe(row: pd.Series, matches: pd.DataFrame) -> str:
    """Say in plain words where a specification departs from the study's own."""
    apart = _list_differences(row, matches)
    if row["weight_decay"] == 0 and "weight_decay" in apart:
        apart = [name for name in apart if name != "decay"]  # of nothing
    sentences = []
    for phrases in read_record("choices").values():
        said = [_put_in_words(phrases[name], row[name]) for name in phrases if name in apart]
        if said:
            listed = " and ".join([*([", ".join(said[:-1])] if said[1:] else []), said[-1]])
            sentences.append(f"{phrases['subject']} {listed}.")
    return " ".join(sentences) or "It is the study's own."


def _put_in_words(phrase: str | dict[str, str], value: Any) -> str:
    """Put a value into its phrase."""
    chosen = phrase if isinstance(phrase, str) else phrase.get(str(value), phrase.get("other", ""))
    return chosen.format(f"{value:g}" if isinstance(value, float) else value)
