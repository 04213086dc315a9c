"""Two runs into one folder, in real processes: one works, the other is told who does."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from equivocal.store.locks import hold_folder
from lastlayer.errors import UserError
from tests.cli.commands import fails

HOLD = """
import sys, time
from pathlib import Path
from equivocal.store.locks import hold_folder
with hold_folder(Path("out")):
    print("held", flush=True)
    sys.stdin.read()
"""
# Each turn makes a file that must not be there yet, which shows whether two were in at once.
RACE = """
import os
from pathlib import Path
from lastlayer.errors import UserError
from equivocal.store.locks import hold_folder
done = 0
while done < 25:
    try:
        with hold_folder(Path("out")):
            os.close(os.open("inside", os.O_CREAT | os.O_EXCL))
            os.unlink("inside")
            done += 1
    except UserError as error:
        assert "is in use by" in str(error)
"""


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder `out`, until its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "a name; of its own"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_the_second_is_told_who_the_first_is_and_a_kill_frees_the_folder(tmp_path: Path) -> None:
    with holding(tmp_path) as process:
        with (
            pytest.raises(UserError, match="wait until that has ended, stop it, or") as told,
            hold_folder(tmp_path / "out"),
        ):
            pass
        who = rf"out is in use by process {process.pid} on {re.escape(os.uname().nodename)} \("
        assert re.search(
            who + r"`-c 'a name; of its own'`, since 20\d\d-\d\d-\d\d", str(told.value)
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
        with hold_folder(tmp_path / "out"):
            assert str(os.getpid()) in (tmp_path / "out" / ".equivocal.json").read_text()
    assert list((tmp_path / "out").iterdir()) == []


def test_every_command_that_writes_says_so_and_exits_with_2(tmp_path: Path) -> None:
    with holding(tmp_path):
        (tmp_path / "out" / "settings.toml").touch()
        for command in (["train"], ["reproduce"], ["multiverse"], ["doubt", "--quick"]):
            assert "out is in use by process" in fails(*command, "--out", tmp_path / "out")


def test_never_two_at_once(tmp_path: Path) -> None:
    """Four processes take turns a hundred times, though each removes the file it had locked."""
    command = [sys.executable, "-c", RACE]
    processes = [
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert list((tmp_path / "out").iterdir()) == []
