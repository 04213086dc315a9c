"""What a sweep's folder says of itself.

    DIR/varied.toml     the study, what was varied, versions, and which tables were written

It holds no times, so an interrupted sweep ends with the same bytes. Tables that it names are ours:
another sweep removes those that it does not write itself.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.machine import versions
from equivocal.store import TABLE_BYTES, UnreadableError, is_plain_name, read_toml
from equivocal.store.files import write_text_atomically
from equivocal.store.overwrite import announce_overwrite

__all__ = ["SweepRecord"]

NAME = "varied.toml"  # not sweep.toml, which a user's own file may be called
PACKAGES = ("equivocal", "jax", "numpy", "scipy", "xarray")


@dataclass(frozen=True)
class SweepRecord:
    """Of one sweep, in a folder that may hold another one's tables."""

    folder: Path
    settings: dict[str, Any]
    former: tuple[str, ...]  # tables of the sweep before

    @classmethod
    def begin(cls, folder: Path, settings: dict[str, Any]) -> "SweepRecord":
        """Before the work: tell what will be replaced."""
        former = _former_tables(folder / NAME)
        announce_overwrite(folder / NAME, settings, list(settings))
        return cls(folder, settings, former)

    def write(self, tables: list[str]) -> None:
        """Before the tables are: whenever a sweep is killed, those in the folder are named."""
        for name in self.former:
            if name not in tables:
                (self.folder / "tables" / f"{name}.csv").unlink(missing_ok=True)
        content = {"tables": tables, **self.settings, "versions": versions(*PACKAGES)}
        write_text_atomically(self.folder / NAME, tomli_w.dumps(content))


def _former_tables(path: Path) -> tuple[str, ...]:
    if not path.exists():
        return ()
    try:
        found = read_toml(path, TABLE_BYTES)
    except UnreadableError:
        found = {}
    match found:
        case {"tables": list() as names, "versions": dict()}:
            # a folder may come from strangers
            return tuple(name for name in names if isinstance(name, str) and is_plain_name(name))
    return ()
