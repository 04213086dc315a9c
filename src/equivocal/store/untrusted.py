"""The first look at an untrusted file: its kind, its size, and names in it that lead elsewhere.

Every reader of `equivocal.store` opens its file with `open_limited` and refuses what it cannot use
with an `UnreadableError`. Limits of size are given by the readers, so they are changed there.
"""

import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

from equivocal.errors import UserError


class UnreadableError(UserError):
    """A file that is refused; `reason` is a phrase for callers who have better advice to add."""

    def __init__(self, path: str | Path, reason: str, advice: str = "") -> None:
        self.reason = reason
        way_out = f"; {advice}" if advice else ""
        super().__init__(f"cannot read {path!s:.200}: {reason:.300}{way_out}.")


@contextmanager
def open_limited(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open an ordinary file of at most `most` bytes, and give it together with its size.

    A pipe or a device could be read for ever, so it is not even opened.
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
    """Format a number of bytes for people.

    Parameters
    ----------
    size : int
        The number of bytes.

    Returns
    -------
    str
        Three digits and a binary unit.

    Examples
    --------
    >>> format_size(1 << 20), format_size(1_500_000_000), format_size(12)
    ('1 MiB', '1.4 GiB', '12 bytes')
    """
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g}"[:4].rstrip(".") + f" {name}"
    return f"{size} bytes"


def resolve_inside(folder: str | Path, name: str, where: str, *, links: bool = False) -> Path:
    """Return the path that a name in an untrusted file refers to, which must lie in `folder`.

    Paths given on the command line are trusted and are not checked here.

    Parameters
    ----------
    folder : str or Path
        Where the file that contains the name is.
    name : str
        The name, as written there.
    where : str
        How messages call the setting.
    links : bool
        Whether a symbolic link may lead out of the folder.

    Returns
    -------
    Path
        The path, which need not exist.

    Raises
    ------
    UserError
        For an absolute path, a `..`, a link that leads out of the folder, or no name at all.
    """
    folder, written = Path(folder), PureWindowsPath(name)  # reads both / and \, and drives
    outside = bool(written.anchor) or ".." in written.parts or Path(name).is_absolute()
    try:
        path = folder / name
        path.exists()
        leaves = not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a name too long, a link to itself, a NUL
        raise UserError(f"{where} = {name!r:.80} cannot be looked up; rename the file.") from None
    if not name or outside or (leaves and not links):
        why = "leads out of its folder" if name else "names no file"
        raise UserError(
            f"{where} = {name!r:.200} {why}; put the file itself beside the one that names it, or "
            "give its path on the command line."
        )
    return path


def is_plain_name(name: str) -> bool:
    """Return whether a name can be part of a file's name: one line, no slashes, not long.

    Parameters
    ----------
    name : str
        The name, of unknown origin.

    Returns
    -------
    bool
        False for an empty name, and for one with control characters.

    Examples
    --------
    >>> is_plain_name("reversal"), is_plain_name("a/../../b"), is_plain_name("")
    (True, False, False)
    """
    signs = {"/", "\\", ":"}
    return 0 < len(name.encode("utf-8", "replace")) <= 100 and not any(
        letter in signs or unicodedata.category(letter).startswith("C") for letter in name
    )
