"""Worker processes: none is left behind, whatever happens to it."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from equivocal.workers import open_workers
from lastlayer.errors import UserError


def warn_of_process() -> int:
    warnings.warn("from afar", RuntimeWarning, stacklevel=1)
    return os.getpid()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_warnings_come_back_and_an_exception_ends_all_workers(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_workers(2, tmp_path) as begin:  # noqa: PT012
        with pytest.warns(RuntimeWarning, match="from afar"):
            process = begin(warn_of_process)()
        assert process != os.getpid()
        begin(time.sleep, 600.0)
        (tmp_path / ".half.csv.0123abcd.tmp").touch()
        raise KeyboardInterrupt
    assert not is_running(process)
    assert not list(tmp_path.iterdir())


def end_as_by_the_system() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_the_system_ends_gives_one_sentence_with_a_way_out(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match="memory.* --workers 1`"),
        open_workers(2, tmp_path) as begin,
    ):
        begin(end_as_by_the_system)()


SENDING = """
import os, subprocess, sys
from pathlib import Path
from equivocal.workers import open_workers

sys.path.insert(0, sys.argv[2])
with open_workers(2, Path(sys.argv[1])) as begin:
    from tests.test_workers import end_while_sending
    wait = begin(end_while_sending, os.getpid())
    assert len(wait()) == 1 << 20
"""


def end_while_sending(parent: int) -> bytes:
    """Return more than a pipe holds, and die while the parent cannot read."""
    os.kill(parent, signal.SIGSTOP)
    later = f"sleep 2; kill -KILL {os.getpid()}; kill -CONT {parent}"
    subprocess.Popen(["sh", "-c", later])
    return bytes(1 << 20)


def test_a_worker_that_ends_while_it_sends_a_large_result_is_not_waited_for(
    tmp_path: Path,
) -> None:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", SENDING, str(tmp_path), str(root)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
    assert not list(tmp_path.iterdir())
