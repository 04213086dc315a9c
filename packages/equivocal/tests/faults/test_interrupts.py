"""Ctrl-C and `kill`, sent to real processes at many moments: one line, an exit code, no traceback.

A moment counts from when the command line listens for signals, which /proc tells; before that, for
some hundredths of a second, Python itself is being started.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from needs import needs
from tests.cli.commands import COMMAND
from tests.faults.conftest import ENVIRONMENT, Tiny, names, results

LISTENING = 1 << (signal.SIGTERM - 1)
RESUMED = (
    "interrupted; finished results are kept, and the same command continues from there; "
    "an unfinished training starts over."
)


@pytest.fixture(autouse=True)
def _linux() -> None:
    needs("linux")  # for its /proc


def stopped_at(
    command: list[str], moment: float, *, cwd: Path, number: int = signal.SIGINT
) -> tuple[int, str]:
    """Exit code and standard error of a command that gets a signal at a moment."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    status = Path(f"/proc/{process.pid}/status")
    while not int(status.read_text().split("SigCgt:")[1].split()[0], 16) & LISTENING:
        time.sleep(0.002)
    time.sleep(moment)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


# Imports of our own, of JAX and pandas; then the training begins.
@pytest.mark.parametrize("moment", [0.0, 0.5])
def test_a_command_that_does_not_resume_says_that_nothing_is_left(
    moment: float, tmp_path: Path
) -> None:
    train = [*COMMAND, "train", "--sentences", "1000", "--out", "out"]
    code, said = stopped_at(train, moment, cwd=tmp_path)
    assert code == 130  # on busy cores training may have begun, and said so
    assert said.splitlines()[-1] == "interrupted; no partial results are left behind."
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists() or not names(tmp_path / "out")


def test_a_signal_after_the_work_is_done_changes_nothing() -> None:
    """Libraries take a while to shut down after Python itself; here one waits for its input."""
    code = (
        "import ctypes, sys; from equivocal.cli import main; c = ctypes.CDLL(None)\n"
        "c.__cxa_atexit(c.getchar, None, None)\nsys.argv = ['equivocal', '--version']\nmain()"
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, text=True, **pipes)
    assert process.stdout is not None
    process.stdout.readline()  # the version: the work is done
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


def list_processes(session: int) -> list[int]:
    """List the running processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(own) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.longer
@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_workers_end_with_their_command_and_the_next_one_goes_on(
    number: int, expected: int, undisturbed: Path, tiny: Tiny
) -> None:
    command = [*tiny.reproduce("out"), "--workers", "2"]
    errors, out = tiny.folder / "stderr", tiny.folder / "out"
    with errors.open("w") as file:
        process = subprocess.Popen(
            command, cwd=tiny.folder, env=ENVIRONMENT, stderr=file, start_new_session=True
        )
    while not list(out.glob("posteriors/*/*.safetensors")):
        assert process.poll() is None, errors.read_text()
        time.sleep(0.01)
    assert len(list_processes(process.pid)) >= 3  # the command and its workers
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    assert process.wait(60) == expected
    until = time.monotonic() + 20
    while list_processes(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list_processes(process.pid)
    if number == signal.SIGINT:
        assert errors.read_text().splitlines()[-1] == RESUMED
        assert "Traceback" not in errors.read_text()
        assert names(out) <= names(undisturbed)
    assert results(out).keys() < results(undisturbed).keys()
    done = tiny.run("out")
    assert done.returncode == 0, done.stderr
    assert results(out) == results(undisturbed)
