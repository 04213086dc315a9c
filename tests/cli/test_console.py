"""Progress: a line for each stage once something takes long, silence for what is quick."""

import pytest

from equivocal.progress import progress, run_in_stages


def test_long_work_reports_each_stage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = {"sentences": lambda: None, "questions": lambda: None}
    monkeypatch.setattr("equivocal.progress.QUIET_SECONDS", 0.0)
    run_in_stages("enumerating the world", stages)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "enumerating the world: 1/2, sentences"
    assert lines[-1] == "enumerating the world: 2/2, questions"


def test_quick_work_reports_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("blinking") as advance:
        advance(1, 1, "done")
    assert capsys.readouterr().err == ""
