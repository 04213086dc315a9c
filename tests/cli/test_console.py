"""Progress: a line for each stage once something takes long, silence for what is quick."""

import pytest

from equivocal.progress import progress, run_in_stages


def test_long_work_reports_each_stage(capsys: pytest.CaptureFixture[str]) -> None:
    stages = {"sentences": lambda: None, "questions": lambda: None}
    run_in_stages("enumerating the world", stages, quiet=0.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "enumerating the world: 1/2, sentences"
    assert lines[-1] == "enumerating the world: 2/2, questions"


def test_quick_work_reports_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("blinking") as advance:
        advance(1, 1, "done")
    assert capsys.readouterr().err == ""
