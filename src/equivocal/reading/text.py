"""TOML, JSON and CSV from strangers: a size is checked before reading, a depth before parsing.

Python's own parsers run nothing, but they can be kept busy: nesting ends in a `RecursionError`, a
key of n dotted parts takes n² steps, an integer of n digits too (Python stops at 4,300).
"""

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivocal.reading.errors import UnreadableError, opened

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "SETTINGS_BYTES",
    "TABLE_BYTES",
    "parse_json",
    "parse_toml",
    "read_json",
    "read_table",
    "read_text",
    "read_toml",
]

SETTINGS_BYTES = 1 << 20  # the longest of ours has 4 KB
TABLE_BYTES = 64 << 20  # rows of a table or of stages; the largest grid's has 1 MB
MOST_PARTS = 64  # of a dotted key; ours have up to 5
# Starts at the first letter of a key only, and never goes back, so that it takes linear time.
_PART = r"""(?>[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_PART}){{{MOST_PARTS}}}", re.ASCII)
_NESTED = "it is nested too deeply"


def read_text(path: str | Path, most: int = SETTINGS_BYTES) -> str:
    """UTF-8 of at most `most` bytes; the mark that some editors put in front is dropped."""
    path = Path(path)
    with opened(path, most) as (file, _):
        data = file.read(most + 1)  # a file may grow after it was measured
    if len(data) > most:
        raise UnreadableError(path, f"it grew beyond {most} bytes", "give a smaller file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 text (byte {error.start})"
        raise UnreadableError(path, why, "save it as UTF-8") from None
    if "\0" in text:
        raise UnreadableError(path, "it holds a NUL character", "give a text file")
    return text


def parse_toml(text: str) -> dict[str, Any]:
    """`tomllib.loads`, but every failure is a `ValueError` and none takes long."""
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_NESTED) from None


def read_toml(path: str | Path, most: int = SETTINGS_BYTES) -> dict[str, Any]:
    """The tables of a TOML file."""
    text = read_text(path, most)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise UnreadableError(path, f"it is not TOML ({error})") from None


def parse_json(text: str) -> Any:
    """`json.loads`, but every failure is a `ValueError`."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_NESTED) from None


def read_json(path: str | Path, most: int = TABLE_BYTES) -> Any:
    """What a JSON file holds."""
    text = read_text(path, most)
    try:
        return parse_json(text)
    except ValueError as error:
        raise UnreadableError(path, f"it is not JSON ({error})") from None


def read_table(path: str | Path, most: int = TABLE_BYTES) -> "pd.DataFrame":
    """A CSV file as a table."""
    import io

    import pandas as pd

    text = read_text(path, most)
    try:
        return pd.read_csv(io.StringIO(text))
    except pd.errors.EmptyDataError:
        raise UnreadableError(path, "it is empty") from None
    except (ValueError, OverflowError) as error:
        raise UnreadableError(path, f"it is not a CSV table ({error})") from None
