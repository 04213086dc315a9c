"""The files of a training run, found and checked without JAX.

    FOLDER/run.toml                     settings, checksums of the other files and of itself
    FOLDER/world.toml, curves.csv       the world of the networks, and how they learned
    FOLDER/networks/00.safetensors …    one file for each network

`equivocal.gestalt.storage` writes them. `equivocal.asking` reads them from here, because importing
JAX takes longer than its answer.
"""

import re
from collections.abc import Container
from pathlib import Path

from equivocal.errors import UserError
from equivocal.store.files import find_mismatches
from equivocal.store.text import read_toml

__all__ = ["find_damaged", "locate_network", "refuse_incomplete"]

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
