"""What a folder already holds: a training run, results of other settings, or a user's own files.

A training run is found and checked here without JAX, whose import takes longer than the answers of
`equivocal.asking`; `equivocal.network.storage` writes it.

    FOLDER/run.toml                     settings; written first, to mark the folder as a run's own
    FOLDER/world.toml, curves.csv       the world of the networks, and their learning curves
    FOLDER/networks/00.safetensors …    one file for each network
    FOLDER/records/networks.json        checksums of all files; written last, to mark it complete

A user's own files are never overwritten, and results never silently. A command leaves a TOML file
in its folder that says which run wrote the rest: `measure.toml`, `compare.toml`, … Tables and
figures are made in seconds from networks and posteriors, which are kept; so a run with other
settings may overwrite them, and announces it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.progress import announce
from equivocal.store import Store, parse_toml, read_toml
from equivocal.store.store import RECORDS
from lastlayer.errors import UserError, join_names
from lastlayer.files import UnreadableError

__all__ = [
    "NETWORKS",
    "RECORD",
    "TRAIN_AGAIN",
    "announce_overwrite",
    "check_run",
    "find_runs",
    "has_run",
    "locate_network",
    "refuse_foreign_files",
]

NETWORKS = "networks"  # the name of their record
RECORD = f"{RECORDS}/{NETWORKS}.json"
TRAIN_AGAIN = "train again, into the same folder or another one (`equivocal train`, `reproduce`)."


def locate_network(directory: Path, index: int) -> Path:
    """Return the path of the weights of one of a run's networks."""
    return directory / "networks" / f"{index:02d}.safetensors"


def has_run(directory: Path) -> bool:
    """Return whether a folder holds a complete run of networks, even if a file is damaged."""
    return Store(directory).find_key(NETWORKS) is not None


def find_runs(directory: Path) -> list[Path]:
    """Find the complete runs of networks in a folder that a command has written.

    Parameters
    ----------
    directory : Path
        The folder.

    Returns
    -------
    list of Path
        The folder itself where it is a run; else those in its folder `networks`, where commands
        keep the networks that they work with; else any below it, in order of their paths.
    """
    if has_run(directory):
        return [directory]
    for pattern in ("networks/**/run.toml", "**/run.toml"):
        paths = sorted(path.relative_to(directory) for path in directory.glob(pattern))
        visible = [path for path in paths if not any(part[0] == "." for part in path.parts)]
        places = [directory / path.parent for path in visible]
        if found := [place for place in places if has_run(place)]:
            return found
    return []


def check_run(directory: Path, *needed: Path) -> None:
    """Refuse a folder without a complete run, or with damaged files among those `needed`.

    By default all files are needed.
    """
    if not directory.is_dir():
        raise UserError(
            f"there is no folder {directory}, so no complete run; `equivocal train --out "
            f"{directory}` makes one, and `equivocal reproduce` a study."
        )
    store = Store(directory)
    if store.find_key(NETWORKS) is None:
        raise UserError(
            f"{directory} is not a complete run of networks: it has no valid {RECORD}; give a "
            "folder that `equivocal train` or `equivocal reproduce` has finished."
        )
    damaged = [path for path in store.find_damaged(NETWORKS) if not needed or path in needed]
    if damaged:
        names = join_names(map(str, damaged))
        raise UserError(f"{names} is missing or has a checksum mismatch; {TRAIN_AGAIN}")


def announce_overwrite(path: Path, settings: dict[str, Any], compared: Sequence[str]) -> None:
    """Announce it if results in the folder of `path` had other settings and will be overwritten.

    Parameters
    ----------
    path : Path
        The TOML file with the settings of the earlier run, if there was one.
    settings : dict
        The settings of the new run.
    compared : sequence of str
        The settings that distinguish one run from another.
    """
    if not path.exists():
        return
    try:
        before = read_toml(path)
    except UnreadableError:
        announce(f"{path} cannot be read; the results in {path.parent} are replaced")
        return
    wanted = parse_toml(tomli_w.dumps(settings))  # the types that reading a file gives
    changed = [
        name for key in compared for name in _find_changes(key, before.get(key), wanted.get(key))
    ]
    if changed:
        announce(f"overwriting results in {path.parent} that differ in {join_names(changed)}")


def refuse_foreign_files(path: Path, written: Sequence[str]) -> None:
    """Refuse a folder that has a file to be `written`, but no settings file `path` of a run."""
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
    """Return lists as sets, since items may be given in any order."""
    return set(map(str, value)) if isinstance(value, list) else value
