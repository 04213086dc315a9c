"""The command line as a newcomer meets it: real commands, real files."""

import contextlib
import csv
import os
import pty
import re
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
from rich.table import Table

from equivocal.console import show_table
from equivocal.network import Network
from tests.cli.commands import COMMAND, fails, run, run_process

TRAIN = ["train", "--world", "garden.toml"]
QUICK = ["--networks", "1", "--sentences", "200", "--epochs", "2"]


# Progress shows after two seconds; programs that are cached or not optimized would be done by then.
UNCACHED = {"JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_DISABLE_MOST_OPTIMIZATIONS": "false"}


def test_a_mistake_ends_a_process_with_exit_code_2() -> None:
    result = run_process("world", "show", "papper")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert "did you mean 'paper'?" in result.stderr


def started(*arguments: object, cwd: Path, **streams: object) -> subprocess.Popen[str]:
    """A process that the test goes on to disturb or to watch."""
    environment = (
        os.environ | {"JAX_PLATFORMS": "cpu", "TERM": "xterm", "COLUMNS": "120"} | UNCACHED
    )
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, text=True, env=environment, **streams)


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a world of one's own and a run in it, made by commands alone."""
    folder = tmp_path_factory.mktemp("cli")
    assert run("world", "new", "garden.toml", cwd=folder).returncode == 0
    result = run(*TRAIN, *QUICK, "--out", "mine", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_world_sample_writes_csv(tmp_path: Path) -> None:
    command = ["world", "sample", "paper", "-n", 500, "--csv", "c.csv"]
    assert run(*command, cwd=tmp_path).returncode == 0
    rows = rows_of(tmp_path / "c.csv")
    assert sum(int(row["count"]) for row in rows) == 500
    assert "exists already" in fails(*command, cwd=tmp_path)
    assert rows_of(tmp_path / "c.csv") == rows


def test_new_world_checks_trains_and_loads(trained: Path) -> None:
    assert "in order" in run("world", "check", "garden.toml", cwd=trained).stdout
    assert "exists already" in fails("world", "new", "garden.toml", cwd=trained)
    network = Network.load(trained / "mine", 0)
    assert network.comprehend("the mouse chases the cat").sizes["word"] == 3


def test_train_reuses_a_finished_run(trained: Path) -> None:
    before = (trained / "mine" / "run.toml").read_bytes()
    again = run(*TRAIN, *QUICK, "--out", "mine", cwd=trained)
    assert again.returncode == 0
    assert "holds this run already" in again.stderr
    assert (trained / "mine" / "run.toml").read_bytes() == before


@pytest.mark.longer
def test_progress_is_a_bar_that_moves_every_two_seconds_on_a_terminal(trained: Path) -> None:
    """A real terminal (pty), read until the process ends; an epoch takes longer than two seconds.

    Only what a reader would see counts: a bar that is drawn again as it was has not moved.
    """
    leader, follower = pty.openpty()
    bar = [*TRAIN, *QUICK, "--set", "steps=4000", "--seed", "2", "--out", "bar"]
    streams = {"stdin": follower, "stdout": follower, "stderr": follower}
    seen: dict[str, float] = {}  # every line, and when it came first
    with started(*bar, cwd=trained, **streams) as process:
        os.close(follower)
        with contextlib.suppress(OSError):  # how a pty says that the other side has closed
            while piece := os.read(leader, 65536):
                text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", piece.decode(errors="replace"))
                for line in re.split(r"[\r\n]+", text):
                    seen.setdefault(line.strip(), time.monotonic())
    os.close(leader)
    assert process.returncode == 0
    drawn = [line for line in seen if "training 1 network" in line]
    moved = [seen[line] for line in drawn]
    assert moved[-1] - moved[0] > 4
    # with a bar that only epochs move, the longest wait is all of the first epoch
    assert max(after - before for before, after in pairwise(moved)) < 2
    clock = r"(\d:\d\d:\d\d|-:--:--)"
    layout = rf". {clock} [━╸╺]{{20}} {clock} training 1 network: (compiling|[12]/2, .*)"
    assert [line for line in drawn if not re.fullmatch(layout, line)] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["world", "new", "world"], "ends in .toml"),
        (["world", "smple", "paper"], "No such command 'smple'"),
        (
            ["train", "--networks", "two"],
            "value for '--networks': 'two' is wrong: input should be a valid integer",
        ),
        (["train", "--nets", "3"], "No such option"),
        (["train", "--out", "/proc/nowhere"], "cannot write to /proc/nowhere"),
        (["train", "--set", "hiden=5"], "unknown setting 'hiden': did you mean 'hidden'?"),
        (["train", "--networks", "1", "--set", "networks=2"], "networks is given twice"),
    ],
)
def test_mistakes_get_one_sentence_and_exit_code_2(arguments: list[str], message: str) -> None:
    assert message in fails(*arguments)


def test_a_table_is_as_wide_as_its_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = Table()
    for head in "abcdefgh":
        shown.add_column(head)
    shown.add_row(*["-3.825e-113"] * 8)
    show_table(shown)
    assert capsys.readouterr().out.count("-3.825e-113") == 8
