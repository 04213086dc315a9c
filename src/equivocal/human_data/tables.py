"""The two tables that are compared, with our names for their columns, and which rows count.

Trials have a row for each response: participant, item, word position, response. Measures have a row
for each item and word. In both, `condition` is used where it is there, and a word's `position` may
be replaced by the `word` itself. Measures may also have a row for each `measure`, with its `value`,
as `equivocal suites run` writes them. Names of items and conditions are compared as text, 1 and 1.0
being the same.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.human_data.columns import PLACES, Columns, no_column, settled
from equivocal.store import read_table

__all__ = [
    "NETWORK",
    "RESERVED",
    "as_key",
    "as_measures",
    "as_trials",
    "check_where",
    "choose_measures",
    "numbers",
    "only_where",
    "open_table",
    "parse_where",
    "read_measures",
    "read_trials",
]

NETWORK = "network"  # measures are averaged over it
WHOLE = 2**53  # beyond that floating point skips whole numbers
RESERVED = ("row", "participant", "response", "found")  # names of ours in the joined table


def read_trials(
    path: Path, columns: Columns, where: Sequence[str] = ()
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Trials with our names for the columns (`row`: the line of the file); and each one's own."""
    table = open_table(path)
    check_where(where, table)
    return as_trials(path, table, columns, where)


def as_trials(
    path: Path, table: pd.DataFrame, columns: Columns, where: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The same of a table that has been read from there."""
    names = settled(path, _header(table), columns)
    table = only_where(table, where)
    chosen = {theirs: ours for ours, theirs in names.items()}
    # a column that happens to have one of our names, but is not what was asked for, goes
    clash = [name for name in ("row", *names) if name in table and name not in chosen]
    table = table.drop(columns=clash).rename(columns=chosen)
    table.insert(0, "row", table.index.to_numpy() + 2)  # the header is line 1
    for name in ("participant", *PLACES):
        if name in table:
            table[name] = as_key(table[name])
    return table, names


def read_measures(path: Path, columns: Columns, where: Sequence[str] = ()) -> pd.DataFrame:
    """Measures with our names; columns may be called ours or as in the trial table."""
    table = open_table(path)
    check_where(where, table)
    return as_measures(path, table, columns, where)


def as_measures(
    path: Path, table: pd.DataFrame, columns: Columns, where: Sequence[str]
) -> pd.DataFrame:
    """The same of a table that has been read from there."""
    table = only_where(table, where)
    for place in PLACES:
        theirs = getattr(columns, place)
        if place not in table and theirs in table:
            table = table.rename(columns={theirs: place})
        if place in table:
            table[place] = as_key(table[place])
    if "item" not in table:
        raise UserError(no_column(path, "item", "item", _header(table), option=False))
    if {"measure", "value"} <= set(table.columns):
        return _a_column_each(table, path)
    if {"measure", "mean"} <= set(table.columns):  # as in the words_summary.csv of suites
        raise UserError(
            f"{path} summarises networks in its column 'mean', and measures are read from 'value'; "
            f"give the words of every network, {path.with_name('words.csv')}."
        )
    return table


def _a_column_each(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """A table with a row for each `measure`, as one with a column for each."""
    table = table.drop(columns=[name for name in ("low", "high") if name in table])
    rest = [str(name) for name in table.columns if name != "value"]
    if table.duplicated(rest).any():
        raise UserError(f"{path} gives a measure of the same word twice; give each once.")
    if clash := sorted({*map(str, table["measure"].dropna())} & set(rest)):
        raise UserError(f"{path} has a measure called {clash[0]!r}, as a column is; rename it.")
    wide = table.set_index(rest)["value"].unstack("measure")
    return wide.reset_index().rename_axis(columns=None)


def only_where(table: pd.DataFrame, where: Iterable[str]) -> pd.DataFrame:
    """Rows in which COLUMN=VALUE holds; a table without that column is left as it is."""
    for name, value in parse_where(where):
        if name in table:
            present = as_key(table[name])
            kept = present == value
            if not kept.any():
                kept = present == _one_key(value)
            if not kept.any():
                values = list(map(str, present.dropna().unique()))
                near = did_you_mean(value, values)
                told = f"{near} Values" if near else "; values"
                raise UserError(
                    f"--where {name}={value}: no row has it{told} of {name} are "
                    f"{join_names(values)}."
                )
            table = table[kept]
    return table


def parse_where(where: Iterable[str]) -> list[tuple[str, str]]:
    """COLUMN=VALUE as columns and values.

    >>> parse_where(["position = 3", "suite=cloze_probability"])
    [('position', '3'), ('suite', 'cloze_probability')]
    """
    pairs = []
    for condition in where:
        name, sign, value = (part.strip() for part in condition.partition("="))
        if not sign or not name:
            raise UserError(f"--where {condition!r} is not COLUMN=VALUE; write as position=3.")
        pairs.append((name, value))
    return pairs


def check_where(where: Sequence[str], *tables: pd.DataFrame) -> None:
    """A column that no table has would be passed over, and all rows be kept."""
    present = list(dict.fromkeys(name for table in tables for name in _header(table)))
    for name, value in parse_where(where):
        if name not in present:
            hint = did_you_mean(name, present) or f"; there are {join_names(present)}."
            raise UserError(f"--where {name}={value}: no table has a column {name!r}{hint}")


def choose_measures(
    table: pd.DataFrame, wanted: Sequence[str], controls: Sequence[str]
) -> list[str]:
    """The columns asked for, or every column of numbers that is no key, label or control."""
    taken = (*PLACES, *RESERVED, NETWORK, *controls)
    others = [str(c) for c in table.columns if c not in taken]
    numeric = [name for name in others if _holds_numbers(table[name])]
    for name in wanted:
        if name not in table:
            hint = did_you_mean(name, numeric) or f"; there are {join_names(numeric)}."
            raise UserError(f"the measures have no column {name!r}{hint}")
        if name not in numeric:
            raise UserError(
                f"{name!r} cannot be a measure: it holds no numbers, or its name has a meaning of "
                f"its own (item, position, …); choose from {join_names(numeric)}."
            )
    if not numeric:
        raise UserError(
            "the measures have no column of numbers beside item, condition and position."
        )
    return list(dict.fromkeys(wanted)) or numeric


def _holds_numbers(values: pd.Series) -> bool:
    types = pd.api.types
    return bool(types.is_numeric_dtype(values) and not types.is_bool_dtype(values))


def as_key(values: pd.Series) -> pd.Series:
    """Names as text without blanks around them, whole numbers without a point; empty is missing."""
    missing = values.isna()
    if pd.api.types.is_float_dtype(values):
        there = values.dropna()
        if ((there % 1 == 0) & (there.abs() < WHOLE)).all():
            values = values.astype("Int64")
    text = values.astype(str).str.strip().astype(object)
    return text.mask(missing | (text == ""), None)


def numbers(values: pd.Series) -> pd.Series:
    """As floating point; what is no finite number is missing."""
    found = pd.to_numeric(values, errors="coerce").astype(float)
    return found.where(np.isfinite(found))


def _one_key(value: str) -> str:
    """A number as `as_key` writes it."""
    if "_" in value:  # `float` would take 1_2 for 12
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return str(int(number)) if np.isfinite(number) and number % 1 == 0 else str(number)


def open_table(path: Path) -> pd.DataFrame:
    """A table with rows, as it stands in its file."""
    table = read_table(path)
    if table.empty:
        raise UserError(f"{path} has no rows below its header.")
    return table


def _header(table: pd.DataFrame) -> list[str]:
    return [str(name) for name in table.columns]
