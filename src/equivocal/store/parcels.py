"""A folder as one value, to be sent to a worker that shares no disk with us."""

import hashlib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from equivocal.store.files import explain_write_errors

__all__ = ["Parcel"]


@dataclass(frozen=True)
class Parcel:
    """Files of a folder: names relative to it, and their bytes."""

    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, folder: Path, names: Container[str] | None = None) -> "Parcel":
        """What a folder holds, but for hidden files; of that what has these names."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        named = ((path.relative_to(folder), path) for path in paths)
        shown = ((name.as_posix(), path) for name, path in named if name.name[0] != ".")
        wanted = ((name, path) for name, path in shown if names is None or name in names)
        return cls(tuple((name, path.read_bytes()) for name, path in wanted))

    @property
    def checksums(self) -> dict[str, str]:
        """sha256 of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}

    def unpack(self, folder: Path) -> None:
        """Write the files; whether all of them are there is for others to know."""
        for name, content in self.files:
            path = folder / name
            with explain_write_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
