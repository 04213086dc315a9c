"""Equation numbers cited in docstrings are those of docs/maths.md."""

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = [int(n) for n in re.findall(r"\\tag\{(\d+)\}", (ROOT / "docs/maths.md").read_text())]
CITING = [
    path
    for folder in ("src", "benchmarks", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "docs/maths.md (" in path.read_text(encoding="utf-8")
]


def cited(text: str) -> set[int]:
    """Return numbers cited as "docs/maths.md (7)", or as "docs/maths.md (9) and (12)"."""
    lists = re.findall(r"docs/maths\.md ((?:\(\d+\)(?:, | and )?)+)", text)
    return {int(n) for numbers in lists for n in re.findall(r"\d+", numbers)}


def test_every_equation_has_a_number_in_order() -> None:
    text = (ROOT / "docs/maths.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\$\$$", text, flags=re.MULTILINE)) == 2 * len(NUMBERS)
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS


@pytest.mark.parametrize("path", CITING, ids=lambda path: path.stem)
def test_cited_equations_exist(path: Path) -> None:
    assert cited(path.read_text(encoding="utf-8")) <= set(NUMBERS)


def test_every_sampler_cites_its_equation() -> None:
    """NUTS alone has none: it is NumPyro's."""
    samplers = {path.stem for path in (ROOT / "src/equivocal/sampling/samplers").glob("[!_]*.py")}
    assert samplers - {path.stem for path in CITING} == {"nuts"}


def find_marks(source: str, names: list[str]) -> set[int]:
    """Return the equations marked in the functions, as "maths (9)" or "maths (20), (21)"."""
    lines = source.split("\n")
    parts = [
        "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    lists = re.findall(r"maths (\(\d+\)(?:, which solve|,? \(\d+\))*)", " ".join(parts))
    return {int(n) for numbers in lists for n in re.findall(r"\d+", numbers)}


def test_the_table_of_places_names_every_equation_where_it_is_marked() -> None:
    text = (ROOT / "docs/maths.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\(\d.*?) \| (.*?) \| `([\w/]+\.py)` \|$", text, flags=re.MULTILINE)
    numbers = [[int(n) for n in re.findall(r"\d+", equations)] for equations, *_ in rows]
    assert sorted(chain.from_iterable(numbers)) == NUMBERS
    for listed, (_, functions, file) in zip(numbers, rows, strict=True):
        source = (ROOT / "src/equivocal/sampling" / file).read_text(encoding="utf-8")
        names = re.findall(r"`(\w+)`", functions)
        for name in names:
            assert re.search(rf"def {name}\(", source), (name, file)
        assert set(listed) <= find_marks(source, names), (file, names)
