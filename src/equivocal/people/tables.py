"""The two tables that are compared: whose columns are what, and which of their rows count.

Trials have a row for each response: participant, item, word position, response. Measures have a row
for each item and word. In both, `condition` is used where it is there, and a word's `position` may
be replaced by the `word` itself. Measures may also have a row for each `measure`, with its `value`,
as `equivocal suites run` writes them. Names of items and conditions are compared as text, 1 and 1.0
being the same.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd

from equivocal.errors import UserError, did_you_mean, listed
from equivocal.reading import TABLE_BYTES, UnreadableError, read_table

__all__ = [
    "NETWORK",
    "PLACES",
    "RESERVED",
    "Columns",
    "as_key",
    "choose_measures",
    "numbers",
    "only_where",
    "read_measures",
    "read_trials",
]

PLACES = ("item", "condition", "position", "word")  # what says which word of which sentence
NETWORK = "network"  # measures are averaged over it
RESERVED = ("row", "participant", "response", "found")  # names of ours in the joined table
NEEDED = ("participant", "item", "response")
OTHER_NAMES = {
    "participant": ("subject", "subj", "sub", "ppt", "participant_id", "subject_id", "id"),
    "item": ("sentence", "stimulus", "item_id", "sentence_id", "sent_id", "item_number"),
    "position": ("word_position", "word_number", "region", "word_nr", "wordnum"),
    "response": ("rt", "RT", "reading_time", "n400", "amplitude", "response_time"),
}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the columns of the trial table are called."""

    participant: str = "participant"
    item: str = "item"
    condition: str = "condition"
    position: str = "position"
    word: str = "word"
    response: str = "rt"


DEFAULTS = Columns()


def read_trials(path: Path, columns: Columns, where: Sequence[str] = ()) -> pd.DataFrame:
    """Trials with our names for the columns; `row` is the line of the file."""
    table = _read(path)
    for field in fields(Columns):
        name = getattr(columns, field.name)
        wanted = field.name in NEEDED or name != getattr(DEFAULTS, field.name)
        if wanted and name not in table:
            raise UserError(_no_column(path, name, field.name, table.columns))
    table = only_where(table, where)
    chosen = {getattr(columns, field.name): field.name for field in fields(Columns)}
    if len(chosen) < len(fields(Columns)):
        raise UserError("two of --participant, --item, … name the same column; give each its own.")
    # a column that happens to have one of our names, but is not what was asked for, goes
    ours = ("row", *chosen.values())
    clash = [name for name in ours if name in table and name not in chosen]
    table = table.drop(columns=clash).rename(columns=chosen)
    table.insert(0, "row", table.index.to_numpy() + 2)  # the header is line 1
    for name in ("participant", *PLACES):
        if name in table:
            table[name] = as_key(table[name])
    return table


def read_measures(path: Path, columns: Columns, where: Sequence[str] = ()) -> pd.DataFrame:
    """Measures with our names; columns may be called ours or as in the trial table."""
    table = only_where(_read(path), where)
    for place in PLACES:
        theirs = getattr(columns, place)
        if place not in table and theirs in table:
            table = table.rename(columns={theirs: place})
        if place in table:
            table[place] = as_key(table[place])
    if "item" not in table:
        raise UserError(_no_column(path, "item", "item", table.columns, option=False))
    return _a_column_each(table, path) if {"measure", "value"} <= set(table.columns) else table


def _a_column_each(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """A table with a row for each `measure`, as one with a column for each."""
    table = table.drop(columns=[name for name in ("low", "high") if name in table])
    rest = [str(name) for name in table.columns if name != "value"]
    if table.duplicated(rest).any():
        raise UserError(f"{path} gives a measure of the same word twice; give each once.")
    wide = table.set_index(rest)["value"].unstack("measure")
    return wide.reset_index().rename_axis(columns=None)


def only_where(table: pd.DataFrame, where: Iterable[str]) -> pd.DataFrame:
    """Rows in which COLUMN=VALUE holds; a table without that column is left as it is."""
    for condition in where:
        name, sign, value = (part.strip() for part in condition.partition("="))
        if not sign or not name:
            raise UserError(f"--where {condition!r} is not COLUMN=VALUE; write as position=3.")
        if name in table:
            present = as_key(table[name])
            kept = present == _one_key(value)
            if not kept.any():
                raise UserError(
                    f"--where {condition}: no row has it; values of {name} are "
                    f"{listed(map(str, present.dropna().unique()))}."
                )
            table = table[kept]
    return table


def choose_measures(
    table: pd.DataFrame, wanted: Sequence[str], controls: Sequence[str]
) -> list[str]:
    """The columns asked for, or every column of numbers that is no key, label or control."""
    taken = (*PLACES, *RESERVED, NETWORK, *controls)
    others = [str(c) for c in table.columns if c not in taken]
    numeric = [name for name in others if _holds_numbers(table[name])]
    for name in wanted:
        if name not in table:
            hint = did_you_mean(name, numeric) or f"; there are {listed(numeric)}."
            raise UserError(f"the measures have no column {name!r}{hint}")
        if name not in numeric:
            raise UserError(
                f"{name!r} cannot be a measure: it holds no numbers, or its name has a meaning of "
                f"its own (item, position, …); choose from {listed(numeric)}."
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
    if pd.api.types.is_float_dtype(values) and (values.dropna() % 1 == 0).all():
        values = values.astype("Int64")
    text = values.astype(str).str.strip().astype(object)
    return text.mask(missing | (text == ""), None)


def numbers(values: pd.Series) -> pd.Series:
    """As floating point; what is no finite number is missing."""
    found = pd.to_numeric(values, errors="coerce").astype(float)
    return found.where(np.isfinite(found))


def _one_key(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    return str(int(number)) if np.isfinite(number) and number % 1 == 0 else str(number)


def _read(path: Path) -> pd.DataFrame:
    if path.suffix == ".gz":
        return _read_packed(path)
    table = read_table(path)
    if table.shape[1] == 1 and ";" in str(table.columns[0]):
        raise UserError(f"{path}: columns are separated by commas, not by semicolons.")
    if table.empty:
        raise UserError(f"{path} has no rows below its header.")
    return table


def _read_packed(path: Path) -> pd.DataFrame:
    """A table such as activations.csv.gz, unpacked no further than a plain one may be long."""
    try:
        with gzip.open(path) as file:
            data = file.read(TABLE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(path, str(error)) from None
    if len(data) > TABLE_BYTES:
        raise UnreadableError(path, "it is too long once unpacked", "give a part of it as CSV")
    try:
        return pd.read_csv(io.BytesIO(data))
    except (ValueError, OverflowError) as error:
        raise UnreadableError(path, f"it is not a CSV table ({error})") from None


def _no_column(
    path: Path, name: str, role: str, columns: Iterable[object], *, option: bool = True
) -> str:
    present = [str(column) for column in columns]
    near = did_you_mean(name, present)
    if not near:
        usual = [other for other in OTHER_NAMES.get(role, ()) if other in present]
        near = f": did you mean {usual[0]!r}?" if usual else f"; there are {listed(present)}."
    way_out = f" Name it with --{role}." if option else ""
    return f"{path} has no column {name!r}{near}{way_out}"
