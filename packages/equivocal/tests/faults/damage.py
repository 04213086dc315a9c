"""Faults that tests do to real files and processes."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.faults.warm import LONGEST, WarmStart

__all__ = ["cut", "flip", "kill_spread", "killed_at", "number_of_files"]

LATER = 0.5  # seconds after a file is there within which a command is killed
KILLED = -signal.SIGKILL


def flip(path: Path, at: float = 0.5) -> None:
    """One bit of a file, so far into it."""
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    """The second half of a file is lost."""
    os.truncate(path, path.stat().st_size // 2)


def killed_at(
    command: list[str],
    moment: float | Callable[[], bool],
    *,
    cwd: Path,
    env: dict[str, str] | None = None,
    number: int = signal.SIGKILL,
) -> tuple[int, str]:
    """Start a command and send it a signal at a moment, unless it has ended by then.

    The moment is a number of seconds, or whenever something is true. Returns the exit status (below
    zero: by a signal) and what was said on standard error. The command leads a group of its own,
    and the whole group gets the signal, as from a terminal.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _signal_at(process, moment, number)
    _, said = process.communicate(timeout=LONGEST)
    return process.returncode, said


def _signal_at(
    process: "subprocess.Popen[str] | WarmStart", moment: float | Callable[[], bool], number: int
) -> None:
    """Send the group of a process a signal at a moment, unless it has ended by then."""
    began = time.monotonic()

    def is_time() -> bool:
        passed = time.monotonic() - began
        if passed > LONGEST or callable(moment):
            return passed > LONGEST or moment()
        return passed >= moment

    while process.poll() is None and not is_time():
        time.sleep(0.01)
    if process.poll() is None:
        with suppress(ProcessLookupError):  # it ended just now
            os.killpg(process.pid, number)


def kill_spread(
    warm: WarmStart,
    arguments: list[str],
    folder: Path,
    *,
    kills: int,
    total: int,
    start: float,
    rng: random.Random,
) -> list[int]:
    """Kill `equivocal ARGUMENTS`, writing to a folder, at moments spread over all that it does.

    Moments are counted in files of the `total` that are there, and then a little later, so that
    they mean the same on a busy machine and every run gets further than the one before; where as
    many are there from the start, the command is killed within the seconds of its start. Returns
    the number of files there at each kill; a command may end before its moment comes.
    """
    came = []
    for files in sorted(rng.randrange(total) for _ in range(kills)):
        later = rng.uniform(0, start if number_of_files(folder) >= files else LATER)
        moment = seconds_after(folder, files, later)
        errors = folder.with_suffix(".stderr")
        warm.start(arguments, cwd=folder.parent, stderr=errors)
        _signal_at(warm, moment, signal.SIGKILL)
        code = warm.wait()
        assert code in (0, KILLED), errors.read_text()
        if code == KILLED:
            came.append(number_of_files(folder))
    return came


def seconds_after(folder: Path, files: int, later: float) -> Callable[[], bool]:
    """Whether it is so many seconds since the folder had so many files."""
    since: list[float] = []

    def is_time() -> bool:
        if not since and number_of_files(folder) >= files:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= later

    return is_time


def number_of_files(folder: Path) -> int:
    """Those that will stay; hidden files come and go, and a figure's two files count as one."""
    found = (path for pattern in ("*.csv", "[!.]*/**/*") for path in folder.glob(pattern))
    return sum(path.name[0] != "." and path.suffix != ".svg" and path.is_file() for path in found)
