"""Find, read and check a world file, given its name or path. Every failure is a `UserError`.

Worlds of the package lie in `data/`; a file put there is listed and loaded by its name. A file may
build on one of them: `extends = "paper"`. Tables are then merged, entry by entry; anything else
(text, numbers, lists, the [[constructions]]) replaces what the extended file has. A world that is
saved with a run must not depend on a file that may change, so `format_world` writes out all of it.

A file declares parameters under [parameters], each with a default and a range. Chosen values
(`World.load("slips", rare=0.02)`) replace the defaults before the file is validated, so that the
text of a world always describes it completely. Wherever a world is given by its name, values can
follow the name: "slips:rare=0.02,slip=0.01".
"""

import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from equivocal.errors import explain_mistake
from equivocal.store import parse_toml, read_text
from equivocal.world.checks import find_problems
from equivocal.world.errors import Problem, WorldError
from equivocal.world.schema import Declarations, Scope, WorldFile
from lastlayer.errors import UserError, check_known, did_you_mean, join_names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["split_world_name"]

_VALUES = re.compile(r":[^:=/\\]+=[^:]*\Z")  # at the end of a name
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DATA = resources.files("equivocal.world") / "data"
_EXAMPLE = "example"  # written by `equivocal world new`; not a world to study
HIDDEN = {"roles", "then", "(name)", "(list)", "(table)"}  # parts of places not in the file
MOST_HINTS = 100  # each compares a name with all that are known
MAX_BYTES = 64 * 2**20  # a world of 100,000 words has about 16 MB


def merge_tables(base: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Merge the tables of a file into those of the file that it extends."""
    merged = dict(base)
    for key, value in added.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge_tables(base[key], value) if both else value
    return merged


def format_world(raw: dict[str, Any]) -> str:
    """Format a world file as TOML, with its tables in order, since fingerprints depend on that.

    `tomli_w` would move the roles of an action that are text before those that are tables.
    """
    tables = {key: value for key, value in raw.items() if isinstance(value, dict)}
    constructions = raw["constructions"]
    plain = {key: value for key, value in raw.items() if key not in {*tables, "constructions"}}
    parts = [_format_lines(plain)]
    for key, table in tables.items():
        if all(isinstance(entry, dict) for entry in table.values()):
            for name, entries in table.items():
                parts.append(f"[{key}.{_quote(name)}]\n{_format_lines(entries)}")
        else:
            parts.append(f"[{key}]\n{_format_lines(table)}")
    parts += [f"[[constructions]]\n{_format_lines(table)}" for table in constructions]
    return "\n".join(parts)


def _format_lines(table: dict[str, Any]) -> str:
    return "".join(f"{_quote(key)} = {_format_value(value)}\n" for key, value in table.items())


def _quote(key: str) -> str:
    return key if _BARE.fullmatch(key) else _format_value(key)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_quote(k)} = {_format_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def list_shipped_worlds() -> list[str]:
    """List the names of the worlds inside the package.

    Returns
    -------
    list of str
        Names that `World.load` takes, in alphabetical order.
    """
    files = (entry.name for entry in _DATA.iterdir() if entry.name.endswith(".toml"))
    return sorted({name.removesuffix(".toml") for name in files} - {_EXAMPLE})


def read_example() -> str:
    """Return a small commented world file to start from.

    Returns
    -------
    str
        The text of a TOML file.
    """
    return (_DATA / f"{_EXAMPLE}.toml").read_text(encoding="utf-8")


def find_world(
    name_or_path: str | Path, given: Mapping[str, Any]
) -> tuple[str, str, dict[str, Any]]:
    """Return the text of a world, its name in error messages, and all values of its parameters.

    Values may follow the name, or be `given`.
    """
    name, values = str(name_or_path), ""
    if not os.path.isfile(name):  # an existing file whose name has a colon takes precedence
        name, values = split_world_name(name)
    written = parse_values(values)
    if twice := sorted(written.keys() & given.keys()):
        raise UserError(f"parameter {twice[0]!r} is given twice, once in {str(name_or_path)!r}.")
    return *read_world(name), {**written, **given}


def read_world(name_or_path: str | Path) -> tuple[str, str]:
    """Return the text of a shipped world or of a file, and its name in error messages."""
    shipped, path = list_shipped_worlds(), Path(name_or_path)
    if str(name_or_path) in shipped:
        return (_DATA / f"{name_or_path}.toml").read_text(encoding="utf-8"), str(name_or_path)
    if os.path.isdir(path):  # unlike pathlib's, false for a name that no file can have
        raise UserError(f"{path} is a folder; give the world file in it.")
    if os.path.isfile(path):
        text = read_text(path, MAX_BYTES)
        if not text.strip():
            advice = f"remove it, and `equivocal world new {path}` writes an example there"
            raise UserError(f"{path} is empty; {advice}.")
        return text, str(path)
    raise UserError(
        f"there is no world {str(path)!r:.200}{did_you_mean(str(path), shipped) or ';'} "
        f"{join_names(shipped)} come with the package, a world of your own is given by its path, "
        f"and `equivocal world new {path.with_suffix('.toml')!s:.200}` writes an example."
    )


def parse_world_file(text: str, source: str, given: Mapping[str, Any]) -> tuple[WorldFile, str]:
    """Parse and check a world file; a `WorldError` lists all problems.

    Parameters
    ----------
    text : str
        The file.
    source : str
        Its name in error messages.
    given : mapping
        Values of its parameters in place of the defaults.

    Returns
    -------
    WorldFile
        The content, with the parameters' values in force as their defaults.
    str
        A text that gives the same world by itself: the file as written, unless it extends another
        or was given values.
    """
    written = _parse_tables(text, source)
    file, raw, unused = validate_world(_extend(written, source), source, given)
    if problems := find_problems(file, unused=unused):
        raise WorldError(source, problems)
    return file, text if raw is written else format_world(raw)


def validate_world(
    raw: dict[str, Any], source: str, given: Mapping[str, Any]
) -> tuple[WorldFile, dict[str, Any], set[str]]:
    """Validate the tables of a world file, with values of its parameters.

    Returns
    -------
    WorldFile
        The content.
    dict
        The tables with these values as defaults; `raw` itself where none is given.
    set of str
        Parameters that nothing uses.
    """
    raw = _put_values(raw, given, source)
    try:
        declared = Declarations.model_validate(raw, context=Scope())
        values = {name: spec.default for name, spec in declared.parameters.items()}
        for name in given:
            raw["parameters"][name]["default"] = values[name]  # a number, where text was given
        scope = Scope(values, declared.list_names())
        file = WorldFile.model_validate(raw, context=scope)
    except ValidationError as error:
        mistakes = _list_mistakes(error)
        problems = [_explain(entry, raw, n < MOST_HINTS) for n, entry in enumerate(mistakes)]
        raise WorldError(source, problems) from None
    return file, raw, values.keys() - scope.used


def parse_whole_world(text: str, source: str) -> dict[str, Any]:
    """Parse the tables of a world file, merged with those of the world that it extends."""
    return _extend(_parse_tables(text, source), source)


def _parse_tables(text: str, source: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        hint = "; often a word lacks its quotes, or a name stands twice in a table"
        raise WorldError(source, [Problem("is not TOML", f"{error}{hint}.")]) from None


def _extend(raw: dict[str, Any], source: str) -> dict[str, Any]:
    """Merge a file with the world of the package that it extends, if it does."""
    written = dict(raw)
    base, shipped = written.pop("extends", None), list_shipped_worlds()
    if base is None:
        return raw
    if base not in shipped:
        hint = did_you_mean(str(base), shipped) or f"; there are {join_names(shipped)}."
        message = f"there is no world {base!r:.60} in the package{hint}"
        raise WorldError(source, [Problem("extends", message)])
    return merge_tables(parse_whole_world(read_world(base)[0], base), written)


def _list_mistakes(error: ValidationError) -> "list[ErrorDetails]":
    """List the mistakes, except lists that pydantic calls too short because an entry is wrong."""
    mistakes = error.errors()
    above = {entry["loc"][:length] for entry in mistakes for length in range(len(entry["loc"]))}
    return [
        entry for entry in mistakes if entry["type"] != "too_short" or entry["loc"] not in above
    ]


def _explain(error: "ErrorDetails", raw: dict[str, Any], hints: bool) -> Problem:
    """Turn an error of pydantic into a problem with its table."""
    place = [part for part in error["loc"] if part not in HIDDEN or len(error["loc"]) == 1]
    if place[-1] == "[key]":  # the name before it is the mistake
        place = place[:-2]
    named = error["type"] in ("extra_forbidden", "missing")
    last = str(place.pop()) if named else ""
    message = explain_mistake(error, WorldFile, "key", last)
    if error["type"] == "unknown_name":
        kind, known, name = *error["ctx"].values(), error["input"]
        hint = hints and did_you_mean(name, known)
        hint = hint or f"; declare it, or use {join_names(known)}."
        message = f"unknown {kind} {name!r:.60}{hint}"
    elif named and place and last in WorldFile.model_fields:
        message = f"unknown key {last!r}; it belongs at the top of the file, above the first table."
    elif error["loc"] == ("constructions",) and not named:  # a table, or an empty list
        rule = "write each construction under [[constructions]], with two brackets"
        message = f"{rule}, got {error['input']!r:.60}."
    return Problem(_name_table(place, raw), message)


def _name_table(place: list[Any], raw: dict[str, Any]) -> str:
    """Turn ("actions", "eat", "patient", 0, "when") into "[actions.eat] patient when"."""
    names = [str(part) for part in place if not isinstance(part, int)]
    if names[:1] == ["constructions"] and len(place) > 1:
        written = raw["constructions"][place[1]]
        name = isinstance(written, dict) and written.get("name")
        name = name if isinstance(name, str) else f"number {place[1] + 1}"
        return " ".join(["[[constructions]]", name, *names[1:]])
    table = f"[{'.'.join(names[:2])}]" if names else ""
    return " ".join([table, *names[2:]])


def split_world_name(name: str) -> tuple[str, str]:
    """Split a world's name from the parameter values that follow it, without checking either.

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
    match = _VALUES.search(name)
    cut = match.start() if match else len(name)
    return name[:cut], name[cut:]


def parse_values(text: str) -> dict[str, str]:
    """Parse the values that `split_world_name` found: ":rare=0.02,slip=0.01"."""
    values: dict[str, str] = {}
    for pair in text.removeprefix(":").split(",") if text else ():
        name, sign, value = (part.strip() for part in pair.partition("="))
        if not sign or not name or name in values:
            why = "has a name twice" if name in values else "is not name=value"
            raise UserError(
                f"parameters follow the name of a world as in 'slips:rare=0.02,slip=0.01'; "
                f"{pair.strip()!r:.60} {why}."
            )
        values[name] = value
    return values


def _put_values(raw: dict[str, Any], given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Replace defaults of a file by values that the caller chose: numbers, or text as "1/50"."""
    declared = raw.get("parameters")
    if not given:
        return raw
    if not declared or not isinstance(declared, dict):
        raise UserError(
            f"world {source!r} has no parameters, got {join_names(given)}; leave them out, or "
            "declare them in its table [parameters]."
        )
    chosen = {**declared}
    for name, value in given.items():
        check_known(name, declared, "parameter", f"world {source!r}: ")
        if isinstance(declared[name], dict):
            chosen[name] = {**declared[name], "default": value}
    return {**raw, "parameters": chosen}
