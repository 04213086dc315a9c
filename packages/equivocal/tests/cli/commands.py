"""Run commands in tests: in this process, or in one of their own where a test needs that.

A process takes seconds to start, to import JAX and to trace its programs anew.
"""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from equivocal import cli

COMMAND = [sys.executable, "-m", "equivocal"]
LOOK = {"COLUMNS": "160", "NO_COLOR": "1"}
Done = subprocess.CompletedProcess[str]


def run(*arguments: object, cwd: Path | None = None, **variables: str) -> Done:
    """Run a command in this process."""
    given = [COMMAND[-1], *map(str, arguments)]
    with (
        contextlib.chdir(cwd or "."),
        contextlib.redirect_stdout(io.StringIO()) as printed,
        contextlib.redirect_stderr(io.StringIO()) as said,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", given)
        patch.setattr(warnings, "showwarning", warnings.showwarning)  # put back what `run` changes
        for name, value in (LOOK | variables).items():
            patch.setenv(name, value)
        code = cli.run()
    return Done(given, code, printed.getvalue(), said.getvalue())


def run_process(*arguments: object, cwd: Path | None = None, **variables: str) -> Done:
    """Run a command in a process of its own."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | LOOK | {"JAX_PLATFORMS": "cpu"} | variables,
        timeout=300,
        check=False,
    )


def fails(*arguments: object, cwd: Path | None = None) -> str:
    """The one sentence that a user's mistake gets.

    A process of its own says the same: `test_a_mistake_ends_a_process_with_exit_code_2`.
    """
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert not done.stdout
    return done.stderr.removeprefix("error: ").strip()
