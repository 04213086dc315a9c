"""Files that are whole or not there: written under another name, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equivocal.errors import UserError

__all__ = ["ensure_writable", "replacing", "write_text_atomically"]


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well.

    A killed process leaves at most a hidden `.NAME.XXXX.tmp`, never half of `path`.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a folder or a device must not be replaced by a file
        raise UserError(f"cannot write to {path}: it is not an ordinary file; choose another name.")
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    with _explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
    try:
        yield temporary
        with _explaining(path):
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot write to {path}: {os.strerror(error.errno or 0)}; choose another place."
        raise UserError(message) from None


def ensure_writable(directory: str | Path) -> None:
    """Make a folder, and find out before the work rather than after it if it cannot be used."""
    directory = Path(directory)
    probe = directory / f".{secrets.token_hex(4)}.tmp"
    with _explaining(directory):
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink()


def write_text_atomically(path: str | Path, text: str) -> None:
    """Write text (UTF-8) so that `path` is never half-written."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
