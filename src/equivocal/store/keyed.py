"""Finished results of many tasks, one small file each: FOLDER/results/KEY.json.

    {"sha256": …, "key": KEY, "content": …}         sha256 of key and content

A key is a hash of all that the result depends on. So a store that is copied to another machine, or
filled by several, is still right about what is missing. A file that is damaged, or that lies under
another's name, is named in a note and its result is made again. Python's JSON gives every float
back to the last bit, and `NaN` as `NaN`.
"""

import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equivocal.store import read_json
from equivocal.store.files import write_text_atomically

__all__ = ["Store"]


class Store:
    """Results on disk, by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "results"

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def put(self, key: str, content: Any) -> None:
        """Keep a result; a file under its name is whole."""
        text = {"sha256": _checksum(key, content), "key": key, "content": content}
        write_text_atomically(self._path(key), json.dumps(text, indent=1) + "\n")

    def get(self, key: str, accepts: Callable[[Any], bool] = bool) -> Any | None:
        """A result, or None where there is none, or none that can be used."""
        path = self._path(key)
        if not path.exists():
            return None
        try:
            found = read_json(path)
            content = found["content"]
            whole = found["key"] == key and found["sha256"] == _checksum(key, content)
            if whole and accepts(content):
                return content
        except (ValueError, KeyError, TypeError, RecursionError):
            pass  # not JSON, or JSON that is no result
        warnings.warn(f"{path} is damaged; its result is made again.", stacklevel=2)
        return None


def _checksum(key: str, content: Any) -> str:
    return hashlib.sha256(json.dumps([key, content]).encode()).hexdigest()
