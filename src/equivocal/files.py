"""Files that are whole or not there, and known again: written under another name, then renamed.

A killed process can leave a temporary file; `remove_orphans` finds those by their names. What a
disk or a careless hand did to a file shows in its checksum.
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
    "checksum",
    "ensure_writable",
    "explaining",
    "is_altered",
    "remove_orphans",
    "replacing",
    "sealed",
    "write_text_atomically",
]

# Ours: .NAME.0123abcd.tmp; safetensors writes under .tmpAbC123, Python under .tmpabc_1234.
ORPHAN = re.compile(r"\..+\.[0-9a-f]{8}\.tmp|\.tmp([A-Za-z0-9]{6}|[a-z0-9_]{8})")
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows knows no quota
SEAL = "# sha256 of all that follows: "


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well.

    A killed process leaves at most a hidden `.NAME.XXXX.tmp`, never half of `path`. The block is
    for writing alone: what fails in it is explained as a failure to write.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a folder or a device must not be replaced by a file
        raise UserError(f"cannot write to {path}: it is not an ordinary file; choose another name.")
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:  # from before the file is there: Ctrl-C may come while it is being made
        with explaining(path):
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
def explaining(path: Path) -> Iterator[None]:
    """Whatever keeps a file from being written, as one sentence."""
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
    """Make a folder, and find out before the work rather than after it if it cannot be used."""
    directory = Path(directory)
    with explaining(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory, prefix=".tmp"):  # without a name, where the system can
            pass


def write_text_atomically(path: str | Path, text: str) -> None:
    """Write text (UTF-8) so that `path` is never half-written."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_orphans(folder: Path, *subfolders: str) -> None:
    """Remove what killed processes left half-written in a folder and those of its own (globs).

    Nobody else may be writing there; `equivocal.locks` sees to that.
    """
    for place in (folder, *(found for glob in subfolders for found in folder.glob(glob))):
        if place.is_dir():
            for file in list(place.iterdir()):
                if ORPHAN.fullmatch(file.name) and file.is_file() and not file.is_symlink():
                    file.unlink(missing_ok=True)


def checksum(path: Path) -> str | None:
    """The sha256 of a file, None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def sealed(text: str) -> str:
    """Text that carries its own checksum, in a comment on top."""
    return f"{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n{text}"


def is_altered(text: str) -> bool:
    """Whether text is not what `sealed` made; text without a seal is taken as it is.

    >>> is_altered(sealed("seed = 1")), is_altered(sealed("seed = 1").replace("1", "2", 1))
    (False, True)
    >>> is_altered("seed = 1")
    False
    """
    first, _, rest = text.partition("\n")
    return text.startswith(SEAL) and sealed(rest).partition("\n")[0] != first
