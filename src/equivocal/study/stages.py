"""Stages of a study: each is done once for what it depends on, and found again by its content.

A stage's key is a hash of everything its result depends on: settings, and the keys of the stages
before it. `stages.json` in the study's folder holds the keys of what is finished. It is written
after a stage's files, and those appear whole or not at all; so a run that is killed goes on where
it was, and ends with the same numbers.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import equivocal
from equivocal import __version__
from equivocal.files import write_text_atomically

__all__ = ["Stages", "code_key", "content_key", "file_key"]


def content_key(*parts: Any) -> str:
    """A short hash of anything JSON can hold; the version of the package is part of it."""
    text = json.dumps([__version__, *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_key(*paths: Path) -> str:
    """A short hash of files' contents."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def code_key() -> str:
    """A short hash of the package's own files.

    Statistics and drawing take seconds, so they are done again whenever anything here changed;
    networks and posteriors, which take long, are made anew for a new version only.
    """
    root = Path(equivocal.__file__).parent
    kinds = {".py", ".toml", ".csv", ".j2", ".css"}
    files = (path for path in root.rglob("*") if path.suffix in kinds)
    return file_key(*sorted(files))


class Stages:
    """What is finished in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "stages.json"
        self._keys = self._read()

    def _read(self) -> dict[str, str]:
        try:
            keys = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # missing or damaged: every stage is done again
            return {}
        return keys if isinstance(keys, dict) else {}

    def finished(self, name: str, key: str, files: Sequence[Path] = ()) -> bool:
        """Whether a stage was done with this key, and its files are still there."""
        return self._keys.get(name) == key and all(file.exists() for file in files)

    def key_of(self, name: str) -> str | None:
        """The key a stage was last done with."""
        return self._keys.get(name)

    def do(self, name: str, key: str, files: Sequence[Path], work: Callable[[], object]) -> bool:
        """Do a stage unless it is finished; returns whether it was done now."""
        if self.finished(name, key, files):
            return False
        work()
        self.mark(name, key)
        return True

    def mark(self, name: str, key: str) -> None:
        """Note that a stage was done with this key; its files must be there by now."""
        self._keys[name] = key
        write_text_atomically(self._path, json.dumps(self._keys, indent=1, sort_keys=True) + "\n")
