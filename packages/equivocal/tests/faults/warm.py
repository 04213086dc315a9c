"""Starts commands from a process that has imported everything, so that tests need not wait for it.

A command is a process of its own, forked before JAX has started any thread. It runs the same `main`
in a process group of its own, and a signal finds it as it finds any other process. Only imports,
which read and write nothing of a run, cannot be interrupted so; `test_interrupts` does that.
"""

import importlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, cast

__all__ = ["LONGEST", "WarmStart"]

LONGEST = 300.0  # seconds until a command that is waited for counts as hung
# What `reproduce` and `sweep` import, now or later
IMPORTED = (
    *("equivocal.cli.app", "equivocal.multiverse.run", "equivocal.paper.report"),
    *("distributed", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
)


class WarmStart:
    """Starts commands of equivocal, one at a time; environment variables hold for all of them."""

    def __init__(self, env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", __name__]
        # no buffers, so that `select` sees all that can be read
        self._server = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, bufsize=0)
        self._requests = cast(IO[bytes], self._server.stdin)
        self._answers = cast(IO[bytes], self._server.stdout)
        self.pid = 0
        self._code: int | None = None

    def start(self, arguments: list[str], *, cwd: Path, stderr: Path) -> None:
        """Start `equivocal ARGUMENTS`; what it says on standard error goes to a file."""
        request = json.dumps([arguments, str(cwd), str(stderr)])
        self._requests.write(request.encode() + b"\n")
        self.pid, self._code = int(self._answers.readline()), None

    def poll(self, seconds: float = 0.0) -> int | None:
        """Return the exit status, below zero if by a signal; None if it runs for so long yet."""
        if self._code is None and select.select([self._answers], [], [], seconds)[0]:
            self._code = int(self._answers.readline())
        return self._code

    def wait(self) -> int:
        """Wait until the command ends, and return its exit status."""
        code = self.poll(LONGEST)
        assert code is not None, "the command hangs"
        return code

    def run(self, arguments: list[str], *, cwd: Path) -> tuple[int, str, float]:
        """Run a command to its end; return exit status, standard error and seconds."""
        began, errors = time.monotonic(), cwd / "stderr"
        self.start(arguments, cwd=cwd, stderr=errors)
        return self.wait(), errors.read_text(), time.monotonic() - began

    def close(self) -> None:
        """End the process that starts commands."""
        self._requests.close()
        self._server.wait()
        self._answers.close()


def _become(arguments: list[str], cwd: str, stderr: str) -> None:
    """Turn this process into the command."""
    os.setpgid(0, 0)
    os.chdir(cwd)
    for number, name in enumerate((os.devnull, os.devnull, stderr)):
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["equivocal", *arguments]
    from equivocal.cli import main

    main()


def _serve() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            _become(*json.loads(line))
        os.setpgid(pid, pid)  # here too: who is told of the group may signal it at once
        os.write(1, b"%d\n" % pid)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    _serve()
