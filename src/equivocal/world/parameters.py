"""Parameters of a world, set when it is loaded: `World.load("slips", rare=0.02)`.

A file declares them under [parameters], each with a default and a range. Values that are chosen
take the place of the defaults before the file is read, so a world is always what its text says.
Wherever a world is given by its name, values can be written behind it: "slips:rare=0.02,slip=0.01".
"""

import re
from collections.abc import Mapping
from typing import Any

from equivocal.errors import UserError, check_known, join_names
from equivocal.world.schema import ParameterSpec, parse_number

__all__ = ["put_values", "split_world_name"]

_VALUES = re.compile(r":[^:=/\\]+=[^:]*\Z")  # at the end of a name


def split_world_name(name: str) -> tuple[str, str]:
    """Split a world's name from the parameter values behind it, without checking either.

    Parameters
    ----------
    name : str
        A name or path, with or without values.

    Returns
    -------
    name, values : str
        The values keep their colon; they are empty where there are none.

    Examples
    --------
    >>> split_world_name("my.toml:rare=0.02,slip=0.01")
    ('my.toml', ':rare=0.02,slip=0.01')
    >>> split_world_name("paper")
    ('paper', '')
    """
    found = _VALUES.search(name)
    cut = found.start() if found else len(name)
    return name[:cut], name[cut:]


def parse_values(text: str) -> dict[str, str]:
    """Parse what `split_world_name` found behind a name: ":rare=0.02,slip=0.01"."""
    values: dict[str, str] = {}
    for pair in text.removeprefix(":").split(",") if text else ():
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not sign or not name or name in values:
            why = "has a name twice" if name in values else "is not name=value"
            raise UserError(
                f"parameters stand behind a world as in 'slips:rare=0.02,slip=0.01'; "
                f"{pair.strip()!r:.60} {why}."
            )
        values[name] = value
    return values


def put_values(
    raw: dict[str, Any], specs: Mapping[str, ParameterSpec], given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Put values that the caller chose in place of the defaults of a file.

    Parameters
    ----------
    raw : dict
        The file as parsed.
    specs : mapping of str to ParameterSpec
        Its parameters.
    given : mapping
        The values by name: numbers, or text such as "1/50".
    source : str
        The world's name in error messages.

    Raises
    ------
    UserError
        Where there is no such parameter, or the value is no number or out of range.
    """
    if given and not specs:
        raise UserError(
            f"world {source!r} has no parameters, got {join_names(given)}; leave them out, or "
            "declare them in its table [parameters]."
        )
    chosen = {name: dict(table) for name, table in raw.get("parameters", {}).items()}
    for name, value in given.items():
        check_known(name, specs, "parameter", f"world {source!r}: ")
        try:
            number = parse_number(value)
        except ValueError as error:
            raise UserError(f"world {source!r}, parameter {name!r}: {error}.") from None
        if not specs[name].least <= number <= specs[name].most:
            spec = specs[name]
            raise UserError(
                f"world {source!r}: parameter {name!r} must be from {spec.least:g} to "
                f"{spec.most:g}, got {number:g}."
            )
        chosen[name]["default"] = number
    return {**raw, "parameters": chosen} if given else raw
