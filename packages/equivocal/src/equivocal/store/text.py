"""TOML, JSON and CSV that others wrote: the size is checked before reading.

Python's own parsers execute nothing; deep nesting ends in a `RecursionError`, which is a user's
mistake here. The limits at the top may be changed.
"""

import gzip
import io
import json
import re
import tomllib
import zlib
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastlayer.errors import UserError, check_known, join_names
from lastlayer.files import UnreadableError, open_limited

if TYPE_CHECKING:
    import pandas as pd


SETTINGS_BYTES = 1 << 20  # the longest settings file of the package has 4 KB
TABLE_BYTES = 64 << 20  # the table of the largest grid has 1 MB
QUOTE = "take commas from the ends of rows, or put quotes round text that has a comma"
ZIP, GZIP = b"PK\x03\x04", b"\x1f\x8b"  # first bytes of such files


def read_text(path: str | Path, most: int = SETTINGS_BYTES, *, packed: bool = False) -> str:
    """Read a UTF-8 file; a byte-order mark, which some editors write, is dropped.

    Parameters
    ----------
    path : str or Path
        The file.
    most : int
        How many bytes the file may have, and its text once decompressed.
    packed : bool
        Whether the file is compressed by gzip.

    Returns
    -------
    str
        The decoded text.

    Raises
    ------
    UnreadableError
        Where the file is missing, too long, compressed in another way, or not UTF-8 text.
    """
    path = Path(path)
    with open_limited(path, most) as (file, _):
        data = file.read(most + 1)  # a file may grow after it was measured
    if packed and not data.startswith(ZIP):
        data = _unpack(path, data, most)
    if len(data) > most:
        raise UnreadableError(path, f"it has more than {most} bytes of text", "give a part of it")
    if data.startswith((ZIP, GZIP)):
        why = "it is packed by zip, as spreadsheets are, or by gzip"
        raise UnreadableError(path, why, "unpack it first, or save a spreadsheet as CSV")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 text (byte {error.start})"
        raise UnreadableError(path, why, "save it as UTF-8") from None
    if "\0" in text:
        raise UnreadableError(path, "it holds a NUL character", "give a text file")
    return text


def _unpack(path: Path, data: bytes, most: int) -> bytes:
    """Decompress data by gzip, up to one byte more than `most`."""
    if data and not data.startswith(GZIP):
        why = "its name ends in .gz, and it is not packed by gzip"
        raise UnreadableError(path, why, "rename it")
    try:
        with gzip.open(io.BytesIO(data)) as content:
            return content.read(most + 1)
    except (EOFError, zlib.error, OSError) as error:
        raise UnreadableError(path, str(error), "pack or copy it again") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML as `tomllib.loads` does, but with one kind of error.

    Parameters
    ----------
    text : str
        The content of a TOML file.

    Returns
    -------
    dict
        The tables and values.

    Raises
    ------
    ValueError
        For any mistake, also where keys or tables are nested too deeply.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_toml(path: str | Path, most: int = SETTINGS_BYTES) -> dict[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path : str or Path
        The file.
    most : int
        How many bytes the file may have.

    Returns
    -------
    dict
        The tables and values.

    Raises
    ------
    UnreadableError
        Where the file is missing, empty, too long or not TOML.
    """
    text = read_text(path, most)
    if not text.strip():
        raise UnreadableError(path, "it is empty", "write it first, or give another file")
    try:
        return parse_toml(text)
    except ValueError as error:
        raise UnreadableError(path, f"it is not TOML ({error})") from None


def parse_json(text: str) -> Any:
    """Parse JSON as `json.loads` does, but with one kind of error.

    Parameters
    ----------
    text : str
        The content of a JSON file.

    Returns
    -------
    object
        The parsed value.

    Raises
    ------
    ValueError
        For any mistake, also where values are nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : str or Path
        The file, of at most `TABLE_BYTES`.

    Returns
    -------
    object
        The parsed value.

    Raises
    ------
    UnreadableError
        Where the file is missing, too long or not JSON.
    """
    text = read_text(path, TABLE_BYTES)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UnreadableError(path, f"it is not JSON ({error})") from None


def read_table(path: str | Path, most: int = TABLE_BYTES, **options: Any) -> "pd.DataFrame":
    """Read a CSV file, plain or compressed as `.gz`.

    Parameters
    ----------
    path : str or Path
        The file.
    most : int
        How many bytes the file may have, and its text once decompressed.
    **options
        Further arguments of `pandas.read_csv`.

    Returns
    -------
    pandas.DataFrame
        The table, with its rows numbered from 0.

    Raises
    ------
    UnreadableError
        Where the file is missing, empty, too long or not a table separated by commas.
    """
    import pandas as pd

    text = read_text(path, most, packed=Path(path).suffix == ".gz")
    header = text.partition("\n")[0]
    comma, *others = (header.count(mark) for mark in ",;\t")
    if not comma and any(others):
        options["sep"] = ";" if others[0] else "\t"
        if re.search(r"(?:^|[;\t])\s*-?\d+,\d+\s*(?:$|[;\t\r])", text, re.MULTILINE):
            options["decimal"] = ","
    try:
        table: pd.DataFrame = pd.read_csv(io.StringIO(text), **options)
    except pd.errors.EmptyDataError:
        raise UnreadableError(path, "it is empty", "give a table with a header and rows") from None
    except (ValueError, OverflowError) as error:
        cells = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        why = f"it is not a CSV table ({str(error).strip()})"
        if cells:
            why = f"row {cells[2]} has {cells[3]} cells and the header {cells[1]}"
        raise UnreadableError(path, why, QUOTE) from None
    # pandas takes surplus first cells for row names, which shifts all columns
    if len(table) and not isinstance(table.index, pd.RangeIndex):
        raise UnreadableError(path, "row 2 has more cells than the header", QUOTE)
    table.attrs["decimal"] = options.get("decimal", ".")
    return table


def read_cells(
    path: str | Path, columns: Sequence[str], most: int = TABLE_BYTES
) -> list[tuple[int, dict[str, str]]]:
    """Read a CSV file written by hand, with all cells as text; empty rows are left out.

    Capitals in the names of columns do not count.

    Parameters
    ----------
    path : str or Path
        The file.
    columns : sequence of str
        Columns that its header must have.
    most : int
        How many bytes the file may have.

    Returns
    -------
    list of (int, dict)
        The row number, where the header is row 1, and the cells by column.

    Raises
    ------
    UserError
        Where a column is missing, or there are no rows; `UnreadableError` as in `read_table`.
    """
    plain = {"dtype": str, "na_filter": False, "skipinitialspace": True, "skip_blank_lines": False}
    table = read_table(path, most, **plain).rename(columns=lambda name: name.strip().lower())
    if missing := [name for name in columns if name not in table]:
        raise UserError(
            f"{path}, row 1: the columns must be {join_names(columns)}; "
            f"{join_names(missing)} is missing, found {join_names(table.columns):.200}."
        )
    names = [str(name) for name in table]
    rows = enumerate((dict(zip(names, row, strict=True)) for row in table.values), start=2)
    if filled := [(number, row) for number, row in rows if any(row.values())]:
        return filled
    raise UserError(f"{path} has no rows below its header; add one.")


def split_pair(pair: str, option: str, example: str, *, empty: bool = False) -> tuple[str, str]:
    """Split the value of an option that has the form name=value.

    Parameters
    ----------
    pair : str
        What the user gave.
    option, example : str
        The option and a value that it takes, for the message.
    empty : bool
        Whether the value may be empty.

    Returns
    -------
    name, value : str
        Both without surrounding spaces.

    Raises
    ------
    UserError
        Where there is no equals sign, no name, or no value where one is needed.

    Examples
    --------
    >>> split_pair("training.networks = 2", "--set", "training.seed=1")
    ('training.networks', '2')
    """
    name, sign, value = (part.strip() for part in pair.partition("="))
    if not (sign and name and (value or empty)):
        raise UserError(f"{option} takes name=value, as {example}, got {pair!r}.")
    return name, value


def find_named_file(name_or_path: str | Path, folder: Traversable, kind: str) -> Path:
    """Find a file of the package by name, or a user's own.

    Parameters
    ----------
    name_or_path : str or Path
        A name, or a path that ends in .toml.
    folder : Traversable
        The folder of the package.
    kind : str
        What an error message calls such a file: "preset", "grid", …

    Raises
    ------
    UserError
        Where there is no file of this name; the nearest name is proposed.
    """
    name = str(name_or_path)
    if Path(name).suffix == ".toml":
        return Path(name)
    files = sorted(entry.name for entry in folder.iterdir())
    known = [file.removesuffix(".toml") for file in files if file.endswith(".toml")]
    check_known(name, known, kind, advice=", and a file of your own ends in .toml")
    return Path(str(folder / f"{name}.toml"))
