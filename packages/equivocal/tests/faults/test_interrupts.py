"""Ctrl-C and `kill`, sent to real processes at many moments: one line, an exit code, no traceback.

A moment counts from when the command line listens for signals, which /proc tells; before that, for
some hundredths of a second, Python itself is being started.
"""

import inspect
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from equivocal.store.files import ensure_writable, write_text_atomically
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


def interrupted_at(step: int, call: Callable[[], None]) -> bool:
    """Whether a call was still running, and so was interrupted, at one of its steps.

    A signal is raised where Python next looks for one, so at each of these in turn: whenever a line
    begins, or a call comes back, in our code or in a library's that it calls.
    """
    left = step

    def trace(frame: FrameType, event: str, arg: object) -> object:
        nonlocal left
        # Python looks for no signal as a generator yields: its `finally` would be lost
        left -= event != "return" or not frame.f_code.co_flags & inspect.CO_GENERATOR
        if left == 0:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


# A file that was being opened or closed is closed when Python forgets it, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_step_of_writing_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "out" / "told.txt"

    def write() -> None:
        ensure_writable(path.parent)
        write_text_atomically(path, "all of it")

    step = 1
    while interrupted_at(step, write):
        assert not path.parent.exists() or names(path.parent) <= {"told.txt"}, step
        assert not path.exists() or path.read_text() == "all of it"
        shutil.rmtree(path.parent, ignore_errors=True)
        step += 1
    assert step > 100
    assert names(path.parent) == {"told.txt"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_work_is_done_changes_nothing(number: int) -> None:
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
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")


def test_a_plain_kill_is_as_clean(tiny: Tiny) -> None:
    code, said = stopped_at(tiny.reproduce("out"), 0.3, cwd=tiny.folder, number=signal.SIGTERM)
    assert code == 143
    assert said.splitlines()[-1] == RESUMED


@pytest.mark.longer
def test_a_study_is_stopped_again_and_again_and_ends_the_same(
    undisturbed: Path, tiny: Tiny
) -> None:
    for moment in (1.5, 5.0):
        code, said = stopped_at(tiny.reproduce("out"), moment, cwd=tiny.folder)
        if code == 0 and moment > 5:  # a fast machine was done
            break
        assert code == 130
        assert said.splitlines()[-1] == RESUMED
        assert "Traceback" not in said
        assert "Exception" not in said
        assert names(tiny.folder / "out") <= names(undisturbed)
    done = tiny.run("out")
    assert done.returncode == 0, done.stderr
    assert results(tiny.folder / "out") == results(undisturbed)


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
