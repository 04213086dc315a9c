"""Progress: a line for each stage once something takes long, silence for what is quick."""

import pytest

from equivocal import progress
from equivocal.cli import worlds


def test_long_commands_say_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)  # as if everything took long
    worlds.show("paper")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "working out the world: 1/3, sentences"
    assert lines[-1] == "working out the world: 3/3, questions"


def test_quick_commands_say_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("blinking") as advance:
        advance(1, 1, "done")
    assert capsys.readouterr().err == ""
