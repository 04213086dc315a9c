"""The error of everything that reads, and the first look at a file."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from equivocal.errors import UserError

__all__ = ["UnreadableError", "format_size", "open_limited"]


class UnreadableError(UserError):
    """A file that is refused; `reason` is a phrase for whoever has better advice to add."""

    def __init__(self, path: str | Path, reason: str, advice: str = "") -> None:
        self.reason = reason
        way_out = f"; {advice}" if advice else ""
        super().__init__(f"cannot read {path!s:.200}: {reason:.300}{way_out}.")


@contextmanager
def open_limited(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """An ordinary file of at most `most` bytes, and its size.

    A pipe or a device would be read for ever, so it is not even opened.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError(path, "it is not an ordinary file", "give the path of a file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                why = f"it has {format_size(size)}, and at most {format_size(most)} are read"
                raise UnreadableError(path, why, "give a smaller file")
            yield file, size
    except FileNotFoundError:
        raise UnreadableError(path, "it is not there", "check its name and folder") from None
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from None
    except ValueError as error:
        if isinstance(error, UserError) or "null" not in str(error):
            raise
        raise UnreadableError(repr(path), "its name holds a NUL character") from None


def format_size(size: int) -> str:
    """Bytes for people.

    >>> format_size(1 << 20), format_size(1_500_000_000), format_size(12)
    ('1 MiB', '1.4 GiB', '12 bytes')
    """
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g}"[:4].rstrip(".") + f" {name}"
    return f"{size} bytes"
