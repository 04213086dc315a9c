"""Equation numbers cited in docstrings are those of docs/explanations/maths.md."""

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "packages/lastlayer/src/lastlayer"
MATHS = (ROOT / "docs/explanations/maths.md").read_text(encoding="utf-8")
NUMBERS = [int(n) for n in re.findall(r"\\tag\{(\d+)\}", MATHS)]
CITING = [
    path
    for folder in ("packages", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "maths.md (" in path.read_text(encoding="utf-8")
]


def test_every_equation_has_a_number_in_order() -> None:
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS


@pytest.mark.parametrize("path", CITING, ids=lambda path: path.stem)
def test_cited_equations_exist(path: Path) -> None:
    """As "maths.md (7)", or as "maths.md (9) and (12)"."""
    text = path.read_text(encoding="utf-8")
    lists = re.findall(r"maths\.md ((?:\(\d+\)(?:, | and )?)+)", text)
    cited = {int(n) for numbers in lists for n in re.findall(r"\d+", numbers)}
    assert cited <= set(NUMBERS)


def test_the_table_of_places_names_every_equation_and_functions_that_exist() -> None:
    rows = re.findall(r"^\| (\(\d.*?) \| (.*?) \| `([\w/]+\.py)` \|$", MATHS, flags=re.MULTILINE)
    numbers = [[int(n) for n in re.findall(r"\d+", equations)] for equations, *_ in rows]
    assert sorted(chain.from_iterable(numbers)) == NUMBERS
    for _, functions, file in rows:
        source = (SOURCE / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", functions):
            assert re.search(rf"def {name}\(", source), (name, file)
