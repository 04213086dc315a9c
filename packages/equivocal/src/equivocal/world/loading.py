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
from equivocal.world.schema import ParameterSpec, ParameterTable, Scope, WorldFile, parse_number
from lastlayer.errors import UserError, check_known, did_you_mean, join_names

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_VALUES = re.compile(r":[^:=/\\]+=[^:]*\Z")  # at the end of a name
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DATA = resources.files("equivocal.world") / "data"
_EXAMPLE = "example"  # written by `equivocal world new`; not a world to study
HIDDEN = ("roles", "then")  # fields of the schema that are not written in the file
TOML_HINTS = {  # part of the parser's message: hint
    "overwrite": "; a name may stand only once in a table",
    "Invalid value": "; often a word lacks its quotes",
}
MAX_BYTES = 64 * 2**20  # a world of 100,000 words has about 16 MB


def merge_tables(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Merge the tables of a file into those of the file that it extends."""
    merged = dict(base)
    for key, value in own.items():
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
    if not isinstance(name_or_path, str | Path):
        raise UserError(f"a world is given by name or path, got {name_or_path!r}.")
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
    """Validate the tables of a world file with values of its parameters; names are not checked.

    Returns
    -------
    WorldFile
        The content.
    dict
        The tables with these values as defaults; `raw` itself where none is given.
    set of str
        Parameters that nothing uses.
    """
    try:
        specs = ParameterTable.model_validate(raw).parameters
        raw = put_values(raw, specs, given, source)
        scope = Scope({name: parse_number(raw["parameters"][name]["default"]) for name in specs})
        file = WorldFile.model_validate(raw, context=scope)
    except ValidationError as error:
        raise WorldError(source, [_explain(entry) for entry in _list_mistakes(error)]) from None
    return file, raw, specs.keys() - scope.used


def parse_whole_world(text: str, source: str) -> dict[str, Any]:
    """Parse the tables of a world file, merged with those of the world that it extends."""
    return _extend(_parse_tables(text, source), source)


def _parse_tables(text: str, source: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        hint = next((hint for said, hint in TOML_HINTS.items() if said in str(error)), "")
        raise WorldError(source, [Problem("is not TOML", f"{error}{hint}.")]) from None


def _extend(raw: dict[str, Any], source: str) -> dict[str, Any]:
    """Merge a file with the world of the package that it extends, if it does."""
    own = dict(raw)
    base, shipped = own.pop("extends", None), list_shipped_worlds()
    if base is None:
        return raw
    if base not in shipped:
        hint = did_you_mean(str(base), shipped) or f"; there are {join_names(shipped)}."
        message = f"there is no world {base!r:.60} in the package{hint}"
        raise WorldError(source, [Problem("extends", message)])
    return merge_tables(parse_whole_world(read_world(base)[0], base), own)


def _list_mistakes(error: ValidationError) -> "list[ErrorDetails]":
    """List the mistakes, except lists that pydantic calls too short because an entry is wrong."""
    found = error.errors()
    above = {entry["loc"][:length] for entry in found for length in range(len(entry["loc"]))}
    return [entry for entry in found if entry["type"] != "too_short" or entry["loc"] not in above]


def _explain(error: "ErrorDetails") -> Problem:
    """Turn an error of pydantic into a problem with its table."""
    *place, last = error["loc"]
    named = error["type"] in ("extra_forbidden", "missing")
    message = explain_mistake(error, WorldFile, "key", str(last) if named else "")
    if named and place and last in WorldFile.model_fields:
        message = f"unknown key {last!r}; it belongs at the top of the file, above the first table."
    if error["loc"] == ("constructions",) and not named:  # a table, or an empty list
        rule = "write each construction under [[constructions]], with two brackets"
        message = f"{rule}, got {error['input']!r:.60}."
    return Problem(_name_table(place if named else [*place, last]), message)


def _name_table(place: list[Any]) -> str:
    """Turn ("actions", "eat", "roles", "patient", 0, "then") into "[actions.eat] patient"."""
    names = [str(part) for part in place if not isinstance(part, int) and part != "[key]"]
    if names[:1] == ["actions"] and len(names) > 2:
        return " ".join([f"[actions.{names[1]}]", *(n for n in names[2:] if n not in HIDDEN)])
    if names[:1] == ["constructions"] and len(place) > 1:
        return " ".join(["[[constructions]]", f"number {int(place[1]) + 1}", *names[1:]])
    return f"[{'.'.join(names)}]" if names else ""


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
    found = _VALUES.search(name)
    cut = found.start() if found else len(name)
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


def put_values(
    raw: dict[str, Any], specs: Mapping[str, ParameterSpec], given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Replace defaults of a file by values that the caller chose.

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
