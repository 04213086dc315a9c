"""Files that are whole or not there: written under another name, then renamed."""

import os
import tempfile
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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # mkstemp files are private; ours are ordinary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def ensure_writable(directory: str | Path) -> None:
    """Make a folder, and find out before the work rather than after it if it cannot be used."""
    directory = Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from None


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot write to {path}: {error.strerror}; choose another place.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text_atomically(path: str | Path, text: str) -> None:
    """Write text (UTF-8) so that `path` is never half-written."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
