"""Measures joined to trials by item and word, with an account of every trial that was left out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.human_data.columns import PLACES, Columns, our_names, place_of
from equivocal.human_data.tables import (
    NETWORK,
    RESERVED,
    as_measures,
    as_trials,
    check_where,
    choose_measures,
    numbers,
    open_table,
    parse_where,
)
from equivocal.world.spelling import fold

__all__ = ["Joined", "join", "join_files", "one_row_each"]


@dataclass(frozen=True)
class Joined:
    """Trials that have a response and every measure, and what became of the others."""

    trials: pd.DataFrame  # participant, item, places, response, controls, measures
    measures: list[str]
    controls: list[str]
    keys: list[str]  # what they were joined by
    given: int  # trials in the table
    unmatched: pd.DataFrame  # trials left out: row, participant, keys, reason
    notes: list[str]
    columns: dict[str, str] = field(default_factory=dict)  # of the trial table, by our names


def join_files(
    data: Path,
    measures: Path,
    columns: Columns,
    chosen: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
) -> Joined:
    """The trials and the measures of two files; controls are called as the trials call them."""
    given, words = open_table(data), open_table(measures)
    check_where(where, given, words)
    trials, names = as_trials(data, given, columns, where)
    table = as_measures(measures, words, columns, where)
    joined = join(trials, table, chosen, our_names(controls, names), where)
    return replace(joined, columns=names)


def join(
    trials: pd.DataFrame,
    measures: pd.DataFrame,
    chosen: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
) -> Joined:
    """Every trial gets the measures of its item and word; `where` is how both were chosen."""
    keys = _keys(trials, measures)
    if "word" in keys:
        trials, measures = (t.assign(word=_folded(t["word"])) for t in (trials, measures))
    names = choose_measures(measures, chosen, controls)
    _check_controls(trials, measures, controls)
    by_word = [name for name in controls if name not in trials]
    labels = [name for name in by_word if not pd.api.types.is_numeric_dtype(measures[name])]
    averaged, notes = one_row_each(measures, keys, list(dict.fromkeys([*names, *by_word])), labels)
    held = ["row", "participant", *[p for p in PLACES if p in trials], "response", *controls]
    held = [name for name in dict.fromkeys(held) if name in trials]
    # a measure may be called like a column of the trials: theirs are not taken
    left = trials[[name for name in held if name not in names]].copy()
    left["response"] = numbers(left["response"])
    both = left.merge(averaged, on=keys, how="left", indicator="found")
    reasons = _reasons(both, trials["response"], keys, names, controls)
    kept = reasons == ""
    if not kept.any():
        raise UserError(_nothing_joined(both, averaged, reasons, keys))
    unmatched = both.loc[~kept, ["row", "participant", *keys]].assign(reason=reasons[~kept])
    joined = both[kept].drop(columns=["found"]).reset_index(drop=True)
    if "word" in measures and "word" in joined and "word" not in keys:
        notes += _other_words(joined, measures, keys)
    again = int(joined.duplicated(["participant", *keys]).sum())
    notes += _one_for_all(where, trials, measures, keys, again)
    if again:
        notes.append(f"{again} trials repeat a participant and word; are rows there twice?")
    return Joined(joined, names, list(controls), keys, len(trials), unmatched, notes)


def _keys(trials: pd.DataFrame, measures: pd.DataFrame) -> list[str]:
    shared = [place for place in PLACES if place in trials and place in measures]
    if "position" in shared and "word" in shared:
        shared.remove("word")  # it is checked instead
    if not {"position", "word"} & set(shared):
        several = [p for p in ("position", "word") if p in trials and trials[p].nunique() > 1]
        if several:
            raise UserError(
                f"the trials have a column {several[0]} with several values and the measures have "
                f"none; add it there, or keep one word with --where {several[0]}=VALUE."
            )
    return shared


def _folded(words: pd.Series) -> pd.Series:
    """As they are compared; a dash or another word without letters is left as it is."""
    return words.map(lambda word: fold(word) or word, na_action="ignore")


def _one_for_all(
    where: Sequence[str],
    trials: pd.DataFrame,
    measures: pd.DataFrame,
    keys: list[str],
    again: int,
) -> list[str]:
    """What --where chose in the measures only, all trials get; they must not be several words."""
    known = {"position", "word"} if {"position", "word"} & set(keys) else set()  # one says both
    notes = []
    for name, value in parse_where(where):
        place = place_of(name)
        if not place or place in known or place in trials or name not in measures:
            continue
        if again:
            raise UserError(
                f"--where {name}={value} holds for the measures only, since the trials have no "
                f"column {place}, and {again} of them repeat a participant and "
                f"{' and '.join(keys)}, so that others would get that measure; name their column "
                f"with --{place}, or add it."
            )
        notes.append(f"the trials have no column {place}; all are taken to have {name}={value}")
    return notes


def _check_controls(trials: pd.DataFrame, measures: pd.DataFrame, controls: Sequence[str]) -> None:
    present = dict.fromkeys([*trials.columns, *measures.columns])
    known = [str(name) for name in present if name not in RESERVED]
    for name in controls:
        if name in ("item", *RESERVED):
            raise UserError(
                f"--control {name}: that name is taken, and participants and items are in the "
                "models already; leave it out, or rename the column."
            )
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {join_names(known)}."
            raise UserError(f"neither table has a column {name!r} for --control{hint}")


def one_row_each(
    measures: pd.DataFrame, keys: list[str], names: list[str], labels: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """One row for each key, averaged over networks where there are several."""
    table = measures.dropna(subset=keys)
    several = [*keys, NETWORK] if NETWORK in table else keys
    again = table.duplicated(several, keep=False)
    if again.any():
        first = table[again].iloc[0]
        same = (table[keys] == first[keys]).all(axis=1)
        differ = [
            str(c)
            for c in table.columns
            if c not in (*several, *names) and table.loc[same, c].nunique(dropna=False) > 1
        ]
        where = ", ".join(f"{key} {first[key]}" for key in keys)
        way_out = (
            f"they differ in {join_names(differ)}, so keep one kind with --where "
            f"{differ[0]}={first[differ[0]]}"
            if differ
            else "give each word once"
        )
        raise UserError(f"the measures have {int(same.sum())} rows for {where}; {way_out}.")
    figures = [name for name in names if name not in labels]
    if NETWORK not in table or table[NETWORK].nunique() < 2:
        found = table[[*keys, *names]].copy()
        found[figures] = found[figures].apply(numbers)
        return found, []
    values = table[keys].join(table[figures].apply(numbers))
    groups = values.groupby(keys, sort=False)
    # a word that one network has no value for has no average
    lacking = values[figures].isna().groupby([values[key] for key in keys], sort=False).any()
    found = groups[figures].mean().mask(lacking)
    if labels:
        found = found.join(table.groupby(keys, sort=False)[labels].first())
    note = f"measures are averages over {table[NETWORK].nunique()} networks"
    return found.reset_index(), [note]


def _reasons(
    both: pd.DataFrame,
    response: pd.Series,
    keys: list[str],
    names: list[str],
    controls: Sequence[str],
) -> pd.Series:
    """Why each trial is left out, the first reason that holds; empty where it is kept."""
    tests = [(both[key].isna(), f"no {key}") for key in ("participant", *keys)]
    given = pd.Series(response.notna().to_numpy(), both.index)
    tests += [
        (both["response"].isna() & ~given, "no response"),
        (both["response"].isna(), "the response is not a number"),
        (both["found"] != "both", "no such word in the measures"),
        *((both[name].isna(), f"{name} is empty") for name in (*names, *controls)),
    ]
    reasons = pd.Series("", both.index, dtype=object)
    for holds, reason in tests:
        reasons[holds & (reasons == "")] = reason
    return reasons


def _nothing_joined(
    both: pd.DataFrame, averaged: pd.DataFrame, reasons: pd.Series, keys: list[str]
) -> str:
    commonest = str(reasons.value_counts().index[0])
    if commonest != "no such word in the measures":
        return f"no trial is left: in {int((reasons == commonest).sum())}, {commonest}."
    for key in keys:
        theirs, ours = both[key].dropna().unique(), averaged[key].unique()
        if not set(theirs) & set(ours):
            return (
                f"no trial joined: {key} is {join_names(theirs, most=3)} in the trials and "
                f"{join_names(ours, most=3)} in the measures; use the same names in both."
            )
    return f"no trial joined: no combination of {', '.join(keys)} is in both tables."


def _other_words(joined: pd.DataFrame, measures: pd.DataFrame, keys: list[str]) -> list[str]:
    words = measures.dropna(subset=keys).drop_duplicates(keys).set_index(keys)["word"]
    index = pd.MultiIndex.from_frame(joined[keys]) if len(keys) > 1 else joined[keys[0]]
    theirs = words.reindex(index).to_numpy()
    pairs = Counter(zip(joined["word"], theirs, strict=True))
    other = Counter(
        {
            (a, b): count
            for (a, b), count in pairs.items()
            if isinstance(a, str) and isinstance(b, str) and fold(a) != fold(b)
        }
    )
    if not other:
        return []
    (first, second), _ = other.most_common(1)[0]
    return [
        f"in {other.total()} joined trials the words differ, most often {first!r} in the trials "
        f"and {second!r} in the measures; are positions counted alike?"
    ]
