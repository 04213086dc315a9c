"""Equation numbers cited in docstrings are those of docs/maths.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
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


def test_the_table_of_places_names_every_equation_and_real_functions() -> None:
    text = (ROOT / "docs/maths.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\(\d.*?) \| (.*?) \| `([\w/]+\.py)` \|$", text, flags=re.MULTILINE)
    listed = [int(n) for equations, *_ in rows for n in re.findall(r"\d+", equations)]
    assert sorted(listed) == NUMBERS
    for _, functions, file in rows:
        source = (ROOT / "src/equivocal/sampling" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", functions):
            assert re.search(rf"def {name}\(", source), (name, file)


def test_lines_that_compute_an_equation_are_marked() -> None:
    source = (ROOT / "src/equivocal/sampling/samplers/dropout_deterministic.py").read_text("utf-8")
    assert {int(n) for n in re.findall(r"maths \((\d+)\)", source)} == {9, 10, 11, 12, 13}
