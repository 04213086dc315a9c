"""`equivocal world …` with values of parameters behind the name."""

from pathlib import Path

import pytest

from equivocal.network import Run
from tests.cli.commands import fails, run
from tests.cli.test_cli import QUICK


def test_show_lists_parameters_with_value_range_and_description() -> None:
    text = run("world", "show", "slips:rare=0.05").stdout
    rows = [line.split() for line in text.splitlines()]
    (rare,) = (row for row in rows if row[:1] == ["rare"])
    assert rare[1:6] == ["0.05", "0", "to", "0.2", "how"]
    assert "parameters" not in run("world", "show", "paper").stdout


@pytest.mark.parametrize("command", [["world", "check"], ["train", "--out", "x", "--world"]])
def test_wrong_values_are_one_sentence(command: list[str], tmp_path: Path) -> None:
    message = fails(*command, "slips:rrae=0.1", cwd=tmp_path)
    assert message == "world 'slips': unknown parameter 'rrae': did you mean 'rare'?"
    assert not list(tmp_path.iterdir())


def test_a_trained_run_keeps_the_values_of_its_world(tmp_path: Path) -> None:
    result = run("train", "--world", "slips:rare=0.03", *QUICK, "--out", "mine", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    world = Run.load(tmp_path / "mine").world
    assert world.parameters == {"rare": 0.03, "slip": 0.02}
    again = fails("train", "--world", "slips:rare=0.04", *QUICK, "--out", "mine", cwd=tmp_path)
    assert "another world 'slips' or version of it" in again


def test_a_table_becomes_a_world_and_is_never_written_over(tmp_path: Path) -> None:
    rows = "agent,action,patient,frequency\ndoctor,treat,patient,3\npatient,call,nurse,1\n"
    (tmp_path / "events.csv").write_text(rows)
    command = ["world", "from-table", "events.csv", "--passive", "--out", "mine.toml"]
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 events, 4 sentences" in done.stdout
    assert "in order" in run("world", "check", "mine.toml", cwd=tmp_path).stdout
    assert "exists already" in fails(*command, cwd=tmp_path)
    (tmp_path / "events.csv").write_text(rows.replace(",3", ",0"))
    message = fails(*command[:-1], "other.toml", cwd=tmp_path)
    assert "events.csv row 2, column frequency" in message
    assert not (tmp_path / "other.toml").exists()
