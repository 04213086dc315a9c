"""`equivocal reproduce` in real processes, on a small study in a small world."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from equivocal.paper.settings import load_study
from equivocal.store import Store
from equivocal.world import read_example
from tests.cli.commands import COMMAND, fails
from tests.faults.conftest import kill_when, names, results
from tests.paper.test_running import STIMULI, STUDY

pytestmark = pytest.mark.longer  # whole studies from the command line

EXPECTED = ["report.html", "activations.nc", "settings.toml", "tables", "figures"]
ENVIRONMENT = os.environ | {"COLUMNS": "120", "NO_COLOR": "1", "JAX_PLATFORMS": "cpu"}


def reproduce(folder: Path, out: str) -> list[str]:
    return [*COMMAND, "reproduce", "--study", str(folder / "study.toml"), "--out", out]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the study and, in `one`, what a single command made of it."""
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "study.toml").write_text(STUDY.replace("epochs = 30", "epochs = 3"))
    (folder / "garden.csv").write_text(STIMULI)
    (folder / "garden.toml").write_text(read_example())
    done = subprocess.run(
        reproduce(folder, "one"),
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the report is one/report.html" in done.stdout
    return folder


def test_one_command_writes_everything(finished: Path) -> None:
    for name in EXPECTED:
        assert (finished / "one" / name).exists(), name
    figures = {path.suffix for path in (finished / "one" / "figures").iterdir()}
    assert figures == {".svg", ".png"}
    page = (finished / "one" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"']https?:", page)
    assert "Study “garden”" in page
    assert not pd.read_csv(finished / "one" / "tables" / "paired_models.csv").empty
    assert load_study(finished / "one" / "settings.toml").name == "garden"


def is_drawn(folder: Path) -> bool:
    """Whether figures and report are there, made from the files that are there."""
    return Store(folder).find("report", warn=False) is not None


def test_a_second_run_makes_nothing_and_a_lost_figure_is_drawn_again(finished: Path) -> None:
    command = reproduce(finished, "one")
    again = subprocess.run(
        command, cwd=finished, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert "figures and report are up to date" in again.stderr
    assert is_drawn(finished / "one")
    figure = finished / "one" / "figures" / "tau.png"
    whole = figure.read_bytes()
    figure.unlink()
    assert not is_drawn(finished / "one")
    figure.write_bytes(whole)
    assert is_drawn(finished / "one")


def test_a_run_killed_three_times_ends_with_the_same_numbers(finished: Path) -> None:
    """While networks are saved, while posteriors are sampled, and before the tables."""
    out = finished / "two"
    first = out / "posteriors" / "paper_0.1" / "00.safetensors"
    command = reproduce(finished, "two")
    for there in (out / "run.toml", first, out / "activations.nc"):
        code, said = kill_when(command, there.exists, finished)
        assert code == -9, said
        assert not (out / "report.html").exists()
    made = first.stat().st_mtime_ns
    (out / ".left.csv.0123abcd.tmp").touch()  # as a kill within a thousandth of a second would
    subprocess.run(command, cwd=finished, env=ENVIRONMENT, check=True, timeout=300)
    assert first.stat().st_mtime_ns == made  # used again, not made again
    one, two = (results(finished / folder) for folder in ("one", "two"))
    assert two.keys() == one.keys()
    assert [name for name in one if one[name] != two[name]] == []
    assert names(out) == names(finished / "one")


def test_a_new_study_is_ready_to_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "equivocal", "study", "new", "mine.toml"]
    result = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert "equivocal reproduce --study mine.toml --out runs/mine" in result.stdout
    assert load_study(tmp_path / "mine.toml").name == "mine"
    assert "exists already" in fails("study", "new", "mine.toml", cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "papper"], "unknown preset 'papper': did you mean 'paper'?"),
        (["--set", "nuts.draw=3"], "unknown setting 'nuts.draw': did you mean 'draws'?"),
        (["--networks", "0"], "Invalid value for '--networks'"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    assert message in fails("reproduce", *arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out" / "networks").exists()
