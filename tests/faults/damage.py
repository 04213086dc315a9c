"""Faults that tests do to real files and processes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["cut", "flip", "killed_at"]

LONGEST = 300.0  # seconds until a command that is waited for counts as hung


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
    of_work: bool = False,
) -> tuple[int, str]:
    """Start a command and send it a signal at a moment, unless it has ended by then.

    The moment is a number of seconds (`of_work`: of processor time, which means the same on a busy
    machine), or whenever something is true. Returns the exit status (below zero: by a signal) and
    what was said on standard error. The command leads a group of its own, and the whole group gets
    the signal, as from a terminal.
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
    began = time.monotonic()

    def is_time() -> bool:
        passed = time.monotonic() - began
        if passed > LONGEST or callable(moment):
            return passed > LONGEST or moment()
        return (worked(process.pid) if of_work else passed) >= moment

    while process.poll() is None and not is_time():
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, number)
    _, said = process.communicate(timeout=LONGEST)
    return process.returncode, said


def worked(process: int) -> float:
    """Seconds of processor time that a process has used so far."""
    text = Path(f"/proc/{process}/stat").read_text()
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
