"""The one kind of error that is a user's to mend, and the phrases such errors are built from.

Anything raised as `UserError` is shown by the command line as a single sentence with exit code 2.
Every other exception is a fault of ours and keeps its traceback.
"""

import difflib
from collections.abc import Iterable

__all__ = ["UserError", "did_you_mean", "listed"]


MOST_KNOWN = 20_000  # to look through these takes a fifth of a second
MOST_LETTERS = 200


class UserError(ValueError):
    """Bad input. The message names what came, the rule it broke and a way out."""


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1) -> str:
    """`": did you mean 'pizza'?"` for the nearest known names, or `""` when none is near.

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


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Names joined by commas, cut after `most` so that a message stays one sentence.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    names = list(names) or ["none"]
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
