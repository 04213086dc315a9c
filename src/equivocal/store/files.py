"""Atomic writing: a file is whole or not there, because it is written elsewhere and then renamed.

A killed process can leave a temporary file; `remove_orphans` finds those by their names. A damaged
or edited file is recognised by its checksum.
"""

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from equivocal.errors import UserError

__all__ = [
    "add_checksum",
    "compute_checksum",
    "ensure_writable",
    "explain_write_errors",
    "has_checksum_mismatch",
    "remove_orphans",
    "write_atomically",
    "write_text_atomically",
]

# Ours: .NAME.0123abcd.tmp; safetensors writes under .tmpAbC123, Python under .tmpabc_1234.
ORPHAN = re.compile(r"\..+\.[0-9a-f]{8}\.tmp|\.tmp([A-Za-z0-9]{6}|[a-z0-9_]{8})")
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows knows no quota
SEAL = "# sha256 of all that follows: "
DEPTH = 4  # of folders that a run makes in its own


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, which takes its place when the block succeeds.

    A killed process leaves at most a hidden `.NAME.XXXX.tmp`, never half of `path`. The block
    should do nothing but write: an `OSError` in it is reported as a failure to write.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a folder or a device must not be replaced by a file
        raise UserError(f"cannot write to {path}: it is not an ordinary file; choose another name.")
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:  # from before the file is there: Ctrl-C may come while it is being made
        with explain_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(exist_ok=False)
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # safetensors makes files that only their owner may read
            # or a power failure may leave the new name with nothing behind it
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):  # a disk that became read-only keeps it; the reason is told above
            temporary.unlink(missing_ok=True)


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn whatever keeps a file from being written into a `UserError` of one sentence."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(path, error.errno, str(error)) from None
    except Exception as error:
        # safetensors has an error of its own, which carries the system's: "… (os error 28)"
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or isinstance(error, UserError):
            raise
        raise _cannot_write(path, int(number[1]), str(error)) from None


def _cannot_write(path: Path, number: int | None, message: str) -> UserError:
    reason = message if number is None else os.strerror(number)
    room = "make room, or " if number in FULL else ""
    return UserError(f"cannot write to {path}: {reason}; {room}choose another place.")


def ensure_writable(directory: str | Path) -> None:
    """Make a folder, and fail before the work rather than after it if it cannot be written to."""
    directory = Path(directory)
    with explain_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory, prefix=".tmp"):  # without a name, where the system can
            pass


def write_text_atomically(path: str | Path, text: str) -> None:
    """Write text (UTF-8) so that `path` is never half-written."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_orphans(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder or up to four levels below it.

    Nobody else may be writing there; `equivocal.store.locks` sees to that.
    """
    for depth in range(DEPTH + 1):
        for file in folder.glob("*/" * depth + ".*"):
            if ORPHAN.fullmatch(file.name) and file.is_file() and not file.is_symlink():
                file.unlink(missing_ok=True)


def compute_checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def add_checksum(text: str) -> str:
    """Return the text with its own checksum in a comment on top."""
    return f"{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def has_checksum_mismatch(text: str) -> bool:
    """Tell whether text carries a checksum (see `add_checksum`) that is not its own.

    >>> signed = add_checksum("seed = 1")
    >>> has_checksum_mismatch(signed), has_checksum_mismatch(signed.replace("1", "2", 1))
    (False, True)
    >>> has_checksum_mismatch("seed = 1")
    False
    """
    first, _, rest = text.partition("\n")
    return text.startswith(SEAL) and add_checksum(rest).partition("\n")[0] != first
