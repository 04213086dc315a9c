"""World files that build on a world of the package: `extends = "paper"`.

Tables are merged, entry by entry. Anything else (text, numbers, lists, the [[constructions]])
takes the place of what the extended file has. A world that is kept with a run must not depend on a
file that may change, so it is written out as a whole, by `format_world`.
"""

import json
import re
from typing import Any

__all__ = ["format_world", "merge_tables"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def merge_tables(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Merge the tables of a file into those of the file that it extends."""
    merged = dict(base)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge_tables(base[key], value) if both else value
    return merged


def format_world(raw: dict[str, Any]) -> str:
    """Format a world file as TOML, its tables in their order, on which fingerprints depend.

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
