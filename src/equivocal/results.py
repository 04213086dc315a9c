"""What lies in a folder is never replaced unasked.

A command leaves a TOML file in its folder that says which run wrote the rest: `suites.toml`,
`compare.toml`, … The same command with the same settings may write all of it anew. Another command,
or other settings, are refused before any work.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from equivocal.errors import UserError, listed
from equivocal.reading import UnreadableError, parse_toml, read_toml

__all__ = ["refuse_other_commands", "refuse_other_results", "refuse_unknown_files"]

MARKS = {  # a study's folder is one of training as well
    "stages.json": "equivocal reproduce",
    "run.toml": "equivocal train",
    "cross_validation.toml": "equivocal train",
    "multiverse.csv": "equivocal multiverse",
    "sweep.csv": "equivocal sweep",
    "suites.toml": "equivocal suites run",
    "constructions.toml": "equivocal constructions run",
    "doubt.toml": "equivocal doubt",
    "compare.toml": "equivocal compare",
    "truth.toml": "equivocal simulate",
    "power.toml": "equivocal simulate",
}


def refuse_other_commands(path: Path) -> None:
    """Complain if the folder of `path`, one of `MARKS`, holds results of another command."""
    for name, command in MARKS.items():
        if command != MARKS[path.name] and (path.parent / name).exists():
            raise UserError(
                f"{path.parent} holds the results of `{command}` ({name}); choose another --out."
            )


def refuse_other_results(
    path: Path, settings: dict[str, Any], compared: Sequence[str], written: Sequence[str]
) -> None:
    """Complain if results beside `path` are of another command, or of a run with other `settings`.

    `compared` are the settings that make a run another one; `written`: what it writes beside them.
    """
    refuse_other_commands(path)
    if not path.exists():
        return
    *others, last = path.name, *written
    advice = f"choose another --out, or remove {', '.join(others)} and {last} there"
    try:
        found = read_toml(path)
    except UnreadableError as error:
        raise UnreadableError(path, error.reason, advice) from None
    wanted = parse_toml(tomli_w.dumps(settings))  # as it is read back
    changed = [name for key in compared for name in _changed(key, found.get(key), wanted.get(key))]
    if changed:
        told = f"{path.parent} holds the results of another run (other {listed(changed)})"
        raise UserError(f"{told}; {advice}.")


def refuse_unknown_files(path: Path, written: Sequence[str]) -> None:
    """Complain if a file to be `written` is there and no `path` tells that it is of such a run."""
    taken = [name for name in written if (path.parent / name).exists()]
    if taken and not path.exists():
        raise UserError(
            f"{path.parent} holds {listed(taken)}, which would be replaced; choose another --out, "
            "or move it away."
        )


def _changed(name: str, found: Any, wanted: Any) -> Iterator[str]:
    """Names of settings that differ, those in a table as `table.name`."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in dict.fromkeys([*wanted, *found]):
            yield from _changed(f"{name}.{key}", found.get(key), wanted.get(key))
    elif _any_order(found) != _any_order(wanted):
        yield name


def _any_order(value: Any) -> Any:
    """Suites and measures are the same ones in whatever order they were asked for."""
    return set(map(str, value)) if isinstance(value, list) else value
