"""Damage that tests do to real files."""

import os
from pathlib import Path

__all__ = ["cut", "flip"]


def flip(path: Path, at: float = 0.5) -> None:
    """Flip one bit of a file, so far into it."""
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Lose the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)
