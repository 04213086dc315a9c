"""Paths that stand in files: they lead to what lies beside the file, and nowhere else.

A path that a person gives on the command line is their own and is not checked here.
"""

import unicodedata
from pathlib import Path, PureWindowsPath

from equivocal.errors import UserError

__all__ = ["is_plain_name", "resolve_inside"]


def resolve_inside(folder: str | Path, name: str, where: str, *, links: bool = False) -> Path:
    """The file that `name` means in `folder`; `where` is how the message calls the setting.

    Refused: an absolute path, a `..`, and (unless `links`) a link that leads out of the folder.
    """
    folder, written = Path(folder), PureWindowsPath(name)  # reads both / and \, and drives
    if not name or "\0" in name:
        raise UserError(f"{where} = {name!r} names no file; give the name of one beside it.")
    if written.anchor or ".." in written.parts or Path(name).is_absolute():
        raise UserError(
            f"{where} = {name!r:.200} leads out of its folder; put the file beside the one that "
            "names it, or give its path on the command line."
        )
    path = folder / name
    try:
        path.exists()
        leaves = not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a name too long, a link to itself
        raise UserError(f"{where} = {name!r:.80} cannot be looked up; rename the file.") from None
    if leaves and not links:
        raise UserError(
            f"{where} = {name!r:.200} is a link that leads out of its folder; put the file itself "
            "there, or give its path on the command line."
        )
    return path


def is_plain_name(name: str) -> bool:
    """Whether a name can be part of a file's name: one line, no slashes, not long.

    >>> is_plain_name("reversal"), is_plain_name("a/../../b"), is_plain_name("")
    (True, False, False)
    """
    signs = {"/", "\\", ":"}
    return 0 < len(name.encode("utf-8", "replace")) <= 100 and not any(
        letter in signs or unicodedata.category(letter).startswith("C") for letter in name
    )
