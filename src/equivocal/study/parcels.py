"""A folder as one value, to be sent to a worker that shares no disk with us."""

import hashlib
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from equivocal.files import replacing

__all__ = ["Parcel"]


@dataclass(frozen=True)
class Parcel:
    """Files of a folder: names relative to it, and their bytes."""

    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def of(cls, folder: Path) -> "Parcel":
        """What a folder holds, but for hidden files."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        named = ((path.relative_to(folder), path) for path in paths)
        shown = ((name.as_posix(), path) for name, path in named if name.name[0] != ".")
        return cls(tuple((name, path.read_bytes()) for name, path in shown))

    def some(self, names: Container[str]) -> "Parcel":
        """Those of its files that have these names."""
        return Parcel(tuple((name, content) for name, content in self.files if name in names))

    @property
    def checksums(self) -> dict[str, str]:
        """sha256 of each file."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files}

    def unpack(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files:
            with replacing(folder / name) as temporary:
                temporary.write_bytes(content)
