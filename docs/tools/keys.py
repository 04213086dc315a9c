"""Tables of keys for the reference, read from the code: fields with their defaults and comments.

A field's comment stands behind it or in the lines above it.
"""

import ast
import io
import tokenize
from pathlib import Path
from typing import NamedTuple

from equivocal.measuring.measures import MEASURES
from equivocal.network.settings import RECIPES

__all__ = ["Field", "describe_measures", "describe_settings", "describe_world_file", "read_fields"]

SOURCE = Path(__file__).resolve().parents[2] / "packages" / "equivocal" / "src" / "equivocal"
TABLES = {  # of a world file: the class that reads it
    "The file": "WorldFile",
    "[parameters]": "ParameterSpec",
    "[verbs.VERB]": "VerbForms",
    "[actions.NAME]": "ActionSpec",
    "Rules of a role": "Rule",
    "[[constructions]]": "ConstructionSpec",
    "[noise.NAME]": "NoiseSpec",
}


class Field(NamedTuple):
    """One field of a class, as its source says."""

    name: str
    default: str  # empty where it is required
    comment: str


def read_fields(path: Path, name: str) -> list[Field]:
    """Read the fields of a class."""
    text = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}
    lines = text.splitlines()
    (found,) = (n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name)
    fields = []
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said, line = [comments.get(node.end_lineno or 0, "")], node.lineno - 1
            while lines[line - 1].strip().startswith("#"):
                said.insert(0, comments[line])
                line -= 1
            default = ast.unparse(node.value) if node.value else ""
            fields.append(Field(node.target.id, default, " ".join(said).strip()))
    return fields


def describe_world_file() -> str:
    """Return the page of every key of a world file."""
    path = SOURCE / "world" / "schema.py"
    text = "# World file\n\nEvery key, as `equivocal.world.schema` reads it. "
    text += "Required keys have no default.\n"
    for title, name in TABLES.items():
        rows = [
            (f"`{f.name}`", f"`{f.default}`" if f.default else "", f.comment)
            for f in read_fields(path, name)
            if f.name != "roles" or name != "ActionSpec"
        ]
        if name == "ActionSpec":
            said = "its fillers: a word, class, group or distribution by name, a list of words and "
            said += "classes (equally likely), a table of probabilities, or rules"
            rows.append(("any role", "the events have no such role", said))
        text += f"\n## {title}\n\n{_tabulate(('key', 'default', 'what it is'), rows)}"
    return text


def describe_settings() -> str:
    """Return the page of all settings of training, by recipe."""
    rows = [
        (f"`{f.name}`", *(f"`{RECIPES[recipe].get(f.name, recipe)}`" for recipe in RECIPES), said)
        for f in read_fields(SOURCE / "network" / "settings.py", "TrainingSettings")
        for said in [f.comment]
    ]
    text = "# Settings of training\n\n`equivocal train --set name=value`, or by name in Python. "
    text += "Where the values come from is said in [recipes](../explanations/maths.md#recipes).\n\n"
    return text + _tabulate(("setting", *RECIPES, "what it is"), rows)


def describe_measures() -> str:
    """Return the page of the columns of a table of words."""
    rows = [
        (f"`{name}`", each.title, each.meaning, each.signal, "world" * each.exact)
        for name, each in MEASURES.items()
    ]
    heads = ("column", "title", "meaning", "linked with", "exactly from")
    return f"# Measures\n\nColumns of `words.csv`, at each word.\n\n{_tabulate(heads, rows)}"


def _tabulate(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [
        " | ".join(cell.replace("|", r"\|") for cell in row)
        for row in (heads, ("---",) * len(heads), *rows)
    ]
    return "".join(f"| {line} |\n" for line in lines)
