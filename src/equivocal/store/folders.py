"""What a folder holds already: a training run, results of other settings, or a user's own files.

A training run is found and checked here without JAX, whose import takes longer than the answers of
`equivocal.asking`; `equivocal.gestalt.storage` writes it.

    FOLDER/run.toml                     settings; written first, so the rest is known to be ours
    FOLDER/world.toml, curves.csv       the world of the networks, and how they learned
    FOLDER/networks/00.safetensors …    one file for each network
    FOLDER/records/networks.json        checksums of all of them; written last: they are finished

A user's own files are never overwritten, and results never silently. A command leaves a TOML file
in its folder that says which run wrote the rest: `suites.toml`, `compare.toml`, … Tables and
figures are made in seconds from networks and posteriors, which are kept; so a run with other
settings may overwrite them, and says so.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.errors import UserError, join_names
from equivocal.progress import announce
from equivocal.store import Store, UnreadableError, parse_toml, read_text, read_toml
from equivocal.store.store import RECORDS

__all__ = [
    "NETWORKS",
    "RECORD",
    "TRAIN_AGAIN",
    "announce_overwrite",
    "check_run",
    "has_run",
    "locate_network",
    "open_run",
    "refuse_foreign_files",
]

NETWORKS = "networks"  # the name of their record
RECORD = f"{RECORDS}/{NETWORKS}.json"
TRAIN_AGAIN = "train again, into the same folder or another one (`equivocal train`, `reproduce`)."
CHECKSUM = "# sha256 of all that follows: "  # on top of `run.toml`, in earlier versions


def locate_network(directory: Path, index: int) -> Path:
    """Return the path of the weights of one of a run's networks."""
    return directory / "networks" / f"{index:02d}.safetensors"


def open_run(directory: Path) -> Store:
    """Open the store of a folder of networks; their record is called `NETWORKS`."""
    return Store(directory, older=_read_older(directory / "run.toml"))


def has_run(directory: Path) -> bool:
    """Return whether a folder holds trained networks that are finished, be they damaged or not."""
    return open_run(directory).find_key(NETWORKS) is not None


def check_run(directory: Path, *needed: Path) -> None:
    """Refuse a folder without finished networks, or with damaged files (of those needed, if any).

    Runs of the earliest versions have no checksums, so none of their files is refused here.
    """
    if not directory.is_dir():
        raise UserError(
            f"there is no folder {directory}, so no complete run; `equivocal train --out "
            f"{directory}` makes one, and `equivocal reproduce` a study."
        )
    store = open_run(directory)
    if store.find_key(NETWORKS) is None:
        raise UserError(
            f"{directory} is not a complete run of networks: it has no valid {RECORD}; give a "
            "folder that `equivocal train` or `equivocal reproduce` has finished."
        )
    damaged = [path for path in store.find_damaged(NETWORKS) if not needed or path in needed]
    if damaged:
        names = join_names(map(str, damaged))
        raise UserError(f"{names} is missing or has a checksum mismatch; {TRAIN_AGAIN}")


def _read_older(path: Path) -> dict[str, dict[str, Any]]:
    """Turn the checksums that `run.toml` had in earlier versions into a record.

    Its own was on top; where that is wrong, `run.toml` itself is in the record, as damaged. Today
    `checksums` is the name of the record, so that `run.toml` alone says that nothing is finished.
    """
    if not path.exists():
        return {}
    try:
        text = read_text(path)
        first, _, rest = text.partition("\n")
        own = f"{CHECKSUM}{hashlib.sha256(rest.encode()).hexdigest()}"
        if first.startswith(CHECKSUM) and first != own:
            raise ValueError("checksum mismatch")
        content = parse_toml(text)
        content["training"].keys()
        files = content.get("checksums", {})
    except (ValueError, KeyError, TypeError, AttributeError):
        files = {"run.toml": "damaged"}
    return {} if isinstance(files, str) else {NETWORKS: {"key": "", "files": files}}


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
