"""Lines, goals, the table and the file of a report of made-up numbers."""

import io
import json
import math

import numpy as np
import pytest
from benchmarks.sampler import BenchSettings, Findings, Goal, Line, Report
from benchmarks.sampler.report import format_value
from rich.console import Console

FASTER, CLOSE = Goal(least=500), Goal(most=0.02, of="ours")


def report_of(*lines: Line, judged: bool = True, **details: object) -> Report:
    settings = BenchSettings() if judged else BenchSettings.quick()
    return Report(
        settings=settings,
        source="made-up rows",
        machine={"cpu": "abacus", "commit": "unknown", "versions": {"python": "3"}},
        sections={"nuts": Findings(lines=list(lines), details=details)},
        seconds=1.0,
    )


def text_of(report: Report) -> str:
    text = io.StringIO()
    Console(width=140, file=text).print(report.table())
    return text.getvalue()


@pytest.mark.parametrize(
    ("line", "judged", "verdict"),
    [
        (Line(what="a", ours=1.0, theirs=600.0, ratio=600.0, goal=FASTER), True, "met"),
        (Line(what="a", ours=1.0, theirs=499.0, ratio=499.0, goal=FASTER), True, "missed"),
        (Line(what="a", ours=1.0, theirs=499.0, ratio=499.0, goal=FASTER), False, "not judged"),
        (Line(what="a", ours=0.02, goal=CLOSE), True, "met"),
        (Line(what="a", ours=math.nan, goal=CLOSE), True, "missed"),
        (Line(what="a", ours=3.0, goal=Goal(most=1, of="ours", at_any_size=True)), False, "missed"),
        (Line(what="a", ours=1.0, theirs=2.0, ratio=2.0), True, ""),
        (Line(what="a", goal=FASTER, note="needs an abacus"), True, "skipped"),
    ],
)
def test_a_line_is_judged_by_its_goal(line: Line, judged: bool, verdict: str) -> None:
    assert line.verdict(judged=judged) == verdict


def test_table_shows_every_line_with_its_goal_and_verdict() -> None:
    lines = [
        Line(what="NUTS", ours=0.5, theirs=1000.0, ratio=2000.0, goal=FASTER),
        Line(what="difference", ours=0.03, unit="", goal=CLOSE),
        Line(what="other", note="needs NumPyro: pip install 'equivocal[nuts]'"),
    ]
    rows = [row for row in text_of(report_of(*lines)).splitlines() if row.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert cells[0] == ["NUTS", "500 ms", "1,000 s", "2,000×", "≥ 500×", "met"]
    assert cells[1] == ["difference", "0.03", "", "", "≤ 0.02", "missed"]
    assert cells[2][0] == "other: needs NumPyro: pip install 'equivocal[nuts]'"
    assert cells[2][1:] == ["", "", "", "", "skipped"]


def test_small_runs_say_that_they_are_not_judged() -> None:
    line = Line(what="NUTS", ours=0.5, theirs=1.0, ratio=2.0, goal=FASTER)
    assert "goals of speed are not judged" in text_of(report_of(line, judged=False))
    assert "not judged" not in text_of(report_of(line))


def test_json_is_strict_and_holds_settings_machine_and_verdicts() -> None:
    line = Line(what="NUTS", ours=0.5, theirs=math.inf, ratio=math.inf, goal=FASTER)
    report = report_of(line, times=np.array([1.0, np.nan]), most=np.float32(0.5), sizes=(1, 2))

    def no_constants(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    content = json.loads(report.to_json(), parse_constant=no_constants)
    assert content["format"] == "equivocal-bench-1"
    assert content["machine"]["cpu"] == "abacus"
    assert content["settings"]["rows"] == 10_000
    assert content["settings"]["linear_rows"] == [1_000, 10_000, 100_000]
    section = content["sections"]["nuts"]
    assert section["details"] == {"times": [1.0, None], "most": 0.5, "sizes": [1, 2]}
    assert section["lines"][0]["ratio"] is None
    assert section["lines"][0]["verdict"] == "met"
    assert section["lines"][0]["goal"]["text"] == "≥ 500×"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 s"),
        (12.345, "s", "12.3 s"),
        (3.2e-8, "s", "32 ns"),
        (4e-12, "s", "0.004 ns"),
        (0.25, "MiB", "0.25 MiB"),
        (1.05, "", "1.05"),
        (math.nan, "", "nan"),
    ],
)
def test_numbers_get_a_unit_that_suits_their_size(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text
