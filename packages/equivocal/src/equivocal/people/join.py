"""Joins measures to trials by item and word, and gives a reason for every trial that is left out.

Where both tables have words, trials are first aligned with the measures, sentence by sentence
(`equivocal.people.align`), and their positions become those of the measures. Where a table has no
words, positions beyond the end of the sentence show that the tables count differently; otherwise a
note says that nothing could be checked.

A new reason to leave out a trial is a line of `_find_reasons`; the first that applies is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.people import trial_tables as tables
from equivocal.people.align import NOWHERE, Region, align_trials
from equivocal.people.designs import add_length, add_previous_words, name_with_previous
from equivocal.people.trial_tables import NEEDED, NETWORK, PLACES, RESERVED, SIGNALS, WORDS
from equivocal.world.spelling import drop_articles
from lastlayer.errors import UserError, check_known, join_names

NO_WORD = "no such word in the measures"
NO_SENTENCE = "no such sentence (item and condition) in the measures"
IN_REGION = "word_in_region"  # a column of `align`


@dataclass(frozen=True)
class Joined:
    """Trials that have a response and every measure, and the reasons why others were left out."""

    trials: pd.DataFrame  # participant, item, places, response, controls, measures
    measures: list[str]
    controls: list[str]
    keys: list[str]  # columns that the tables were joined by
    given: int  # number of trials before the join
    unmatched: pd.DataFrame  # trials left out: row, participant, keys, reason
    notes: list[str]
    columns: dict[str, str] = field(default_factory=dict)  # the user's column names, by our names
    together: Sequence[str] = ()  # measures that are also entered together
    networks: list[pd.DataFrame] = field(default_factory=list)  # measures of each, row by row
    words: pd.DataFrame = field(default_factory=pd.DataFrame)  # what became of every word read


def join_files(
    data: Path,
    measures: Path,
    columns: tables.Columns,
    chosen: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
    *,
    spillover: int = 0,
    region: Region = "last",
    by: str | None = None,
) -> Joined:
    """Join the trials and the measures of two CSV files.

    Parameters
    ----------
    data, measures : Path
        The trials, a row for each response; the measures, a row for each item and word.
    columns : Columns
        The names of the columns of the trials.
    chosen : sequence of str
        The measures to join; every column of numbers unless given.
    controls : sequence of str
        Columns of either table that all models contain, by their names in the trials; `length` is
        counted if no table has it.
    where : sequence of str
        Keep only rows with COLUMN=VALUE, in the tables that have the column.
    spillover : int
        Number of previous words whose measures and numeric controls are added.
    region : {"last", "sum", "each"}
        The response to a constituent that was read word by word: that of its last word, the sum, or
        each of them.
    by : str, optional
        A column with which measures interact; it is also a control.

    Returns
    -------
    Joined
        The trials with their measures, and the trials that could not be joined, with reasons.

    Raises
    ------
    UserError
        Where a column is missing, or no trial can be joined.
    """
    trials, names = tables.read_trials(data, columns)
    words = tables.read_measures(measures, names)
    ours = {theirs: role for role, theirs in names.items()}
    kept = [(ours.get(name, name), value) for name, value in tables.parse_where(where)]
    for name, value in kept:
        check_known(name, [*trials, *words], "column", f"--where {name}={value}: ")
    of_words = [one for one in kept if one[0] in WORDS]  # sentences are whole until these apply
    others = [one for one in kept if one not in of_words]
    trials, words = (tables.filter_rows(table, others) for table in (trials, words))
    controls = list(dict.fromkeys(ours.get(n, n) for n in (*controls, *([by] if by else []))))
    notes = list[str]()
    aligned = None
    if _lists_words(trials) and _lists_words(words) and "position" in words:
        aligned = align_trials(trials, words, region)
        notes = aligned.notes
        if len(aligned.trials) < len(trials) - len(aligned.left_out):
            counted = {"last": "the last", "sum": "their sum"}.get(region, region)
            notes.append(
                f"{len(trials)} rows were read; of the words of one constituent {counted} counts "
                "(--region), and alignment.csv lists all"
            )
        trials = aligned.trials
        if trials.get("words_read", pd.Series(1)).nunique() > 1:
            controls.append("words_read")
            notes.append("words_read, the number of words in each sum, is a control")
    if "length" in controls and not {"length"} & {*trials, *words}:
        lags = spillover if "position" in trials else 0
        trials = add_previous_words(add_length(trials), lags, ["length"])
    lagged = [name for name in controls if name in words.select_dtypes("number")]
    lagged = [*tables.choose_measures(words, chosen), *lagged]
    words = add_previous_words(words, spillover, list(dict.fromkeys(lagged)))
    _check_positions(trials, words)
    lagged = [name for name in name_with_previous(controls, spillover) if name in {*trials, *words}]
    joined = join(
        tables.filter_rows(trials, of_words),
        tables.filter_rows(words, of_words),
        name_with_previous(chosen, spillover),
        list(dict.fromkeys([*controls, *lagged])),
    )
    joined = replace(joined, columns=names, notes=[*joined.notes, *notes])
    if aligned is None:
        return joined
    unmatched = pd.concat([aligned.left_out, joined.unmatched]).sort_values("row", kind="stable")
    given = joined.given + len(aligned.left_out)
    return replace(joined, unmatched=unmatched, given=given, words=aligned.words)


def _lists_words(table: pd.DataFrame) -> bool:
    """Return whether a table says which words its rows are about."""
    return "word" in table and bool(table["word"].notna().any())


def join(
    trials: pd.DataFrame,
    measures: pd.DataFrame,
    chosen: Sequence[str] = (),
    controls: Sequence[str] = (),
) -> Joined:
    """Add to every trial the measures of its item and word.

    Parameters
    ----------
    trials, measures : DataFrame
        The tables of `read_trials` and `read_measures`.
    chosen, controls
        As in `join_files`, with our names for columns.
    """
    keys = _choose_keys(trials, measures)
    if "word" in keys:
        trials, measures = (t.assign(word=_compare_by(t["word"])) for t in (trials, measures))
    names = tables.choose_measures(measures, chosen, controls)
    _check_controls(trials, measures, controls)
    by_word = [name for name in controls if name not in trials]
    averaged, notes = average_networks(measures, keys, list(dict.fromkeys([*names, *by_word])))
    held = dict.fromkeys(["row", "participant", *PLACES, IN_REGION, "response", *controls])
    # where trials have a column of the same name as a measure, the measure is used
    left = trials[[name for name in held if name in trials and name not in names]]
    left = left.assign(response=tables.convert_to_numbers(left["response"]))
    both = left.merge(averaged, on=keys, how="left", indicator="found")
    if not chosen and SIGNALS[0] in names:
        names = _leave_out_gaps(both, names, notes)
    reasons = _find_reasons(both, trials["response"], keys, [*names, *controls])
    kept = reasons == ""
    if not kept.any():
        raise UserError(_explain_no_match(both, averaged, reasons, keys))
    unmatched = both.loc[~kept, ["row", "participant", *keys]].assign(reason=reasons[~kept])
    joined = both[kept].drop(columns=["found"]).reset_index(drop=True)
    lacking = [n for n, t in (("trials", trials), ("measures", measures)) if not _lists_words(t)]
    if "position" in keys and lacking:
        notes.insert(
            0,
            f"the {' and the '.join(lacking)} have no column word, so nothing shows whether "
            "positions count the same words in both tables; add it",
        )
    repeated = int(joined.duplicated(["participant", *keys, *({IN_REGION} & {*joined})]).sum())
    if repeated:
        notes.append(f"{repeated} trials repeat a participant and word; are rows there twice?")
    networks = _split_networks(measures, joined, keys, names)
    made = Joined(joined, names, list(controls), keys, len(trials), unmatched, notes)
    return replace(made, networks=networks, together=_choose_together(names, chosen))


def _choose_keys(trials: pd.DataFrame, measures: pd.DataFrame) -> list[str]:
    """Return the columns to join by; if both position and word are shared, only the position."""
    shared = [place for place in PLACES if place in trials and place in measures]
    if "position" in shared and "word" in shared:
        shared.remove("word")  # differing words are refused instead
    several = [name for name in WORDS if name in trials and trials[name].nunique() > 1]
    if several and not {*WORDS} & {*shared}:
        raise UserError(
            f"the trials have a column {several[0]} with several values and the measures have "
            f"none; add it there, or keep one word with --where {several[0]}=VALUE."
        )
    return shared


def _compare_by(words: pd.Series) -> pd.Series:
    """Normalise words for comparison; a dash or another word without letters is kept."""
    return words.map(lambda word: drop_articles(word) or word, na_action="ignore")


def _check_controls(trials: pd.DataFrame, measures: pd.DataFrame, controls: Sequence[str]) -> None:
    """Refuse controls that no table has, and those that are in the models already."""
    for name in controls:
        if name in (*NEEDED, *RESERVED):
            raise UserError(
                f"--control {name}: participants, items and the response are in the models "
                "already; leave it out, or rename the column."
            )
        check_known(name, [*trials, *measures], "column", "--control: ")


def average_networks(
    measures: pd.DataFrame, keys: list[str], names: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row for each key, averaged over networks, and a note if there are several.

    Of columns that are not numeric, the first value is kept.
    """
    table = measures.dropna(subset=keys)
    several = [*keys, NETWORK] if NETWORK in table else keys
    repeated = table.duplicated(several, keep=False)
    if repeated.any():
        raise UserError(_explain_repeated(table, table[repeated].iloc[0], keys, [*several, *names]))
    labels = [name for name in names if not pd.api.types.is_numeric_dtype(table[name])]
    figures = [name for name in names if name not in labels]
    values = table[keys].join(table[figures].apply(tables.convert_to_numbers))
    groups = values.groupby(keys, sort=False)[figures]
    # a word for which one network has no value has no average
    means = groups.mean().where(groups.count().eq(groups.size(), axis=0))
    means = means.join(table.groupby(keys, sort=False)[labels].first()) if labels else means
    networks = table[NETWORK].nunique() if NETWORK in table else 1
    notes = [f"the measures are of {networks} networks"] if networks > 1 else []
    return means.reset_index()[[*keys, *names]], notes


def _choose_together(names: list[str], chosen: Sequence[str]) -> list[str]:
    """Return the measures that are entered together: those chosen, or one for each potential.

    Other columns of the tables of `equivocal measure` restate the same signals.
    """
    signals = [name for name in names if _is_signal(name)]
    return list(names) if chosen or not signals else signals


def _is_signal(name: str) -> bool:
    return name.split("_previous", maxsplit=1)[0] in SIGNALS


def _leave_out_gaps(both: pd.DataFrame, names: list[str], notes: list[str]) -> list[str]:
    """Leave out measures of our tables that have no value at some words, unless they are signals.

    Trials without one of the measures are in no model, so these would cost trials of all others.
    """
    gaps = both.loc[both["found"] == "both", names].isna().any()
    left_out = [name for name in names if gaps[name] and not _is_signal(name)]
    if left_out:
        notes.append(
            f"not fitted, since they have no value at some of the words: {join_names(left_out)}; "
            "--measure chooses one, and keeps the trials that have it"
        )
    return [name for name in names if name not in left_out]


def _split_networks(
    measures: pd.DataFrame, joined: pd.DataFrame, keys: list[str], names: list[str]
) -> list[pd.DataFrame]:
    """Return the measures of each network for all joined trials; none if there are no networks."""
    if NETWORK not in measures or measures[NETWORK].nunique() < 2:
        return []
    table = measures.dropna(subset=keys)
    return [
        joined[keys].merge(own[[*keys, *names]], on=keys, how="left")[names]
        for _, own in table.groupby(NETWORK)
    ]


def _explain_repeated(
    table: pd.DataFrame, first: pd.Series, keys: list[str], known: list[str]
) -> str:
    """Return the error message for measures that have several rows for one word."""
    same = table[(table[keys] == first[keys]).all(axis=1)]
    differ = [c for c in table.columns if c not in known and same[c].nunique(dropna=False) > 1]
    place = ", ".join(f"{key} {first[key]}" for key in keys)
    way_out = "give each word once"
    if differ:
        way_out = f"they differ in {join_names(differ)}, which the trials lack: name their column "
        way_out += f"(--position, …), or keep one kind with --where {differ[0]}={first[differ[0]]}"
    return f"the measures have {len(same)} rows for {place}; {way_out}."


def _find_reasons(
    both: pd.DataFrame, response: pd.Series, keys: list[str], needed: list[str]
) -> pd.Series:
    """Return the first reason to leave out each trial; "" if it is kept."""
    tests = {
        **{f"no {key}": both[key].isna() for key in ("participant", *keys)},
        "no response": pd.Series(response.isna().to_numpy(), both.index),
        "the response is not a number": both["response"].isna(),
        NO_SENTENCE: (both["found"] != "both") & (both.get("position") == NOWHERE),
        NO_WORD: both["found"] != "both",
        **{f"{name} is empty": both[name].isna() for name in needed},
    }
    return pd.Series(np.select(list(tests.values()), list(tests), ""), both.index, dtype=object)


def _explain_no_match(
    both: pd.DataFrame, averaged: pd.DataFrame, reasons: pd.Series, keys: list[str]
) -> str:
    """Return the error message for tables of which no trial could be joined."""
    commonest = str(reasons.value_counts().index[0])
    if commonest not in (NO_WORD, NO_SENTENCE):
        return (
            f"no trial is left: in {int((reasons == commonest).sum())}, {commonest}; correct the "
            "table, or name another column (answers in words: --response COLUMN=VALUE)."
        )
    for key in keys:
        theirs, ours = both[key].dropna().unique(), averaged[key].unique()
        if not set(theirs) & set(ours):
            return (
                f"no trial joined: {key} is {join_names(theirs, most=3)} in the trials and "
                f"{join_names(ours, most=3)} in the measures; use the same names in both."
            )
    return f"no trial joined: no combination of {', '.join(keys)} is in both tables."


def _check_positions(trials: pd.DataFrame, measures: pd.DataFrame) -> None:
    """Refuse positions beyond the end of a sentence, where there are no words to compare."""
    both = {*trials} & {*measures}
    if "word" in both or "position" not in both:
        return
    keys = [name for name in ("item", "condition") if name in both]
    places = measures.assign(place=pd.to_numeric(measures["position"], errors="coerce"))
    ends = places.groupby(keys)["place"].agg(["max", "nunique"])
    ends = ends[(ends["nunique"] > 1) & (ends["nunique"] >= ends["max"])]  # with every word
    placed = trials.assign(place=pd.to_numeric(trials["position"], errors="coerce"))
    placed = placed.merge(ends, on=keys)
    for first in placed[placed["place"] > placed["max"]].to_dict("records"):
        raise UserError(
            f"item {first['item']} has position {first['position']} in line {first['row']} of the "
            f"trials, and its sentence ends at {first['max']:.0f} in the measures, so the two "
            "count words differently; add a column word to both tables, so that they can be aligned"
            " word by word, or number the words as the measures do."
        )
