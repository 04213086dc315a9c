"""Public names that are imported when they are first used.

A package that offers such names has a dictionary from each name to its module, imports them for
type checkers alone, and defines

    def __getattr__(name):
        return import_name(__name__, _HOME, name)
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from equivocal.errors import explain_missing

__all__ = ["import_name"]


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
    ImportError
        Where what the name needs is not installed.

    Examples
    --------
    >>> import_name("equivocal", {"UserError": "errors"}, "UserError").__name__
    'UserError'
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{package}.{homes[name]}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(explain_missing(f"{package}.{name}", error)) from error
