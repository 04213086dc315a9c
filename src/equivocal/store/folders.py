"""What a folder holds already: a training run, results of other settings, or a user's own files.

A training run is found and checked here without JAX, whose import takes longer than the answers of
`equivocal.asking`; `equivocal.gestalt.storage` writes it.

    FOLDER/run.toml                     settings, checksums of the other files and of itself
    FOLDER/world.toml, curves.csv       the world of the networks, and how they learned
    FOLDER/networks/00.safetensors …    one file for each network

A user's own files are never overwritten, and results never silently. A command leaves a TOML file
in its folder that says which run wrote the rest: `suites.toml`, `compare.toml`, … Tables and
figures are made in seconds from networks and posteriors, which are kept; so a run with other
settings may overwrite them, and says so.
"""

import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.errors import UserError, join_names
from equivocal.progress import announce
from equivocal.store import UnreadableError, parse_toml
from equivocal.store.files import find_mismatches
from equivocal.store.text import read_toml

__all__ = [
    "announce_overwrite",
    "find_damaged",
    "locate_network",
    "refuse_foreign_files",
    "refuse_incomplete",
]


CHECKED = re.compile(r"world\.toml|curves\.csv|networks/\d{2,9}\.safetensors")


def locate_network(directory: Path, index: int) -> Path:
    """Return the path of the weights of one of a run's networks."""
    return directory / "networks" / f"{index:02d}.safetensors"


def refuse_incomplete(directory: Path, *needed: Path) -> None:
    """Refuse a folder that is not there, or lacks one of these files of a complete run."""
    if not directory.is_dir():
        raise UserError(
            f"there is no folder {directory}, so no complete run; `equivocal train --out "
            f"{directory}` makes one, and `equivocal reproduce` a study."
        )
    for path in needed:
        if not path.is_file():
            raise UserError(
                f"{directory} is not a complete run of networks: it has no "
                f"{path.relative_to(directory)}; give a folder that `equivocal train` or "
                "`equivocal reproduce` has finished."
            )


def find_damaged(directory: Path, names: Container[str] | None = None) -> list[Path]:
    """Find files of a complete run (or those of these names) that are missing or altered.

    Runs of early versions have no checksums, so none of their files is reported.
    """
    path = directory / "run.toml"
    try:
        content = read_toml(path)
        content["training"].keys()
        checksums = dict(content.get("checksums", {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return [path]
    checked = [name for name in checksums if CHECKED.fullmatch(name)]  # others lead elsewhere
    wanted = {name: checksums[name] for name in checked if names is None or name in names}
    return find_mismatches(directory, wanted)


def announce_overwrite(path: Path, settings: dict[str, Any], compared: Sequence[str]) -> None:
    """Say so if results beside `path` were made with other settings and will be overwritten.

    Parameters
    ----------
    path : Path
        The record of the earlier run, if there was one.
    settings : dict
        What the record will say now.
    compared : sequence of str
        The settings that distinguish one run from another.
    """
    if not path.exists():
        return
    try:
        found = read_toml(path)
    except UnreadableError:
        announce(f"{path} cannot be read; the results in {path.parent} are replaced")
        return
    wanted = parse_toml(tomli_w.dumps(settings))  # as it is read back
    changed = [
        name for key in compared for name in _find_changes(key, found.get(key), wanted.get(key))
    ]
    if changed:
        announce(f"overwriting results in {path.parent} that differ in {join_names(changed)}")


def refuse_foreign_files(path: Path, written: Sequence[str]) -> None:
    """Refuse a folder that holds a file to be `written`, and no record `path` of such a run."""
    taken = [name for name in written if (path.parent / name).exists()]
    if taken and not path.exists():
        raise UserError(
            f"{path.parent} holds {join_names(taken)}, which would be overwritten; choose another "
            "--out, or move it away."
        )


def _find_changes(name: str, found: Any, wanted: Any) -> Iterator[str]:
    """Yield the names of settings that differ, those in a table as `table.name`."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*wanted, *found]):
            yield from _find_changes(f"{name}.{key}", found.get(key), wanted.get(key))
    elif _ignore_order(found) != _ignore_order(wanted):
        yield name


def _ignore_order(value: Any) -> Any:
    """Return lists as sets: suites and measures are the same in whatever order they were given."""
    return set(map(str, value)) if isinstance(value, list) else value
