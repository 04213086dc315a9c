"""The files of a training run, found and checked without JAX.

    FOLDER/run.toml                     settings, checksums of the other files and of itself
    FOLDER/world.toml, curves.csv       the world of the networks, and how they learned
    FOLDER/networks/00.safetensors …    one file for each network

`equivocal.gestalt.storage` writes them. Whatever only asks a network reads them from here, because
importing JAX takes longer than the answer.
"""

import re
from pathlib import Path
from typing import Any

from equivocal.store import UnreadableError, parse_toml, read_text
from equivocal.store.files import compute_checksum, has_checksum_mismatch

__all__ = ["find_damaged_files", "network_path", "read_record"]

CHECKED = re.compile(r"world\.toml|curves\.csv|networks/\d{2,9}\.safetensors")


def network_path(directory: Path, index: int) -> Path:
    """Return where a run keeps the weights of one of its networks."""
    return directory / "networks" / f"{index:02d}.safetensors"


def read_record(directory: Path) -> dict[str, Any]:
    """Read `run.toml`, and refuse it where its checksum does not match."""
    path = directory / "run.toml"
    text = read_text(path)
    if has_checksum_mismatch(text):
        raise UnreadableError(path, "checksum mismatch")
    return parse_toml(text)


def find_damaged_files(directory: Path) -> list[str]:
    """Find the files of a run that are missing or have a checksum mismatch.

    An older `run.toml` holds no checksums; then nothing is known, and nothing named.
    """
    try:
        content = read_record(directory)
        content["training"].keys()  # an empty file has no checksum that could mismatch
        sums = dict(content.get("checksums", {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ["run.toml"]
    names = (name for name in sums if CHECKED.fullmatch(name))  # no path leads out of the folder
    return [name for name in names if compute_checksum(directory / name) != sums[name]]
