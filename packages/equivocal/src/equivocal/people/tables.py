"""Reads the tables of trials and of measures, names their columns as we do, and filters rows.

Trials have a row for each response: participant, item, word position, response. Measures have a row
for each item and word. In both, `condition` is optional, and a word's `position` may be replaced by
the `word` itself. Measures may also have a row for each `measure`, with its `value`, as `equivocal
suites run` writes them. Names of items and conditions are compared as text; 1 and 1.0 are the same.

A column that is missing under our name but present under another common name is an error rather
than ignored: without positions, every word of a sentence would be joined to the measure of one.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.store import read_table, split_pair
from lastlayer.errors import UserError, check_known, did_you_mean, join_names

PLACES = ("item", "condition", "position", "word")  # columns that identify a word in a sentence
WORDS = ("position", "word")  # either identifies a word within its sentence
NEEDED = ("participant", "item", "response")
OTHER_NAMES = {
    "participant": ("subject", "subj", "sub", "ppt", "participant_id", "subject_id", "id"),
    "item": ("sentence", "stimulus", "item_id", "sentence_id", "sent_id", "item_number"),
    "condition": ("cond",),
    "position": ("word_position", "word_number", "word_pos", "region", "word_nr", "wordnum"),
    "word": ("token",),
    "response": ("rt", "reading_time", "n400", "amplitude", "response_time", "answer"),
    "counts": ("count", "n", "trials", "answers"),
}
NETWORK = "network"  # measures are averaged over it
WHOLE = 2**53  # up to which floating point represents all whole numbers
RESERVED = ("row", "participant", "response", "counts", "found")  # our columns of the joined table


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The names of the columns of the trial table.

    Unless given, `response` is the first of `rt`, `response` and `answer` that the table has. Given
    as COLUMN=VALUE, the response is 1 where the column has that value, and 0 elsewhere. `counts`
    are the numbers of answers behind proportions.
    """

    participant: str = "participant"
    item: str = "item"
    condition: str = "condition"
    position: str = "position"
    word: str = "word"
    response: str | None = None
    counts: str | None = None


def open_table(path: Path, where: Sequence[str] = ()) -> pd.DataFrame:
    """Read a CSV table without changing its content.

    Parameters
    ----------
    path : Path
        The file, which must have at least one row below its header.
    where : sequence of str
        Conditions COLUMN=VALUE whose columns the table must have; rows are not filtered yet.

    Returns
    -------
    DataFrame
        The table with its own column names.

    Raises
    ------
    UserError
        Where the file cannot be read, has no rows, or lacks a column of `where`.
    """
    table = read_table(path)
    if table.empty:
        raise UserError(f"{path} has no rows below its header.")
    table = table.rename(columns=str)
    check_where(where, table)
    return table


def read_trials(
    path: Path, columns: Columns, where: Sequence[str] = (), table: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read trials from a CSV file.

    Parameters
    ----------
    path : Path
        A row for each response.
    columns : Columns
        The names of its columns.
    where : sequence of str
        Keep only rows with COLUMN=VALUE.
    table : DataFrame, optional
        The content of the file, if it has been opened and `where` checked.

    Returns
    -------
    trials : DataFrame
        With our names for the columns; `row` is the line of the file.
    names : dict
        The name in the file of each of our columns.
    """
    table = _mark_answers(open_table(path, where) if table is None else table, columns.response)
    names = find_columns(path, list(table.columns), columns)
    table = _filter_rows(table, parse_where(where))
    chosen = {theirs: ours for ours, theirs in names.items()}
    # a column that has one of our names, but is not the one that was asked for, is dropped
    clash = [name for name in ("row", "counts", *names) if name in table and name not in chosen]
    table = table.drop(columns=clash).rename(columns=chosen)
    table.insert(0, "row", table.index.to_numpy() + 2)  # the header is line 1
    return _convert_keys(table, ("participant", *PLACES)), names


def _mark_answers(table: pd.DataFrame, response: str | None) -> pd.DataFrame:
    """Add a column of zeros and ones, if the response is given as COLUMN=VALUE."""
    if response is None or "=" not in response or response in table:
        return table
    ((name, value),) = parse_where([response], "--response")
    check_known(name, list(table.columns), "column", f"--response {response}: ")
    present = _convert_to_keys(table[name])
    if not (present == value).any():
        values = map(str, present.dropna().unique())
        raise UserError(
            f"--response {response}: no row has it; values of {name} are {join_names(values)}."
        )
    return table.assign(**{response: (present == value).astype(float).mask(present.isna())})


def read_measures(
    path: Path,
    columns: Columns,
    where: Sequence[str] = (),
    table: pd.DataFrame | None = None,
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table,
) -> pd.DataFrame:
    """Read measures from a CSV file, with a column for each.

    Parameters
    ----------
    path : Path
        A row for each item and word, or for each of these and each measure.
    columns : Columns
        Item, condition, position and word may have their names in the trial table, or ours.
    where, table
        As in `read_trials`.
    prepare : callable
        Adds columns to the table before it is reduced to some of the words of a sentence.

    Returns
    -------
    DataFrame
        A row for each item and word (and network), with a column for each measure.
    """
    table = open_table(path, where) if table is None else table
    theirs = {getattr(columns, place): place for place in PLACES if place not in table}
    pairs = [(theirs.get(name, name), value) for name, value in parse_where(where)]
    table = _convert_keys(table.rename(columns=theirs), PLACES)
    words = [pair for pair in pairs if pair[0] in WORDS]
    table = _filter_rows(table, [pair for pair in pairs if pair not in words])
    return _filter_rows(prepare(_check_measures(table, path)), words)


def _check_measures(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return a table with a column for each measure, or refuse one that has no measures."""
    if "item" not in table:
        raise UserError(explain_missing(path, "item", "item", list(table.columns), option=False))
    if {"measure", "value"} <= set(table.columns):
        return _spread_measures(table, path)
    if {"measure", "mean"} <= set(table.columns):  # as in the words_summary.csv of suites
        raise UserError(
            f"{path} summarises networks in its column 'mean', and measures are read from 'value'; "
            f"give the words of every network, {path.with_name('words.csv')}."
        )
    return table


def _spread_measures(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Convert a table with a row for each `measure` to one with a column for each."""
    table = table.drop(columns=["low", "high"], errors="ignore")
    rest = [name for name in table.columns if name != "value"]
    if table.duplicated(rest).any():
        raise UserError(f"{path} gives a measure of the same word twice; give each once.")
    if clash := sorted({*map(str, table["measure"].dropna())} & set(rest)):
        raise UserError(f"{path} has a measure called {clash[0]!r}, as a column is; rename it.")
    wide = table.set_index(rest)["value"].unstack("measure")
    return wide.reset_index().rename_axis(columns=None).rename(columns=str)


def _filter_rows(table: pd.DataFrame, where: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """Keep rows in which columns have these values; columns that the table lacks are ignored."""
    for name, value in where:
        if name not in table:
            continue
        present = _convert_to_keys(table[name])
        number = pd.to_numeric(pd.Series([value]), errors="coerce")
        kept = next((k for k in (value, _convert_to_keys(number)[0]) if (present == k).any()), None)
        if kept is None:
            values = list(map(str, present.dropna().unique()))
            near = did_you_mean(value, values)
            raise UserError(
                f"--where {name}={value}: no row has it{f'{near} Values' if near else '; values'} "
                f"of {name} are {join_names(values)}."
            )
        table = table[present == kept]
    return table


def parse_where(where: Iterable[str], option: str = "--where") -> list[tuple[str, str]]:
    """Split conditions COLUMN=VALUE into columns and values.

    >>> parse_where(["position = 3", "suite=cloze_probability"])
    [('position', '3'), ('suite', 'cloze_probability')]
    """
    return [split_pair(condition, option, "position=3", empty=True) for condition in where]


def check_where(where: Sequence[str], *tables: pd.DataFrame) -> None:
    """Refuse a condition on a column that no table has, since it would keep all rows."""
    present = list(dict.fromkeys(name for table in tables for name in table.columns))
    for name, value in parse_where(where):
        check_known(name, present, "column", f"--where {name}={value}: ")


def choose_measures(
    table: pd.DataFrame, wanted: Sequence[str], controls: Sequence[str]
) -> list[str]:
    """Return the wanted columns, or else every numeric column that is no key, label or control."""
    taken = {*PLACES, *RESERVED, NETWORK, *controls}
    numeric = [n for n in table.select_dtypes("number").columns if n not in taken]
    for name in wanted:
        if name not in table:
            check_known(name, numeric, "column of the measures")
        if name not in numeric:
            raise UserError(
                f"{name!r} cannot be a measure: it holds no numbers, or its name has a meaning of "
                f"its own (item, position, …); choose from {join_names(numeric)}."
            )
    if not numeric:
        raise UserError(
            "the measures have no column of numbers besides item, condition and position."
        )
    return list(dict.fromkeys(wanted)) or numeric


def _convert_keys(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Convert those of these columns that a table has, so that tables can be joined by them."""
    return table.assign(**{n: _convert_to_keys(table[n]) for n in names if n in table})


def _convert_to_keys(values: pd.Series) -> pd.Series:
    """Convert names to text without surrounding blanks, and whole numbers without a point.

    Empty cells become missing values.
    """
    missing = values.isna()
    if pd.api.types.is_float_dtype(values):
        there = values.dropna()
        if ((there % 1 == 0) & (there.abs() < WHOLE)).all():
            values = values.astype("Int64")
    text = values.astype(str).str.strip().astype(object)
    return text.mask(missing | (text == ""), None)


def convert_to_numbers(values: pd.Series) -> pd.Series:
    """Convert to floating point; values that are not finite numbers become missing."""
    found = pd.to_numeric(values, errors="coerce").astype(float)
    return found.where(np.isfinite(found))


def find_columns(path: Path, present: Sequence[str], columns: Columns) -> dict[str, str]:
    """Return the column for each of our names, or refuse a table that lacks a required one."""
    whole = replace(columns, response=columns.response or _choose_response(path, present))
    names = {role: name for role, name in asdict(whole).items() if name is not None}
    for name in names.values():
        roles = [f"--{role}" for role in names if names[role] == name]
        if len(roles) > 1:
            both = " and ".join(roles)
            raise UserError(f"{both} name the same column {name!r}; give each its own.")
    for role, name in names.items():
        if name in present:
            continue
        if role in (*NEEDED, "counts") or name != role:
            raise UserError(explain_missing(path, name, role, present))
        likely = [other for other in _guess_columns(role, present) if other not in names.values()]
        if likely:
            raise UserError(
                f"{path} has no column {name!r}; found {likely[0]!r}, so add --{role} "
                f"{shlex.quote(likely[0])}, or rename it if it is something else."
            )
    return names


def _choose_response(path: Path, present: Sequence[str]) -> str:
    """Choose `rt`, `response` or `answer`; refuse `response` beside, for example, `RT`.

    There `response` may be the button that was pressed, and `RT` its response time.
    """
    chosen = next((name for name in ("rt", "response", "answer") if name in present), "rt")
    likely = _guess_columns("response", present)
    if chosen == "response" and len(likely) > 1:
        raise UserError(
            f"{path} has {join_names(likely)}, and either may be meant; choose with --response."
        )
    return chosen


def _guess_columns(role: str, present: Sequence[str]) -> list[str]:
    """Return columns that are likely to be meant, ignoring capitals and separators."""
    known = (role, *OTHER_NAMES[role])
    plain = {name: re.sub(r"[\W_]+", "_", name.casefold()).strip("_") for name in present}
    return [name for other in known for name in present if plain[name] == other]


def guess_place(name: str) -> str | None:
    """Return which of `PLACES` a column is likely to hold.

    >>> guess_place("word_position"), guess_place("Word"), guess_place("suite")
    ('position', 'word', None)
    """
    return next((place for place in PLACES if _guess_columns(place, [name])), None)


def explain_missing(
    path: Path, name: str, role: str, present: Sequence[str], *, option: bool = True
) -> str:
    """Return the error message for a missing column, with the column that is likely meant."""
    near = did_you_mean(name, present)
    if not near:
        usual = _guess_columns(role, present)
        near = f": did you mean {usual[0]!r}?" if usual else f"; there are {join_names(present)}."
    way_out = f" Name it with --{role}." if option else ""
    return f"{path} has no column {name!r}{near}{way_out}"


def translate_controls(controls: Sequence[str], names: dict[str, str]) -> list[str]:
    """Translate the names of controls in the trial table to our names."""
    ours = {theirs: name for name, theirs in names.items()}
    for control in controls:
        if ours.get(control) in NEEDED:
            raise UserError(
                f"--control {control} is the {ours[control]}, which the models already include; "
                "leave it out."
            )
        if control in names and control not in ours:
            raise UserError(
                f"--control {control}: --{control} assigns that name to column "
                f"{names[control]!r}; give the column's name, or rename it."
            )
    return [ours.get(control, control) for control in controls]
