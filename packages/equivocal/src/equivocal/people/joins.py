"""Joins measures to trials by item and word, and gives a reason for every trial that is left out.

Trials that were joined by position must be of the words that the measures are of, or all are
refused. A word is the same if the participant's region contains the words of the measures' one
after the other; capitals, punctuation and articles do not count (`drop_articles`). So "The pizza,"
is "pizza" and "during the dinner" is "during+dinner", but "the" is not "pizza", nor is "dinner"
"during dinner", which nobody has read whole there. Where a table has no words, positions that the
sentence in the measures does not have show that the tables count differently; otherwise a note says
that nothing could be checked.

A new reason to leave out a trial is a line of `_find_reasons`; the first that applies is given.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.people import tables
from equivocal.people.variables import (
    add_previous_words,
    add_word_controls,
    measure_read_length,
    name_with_previous,
)
from equivocal.world import World
from equivocal.world.spelling import drop_articles
from lastlayer.errors import UserError, check_known, join_names

ANSWERED = ("response", "counts")
REPEATED = ("question", "repetition")  # columns that distinguish several trials of one word
NO_WORD = "no such word in the measures"
NO_NUMBER = "the response is not a number"


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


def join_files(
    data: Path,
    measures: Path,
    columns: tables.Columns,
    chosen: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
    *,
    spillover: int = 0,
    world: World | None = None,
    family: str = "gaussian",
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
        Columns of either table that all models contain, by their names in the trials.
    where : sequence of str
        Keep only rows with COLUMN=VALUE, in the tables that have the column.
    spillover : int
        Number of previous words whose measures and numeric controls are added.
    world : World, optional
        The world from which the control `frequency` is computed, if no table has it.
    family : {"gaussian", "binomial"}
        The family of the models, for advice on responses that are not numbers.

    Returns
    -------
    Joined
        The trials with their measures, and the trials that could not be joined, with reasons.

    Raises
    ------
    UserError
        Where a column is missing or ambiguous, or no trial can be joined.
    """
    given, words = tables.open_table(data), tables.open_table(measures)
    tables.check_where(where, given, words)
    trials, names = tables.read_trials(data, columns, where, given)
    _check_response(trials["response"], names["response"], family)
    controls = tables.translate_controls(controls, names)
    by_word = [names.get(name) for name in tables.WORDS]
    whole = [one for one in where if tables.parse_where([one])[0][0] not in by_word]
    sentences, _ = tables.read_trials(data, columns, whole, given)  # with all of their words
    notes = []
    if "length" in controls and not {"length"} & {*trials, *words, *words.get("measure", ())}:
        if "word" in trials:
            lengths = measure_read_length(sentences, spillover)
            trials = trials.merge(lengths, on="row", how="left")
        else:
            notes.append("the trials have no column word, so length is that of the measures' words")

    def prepare(table: pd.DataFrame) -> pd.DataFrame:
        _check_positions(sentences, table)
        wanted = [name for name in controls if name not in trials]
        return add_previous_words(add_word_controls(table, wanted, world), spillover)

    table = tables.read_measures(measures, columns, where, words, prepare)
    chosen = name_with_previous(chosen, spillover)
    known = {*trials, *table}
    lagged = [name for name in name_with_previous(controls, spillover) if name in known]
    joined = join(trials, table, chosen, list(dict.fromkeys([*controls, *lagged])), where)
    return replace(joined, columns=names, notes=[*joined.notes, *notes])


def join(
    trials: pd.DataFrame,
    measures: pd.DataFrame,
    chosen: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
) -> Joined:
    """Add to every trial the measures of its item and word.

    Parameters
    ----------
    trials, measures : DataFrame
        The tables of `read_trials` and `read_measures`.
    chosen, controls, where
        As in `join_files`, with our names for columns; `where` has been applied to both tables.
    """
    keys = _choose_keys(trials, measures)
    if "word" in keys:
        trials, measures = (t.assign(word=_compare_by(t["word"])) for t in (trials, measures))
    names = tables.choose_measures(measures, chosen, controls)
    _check_controls(trials, measures, controls)
    by_word = [name for name in controls if name not in trials]
    averaged, notes = average_networks(measures, keys, list(dict.fromkeys([*names, *by_word])))
    held = dict.fromkeys(["row", "participant", *tables.PLACES, *REPEATED, *ANSWERED, *controls])
    # where trials have a column of the same name as a measure, the measure is used
    left = trials[[name for name in held if name in trials and name not in names]]
    numbers = [name for name in ANSWERED if name in left]
    left = left.assign(**{name: tables.convert_to_numbers(left[name]) for name in numbers})
    both = left.merge(averaged, on=keys, how="left", indicator="found")
    reasons = _find_reasons(both, trials["response"], keys, names, controls)
    kept = reasons == ""
    if not kept.any():
        raise UserError(_explain_no_match(both, averaged, reasons, keys))
    unmatched = both.loc[~kept, ["row", "participant", *keys]].assign(reason=reasons[~kept])
    joined = both[kept].drop(columns=["found"]).reset_index(drop=True)
    if "position" in keys:
        notes = [*_check_words(joined, measures, keys), *notes]  # it may undo all else: first
    repeated = int(joined.duplicated(["participant", *keys]).sum())
    notes += _note_one_for_all(where, trials, measures, keys, repeated)
    apart = [name for name in REPEATED if name in joined and name not in names]
    repeated = int(joined.duplicated(["participant", *keys, *apart]).sum())
    if repeated:
        notes.append(f"{repeated} trials repeat a participant and word; are rows there twice?")
    return Joined(joined, names, list(controls), keys, len(trials), unmatched, notes)


def _check_response(response: pd.Series, name: str, family: str) -> None:
    """Refuse responses of which none is a number, and say how categories can be modelled."""
    given = response.dropna()
    if len(given) and tables.convert_to_numbers(given).isna().all():
        names = sorted(map(str, given.unique()))
        first = "" if family == "binomial" else "--family binomial and "
        raise UserError(
            f"the values of {name} are {join_names(names, most=4)}, not numbers: to model how "
            f"often one of them was given, add {first}--response {name}={names[-1]}."
        )


def _choose_keys(trials: pd.DataFrame, measures: pd.DataFrame) -> list[str]:
    """Return the columns to join by; if both position and word are shared, only the position."""
    shared = [place for place in tables.PLACES if place in trials and place in measures]
    if "position" in shared and "word" in shared:
        shared.remove("word")  # differing words are refused instead
    several = [name for name in tables.WORDS if name in trials and trials[name].nunique() > 1]
    if several and not {*tables.WORDS} & {*shared}:
        raise UserError(
            f"the trials have a column {several[0]} with several values and the measures have "
            f"none; add it there, or keep one word with --where {several[0]}=VALUE."
        )
    return shared


def _compare_by(words: pd.Series) -> pd.Series:
    """Normalise words for comparison; a dash or another word without letters is kept."""
    return words.map(lambda word: drop_articles(word) or word, na_action="ignore")


def _note_one_for_all(
    where: Sequence[str],
    trials: pd.DataFrame,
    measures: pd.DataFrame,
    keys: list[str],
    repeated: int,
) -> list[str]:
    """Note conditions of --where that only the measures have; refuse them for several words."""
    known = {*tables.WORDS} if {*tables.WORDS} & {*keys} else set()  # either identifies the word
    notes = []
    for name, value in tables.parse_where(where):
        place = tables.guess_place(name)
        if not place or place in known or place in trials or name not in measures:
            continue
        if repeated:
            raise UserError(
                f"--where {name}={value} holds for the measures only, since the trials have no "
                f"column {place}, and {repeated} of them repeat a participant and "
                f"{' and '.join(keys)}, so that others would get that measure; name their column "
                f"with --{place}, or add it."
            )
        notes.append(f"the trials have no column {place}; all are taken to have {name}={value}")
    return notes


def _check_controls(trials: pd.DataFrame, measures: pd.DataFrame, controls: Sequence[str]) -> None:
    """Refuse controls that no table has, or whose names are reserved."""
    present = dict.fromkeys([*trials.columns, *measures.columns])
    known = [name for name in present if name not in tables.RESERVED]
    for name in controls:
        if name in ("item", *tables.RESERVED):
            raise UserError(
                f"--control {name}: that name is taken, and participants and items are in the "
                "models already; leave it out, or rename the column."
            )
        check_known(name, known, "column", "--control: ")


def average_networks(
    measures: pd.DataFrame, keys: list[str], names: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return one row for each key, averaged over networks, and a note if there are several.

    Of columns that are not numeric, the first value is kept.
    """
    table = measures.dropna(subset=keys)
    several = [*keys, tables.NETWORK] if tables.NETWORK in table else keys
    repeated = table.duplicated(several, keep=False)
    if repeated.any():
        raise UserError(_explain_repeated(table, table[repeated].iloc[0], keys, [*several, *names]))
    labels = [name for name in names if not pd.api.types.is_numeric_dtype(table[name])]
    figures = [name for name in names if name not in labels]
    values = table[keys].join(table[figures].apply(tables.convert_to_numbers))
    groups = values.groupby(keys, sort=False)[figures]
    # a word for which one network has no value has no average
    found = groups.mean().where(groups.count().eq(groups.size(), axis=0))
    found = found.join(table.groupby(keys, sort=False)[labels].first()) if labels else found
    networks = table[tables.NETWORK].nunique() if tables.NETWORK in table else 1
    notes = [f"measures are averages over {networks} networks"] if networks > 1 else []
    return found.reset_index()[[*keys, *names]], notes


def _explain_repeated(
    table: pd.DataFrame, first: pd.Series, keys: list[str], known: list[str]
) -> str:
    """Return the error message for measures that have several rows for one word."""
    same = table[(table[keys] == first[keys]).all(axis=1)]
    differ = [c for c in table.columns if c not in known and same[c].nunique(dropna=False) > 1]
    place = ", ".join(f"{key} {first[key]}" for key in keys)
    way_out = "give each word once"
    if differ:
        only = f"{differ[0]}={first[differ[0]]}"
        way_out = f"they differ in {join_names(differ)}, so keep one kind with --where {only}"
    return f"the measures have {len(same)} rows for {place}; {way_out}."


def _find_reasons(
    both: pd.DataFrame,
    response: pd.Series,
    keys: list[str],
    names: list[str],
    controls: Sequence[str],
) -> pd.Series:
    """Return the first reason to leave out each trial; "" if it is kept."""
    empty = pd.Series(response.isna().to_numpy(), both.index)
    tests = {
        **{f"no {key}": both[key].isna() for key in ("participant", *keys)},
        "no response": empty,
        NO_NUMBER: both["response"].isna(),
        **({"no counts": both["counts"].isna()} if "counts" in both else {}),
        NO_WORD: both["found"] != "both",
        **{f"{name} is empty": both[name].isna() for name in (*names, *controls)},
    }
    found = np.select(list(tests.values()), list(tests), "")
    return pd.Series(found, both.index, dtype=object)


def _explain_no_match(
    both: pd.DataFrame, averaged: pd.DataFrame, reasons: pd.Series, keys: list[str]
) -> str:
    """Return the error message for tables of which no trial could be joined."""
    commonest = str(reasons.value_counts().index[0])
    if commonest != NO_WORD:
        return (
            f"no trial is left: in {int((reasons == commonest).sum())}, {commonest}; correct the "
            "table, or leave that column out."
        )
    for key in keys:
        theirs, ours = both[key].dropna().unique(), averaged[key].unique()
        if not set(theirs) & set(ours):
            return (
                f"no trial joined: {key} is {join_names(theirs, most=3)} in the trials and "
                f"{join_names(ours, most=3)} in the measures; use the same names in both."
            )
    return (
        f"no trial joined: no combination of {', '.join(keys)} is in both tables; use the same "
        "names and count positions alike."
    )


def _check_words(joined: pd.DataFrame, measures: pd.DataFrame, keys: list[str]) -> list[str]:
    """Refuse trials of other words than those of the measures; note where there are no words."""
    names = {"trials": joined, "measures": measures}
    lacking = [n for n, table in names.items() if "word" not in table or table["word"].isna().all()]
    if lacking:
        who = f"the {lacking[0]} have" if len(lacking) == 1 else "neither table has"
        which = "no" if len(lacking) == 1 else "a"
        return [
            f"{who} {which} column word, so nothing shows whether positions count the same words "
            "in both tables; add it"
        ]
    words = measures[[*keys, "word"]].dropna().drop_duplicates(keys)
    both = joined.merge(words, on=keys, suffixes=("", " measured")).dropna(subset=["word"])
    read, measured = (_compare_by(both[name]) for name in ("word", "word measured"))
    pairs = zip(read, measured, strict=True)
    other = both[[f" {theirs} " not in f" {mine} " for mine, theirs in pairs]]
    if other.empty:
        return []
    counts = Counter(zip(other["word"], other["word measured"], strict=True))
    firsts = other.drop_duplicates(["word", "word measured"]).set_index(["word", "word measured"])
    examples = [
        f"{mine!r} in line {firsts['row'][mine, theirs]} for {theirs!r}"
        for (mine, theirs), _ in counts.most_common(3)
    ]
    raise UserError(
        f"in {len(other)} of {len(both)} joined trials the words are not those of the measures: "
        f"{', '.join(examples)}{', …' if len(counts) > 3 else ''}; number the words as the "
        "measures do (a constituent, such as 'during dinner' or 'the pizza', is one region), or "
        "rename the column position of the trials, so that trials are joined by word, or correct "
        "the words."
    )


def _check_positions(trials: pd.DataFrame, measures: pd.DataFrame) -> None:
    """Refuse positions that a sentence does not have, where there are no words to compare."""
    both = {*trials} & {*measures}
    if "word" in both or "position" not in both:
        return
    keys = [name for name in ("item", "condition") if name in both]
    places = measures.assign(place=pd.to_numeric(measures["position"], errors="coerce"))
    ends = places.groupby(keys)["place"].agg(["min", "max", "nunique"])
    # sentences of which the measures have every word
    ends = ends[ends["min"].isin([0, 1]) & (ends["nunique"] == ends["max"] - ends["min"] + 1)]
    ends = ends[ends["nunique"] > 1]
    found = trials.assign(place=pd.to_numeric(trials["position"], errors="coerce"))
    found = found.merge(ends, on=keys)
    wrong = found[(found["place"] < found["min"]) | (found["place"] > found["max"])]
    for first in wrong.to_dict("records"):
        raise UserError(
            f"item {first['item']} has position {first['position']} in line {first['row']} of the "
            f"trials, and its sentence has {first['min']:.0f} to {first['max']:.0f} in the "
            "measures, so the two count words differently; number them as the measures do (a "
            "constituent, such as 'during dinner' or 'the pizza', is one region), or, if the "
            "sentence goes on, add a column word to both tables."
        )
