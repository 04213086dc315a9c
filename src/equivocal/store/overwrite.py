"""Protection of existing files: a user's own are never overwritten, results never silently.

A command leaves a TOML file in its folder that says which run wrote the rest: `suites.toml`,
`compare.toml`, … Tables and figures are made in seconds from networks and posteriors, which are
kept; so a run with other settings may overwrite them, and says so.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.errors import UserError, join_names
from equivocal.progress import announce
from equivocal.store import UnreadableError, parse_toml, read_toml

__all__ = ["announce_overwrite", "refuse_foreign_files"]


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
