"""Stages of a study: each is done once for what it depends on, and found again by its content.

A stage's key is a hash of everything its result depends on: settings, and the keys of the stages
before it. `stages.json` in the study's folder holds the keys of what is finished, and the checksums
of the files that were written. It is written after a stage's files, and those appear whole or not
at all; so a run that is killed goes on where it was, and ends with the same numbers. A file that is
no longer what was written is named, and its stage is done again.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from equivocal.machine import package_version
from equivocal.store import read_json
from equivocal.store.files import compute_checksum, write_text_atomically

__all__ = ["Stages", "hash_code", "hash_content", "hash_files"]


def hash_content(*parts: Any) -> str:
    """A short hash of anything JSON can hold; the version of the package is part of it."""
    text = json.dumps([package_version(), *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_files(*paths: Path) -> str:
    """A short hash of files' contents."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def hash_code() -> str:
    """A short hash of the package's own files.

    Statistics and drawing take seconds, so they are done again whenever anything here changed;
    networks and posteriors, which take long, are made anew for a new version only.
    """
    root = Path(__file__).parents[1]
    kinds = {".py", ".toml", ".csv", ".j2", ".css"}
    files = (path for path in root.rglob("*") if path.suffix in kinds)
    return hash_files(*sorted(files))


class Stages:
    """What is finished in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "stages.json"
        self._keys: dict[str, str] = {}
        self._sums: dict[str, dict[str, str]] = {}  # by stage and file
        self._known: dict[tuple[str, int, int], str | None] = {}  # no file is read twice
        self._read()

    def _read(self) -> None:
        if not self._path.exists():
            return
        try:
            for name, entry in read_json(self._path).items():
                if isinstance(entry, str):  # an older folder: checksums are not known
                    self._keys[name] = entry
                    continue
                sums = {_inside(file): str(of) for file, of in entry["files"].items()}
                self._keys[name], self._sums[name] = str(entry["key"]), sums
        except (ValueError, KeyError, TypeError, AttributeError):
            warnings.warn(
                f"{self._path} is damaged; what it does not tell is made again.", stacklevel=2
            )

    def finished(self, name: str, key: str, files: Sequence[Path] = ()) -> bool:
        """Whether a stage was done with this key, and its files are still what was written.

        Those that are there and are not are named.
        """
        if self._keys.get(name) != key:
            return False
        for file in (altered := self.altered([name])):
            warnings.warn(f"{file} is not as it was written; it is made again.", stacklevel=2)
        recorded = (self.folder / file for file in self._sums.get(name, {}))
        return not altered and all(file.exists() for file in (*recorded, *files))

    def altered(self, names: Iterable[str]) -> list[Path]:
        """Files that these stages wrote, that are there, and are not as they were written."""
        written = (pair for name in names for pair in self._sums.get(name, {}).items())
        paths = [(self.folder / file, of) for file, of in written]
        return [path for path, of in paths if path.exists() and self._checksum(path) != of]

    def _checksum(self, path: Path) -> str | None:
        about = path.stat()
        state = (str(path), about.st_mtime_ns, about.st_size)
        if state not in self._known:
            self._known[state] = compute_checksum(path)
        return self._known[state]

    def do(self, name: str, key: str, files: Sequence[Path], work: Callable[[], object]) -> bool:
        """Do a stage unless it is finished; returns whether it was done now."""
        if self.finished(name, key, files):
            return False
        work()
        self.mark(name, key, files)
        return True

    def mark(self, name: str, key: str, files: Iterable[Path] = ()) -> None:
        """Note that a stage was done with this key; its files must be there by now."""
        self._keys[name] = key
        self._sums[name] = {
            file.relative_to(self.folder).as_posix(): str(self._checksum(file)) for file in files
        }
        entries = {
            stage: {"key": key, "files": self._sums.get(stage, {})}
            for stage, key in self._keys.items()
        }
        write_text_atomically(self._path, json.dumps(entries, indent=1, sort_keys=True) + "\n")


def _inside(name: str) -> str:
    """A file's name that does not lead out of the folder, and that a file can have."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or len(name.encode()) > 255:
        raise ValueError(name)
    return name
