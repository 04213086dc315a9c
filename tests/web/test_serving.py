"""`equivocal serve` as a process: its second process, and the end of both."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from equivocal.web.serving import bind_socket, choose_workers
from tests.needs import needs
from tests.web.test_api import get


@pytest.fixture(autouse=True)
def _linux() -> None:
    needs("linux")  # elsewhere one process answers


@pytest.fixture
def served() -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server of two processes, and its address."""
    command = [sys.executable, "-m", "equivocal", "serve", "--port", "0", "--workers", "2"]
    with subprocess.Popen(
        [*command, "--world", "paper"], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
        assert found
        wait_until(lambda: len(list_helpers(process.pid)) == 1)
        yield process, found[0]
        process.kill()


def list_helpers(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in children.split()]


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within five seconds")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_two_processes_answer_and_end_together(
    served: tuple["subprocess.Popen[str]", str], ending: signal.Signals
) -> None:
    process, address = served
    (helper,) = list_helpers(process.pid)
    texts = [f"during dinner, the {noun} eats the pizza" for noun in ("man", "woman", "boy") * 8]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: get(address, "/api/comprehend", sentence=text), texts))
    assert [status for status, _, _ in answers] == [200] * len(texts)
    assert [body["sentence"] for _, body, _ in answers] == texts
    for stopped in (process.pid, helper):  # then the other takes what is new
        os.kill(stopped, signal.SIGSTOP)
        try:
            assert get(address, "/api/comprehend", sentence="the man")[0] == 200
        finally:
            os.kill(stopped, signal.SIGCONT)
    os.kill(process.pid, ending)  # the original alone, as `kill` does
    process.wait(timeout=10)
    wait_until(lambda: not is_running(helper))
    port = int(address.rpartition(":")[2])
    bind_socket("127.0.0.1", port).close()  # the port is free again


def test_one_process_where_forking_is_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    assert choose_workers() == min(2, len(os.sched_getaffinity(0)))
    assert choose_workers(5) == 5
    monkeypatch.setitem(sys.modules, "jax", sys)
    assert choose_workers(5) == 1
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr("sys.platform", "darwin")
    assert choose_workers() == 1
