"""`UserError`, for mistakes that the caller can correct, and functions that word its messages.

`import_name` imports a public name when it is first used. A package with such names has a
dictionary from each name to its module, imports the names for type checkers only, and defines

    def __getattr__(name):
        return import_name(__name__, _HOME, name)
"""

import difflib
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["UserError", "check_known", "did_you_mean", "import_name", "join_names"]

MOST_KNOWN = 20_000  # names to compare with; more would take over a fifth of a second
MOST_LETTERS = 200  # in a name that is compared with them


class UserError(ValueError):
    """Bad input. The message names the value received, the rule it broke and a way out."""


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """Return `": did you mean 'pizza'?"` for the nearest known names, or `""` when none is near.

    >>> did_you_mean("piza", ["pizza", "soup"])
    ": did you mean 'pizza'?"
    >>> did_you_mean("xylophone", ["pizza", "soup"])
    ''
    """
    by_fold = {candidate.casefold(): candidate for candidate in known}
    if len(by_fold) > MOST_KNOWN or len(name) > MOST_LETTERS:
        return ""
    near = difflib.get_close_matches(name.casefold(), by_fold, n=most, cutoff=0.6)
    if not near:
        return ""
    return f": did you mean {' or '.join(repr(by_fold[fold]) for fold in near)}?"


def check_known(
    name: str, known: Iterable[str], what: str, where: str = "", advice: str = ""
) -> None:
    """Refuse a name that is not known: propose the nearest one, or else list them.

    Parameters
    ----------
    name : str
        The name received.
    known : iterable of str
        All valid names.
    what : str
        The kind of thing that is named: "role", "measure", …
    where : str
        The file and row, or the option, for the start of the message.
    advice : str
        What else would be accepted, for the end of the message.
    """
    known = list(known)
    if name not in known:
        hint = (
            did_you_mean(str(name), known) or f"; there are {join_names(known, most=40)}{advice}."
        )
        raise UserError(f"{where}unknown {what} {name!r:.80}{hint}")


def join_names(names: Iterable[str], *, most: int = 12) -> str:
    """Join names by commas, cut after `most` so that a message stays one sentence.

    >>> join_names(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    names = list(names) or ["none"]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def import_name(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Import a public name of a package from the module that defines it.

    Parameters
    ----------
    package : str
        The package, as in `__name__`.
    homes : mapping of str to str
        The module of each public name, relative to the package.
    name : str
        The name that was asked for.

    Raises
    ------
    AttributeError
        Where the package has no such name.

    Examples
    --------
    >>> import_name("lastlayer", {"UserError": "errors"}, "UserError").__name__
    'UserError'
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(f"{package}.{homes[name]}"), name)
