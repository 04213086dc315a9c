"""`equivocal sweep` as a user runs it: killed, interrupted, resumed, and on a running cluster."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.cli.commands import fails
from tests.multiverse.test_sweep import left_behind, times, workers_of, write_sweep, written

COMMAND = [sys.executable, "-m", "equivocal", "sweep"]
SWEEP = """
study = "study.toml"
[vary]
training.seed = [0, 1]
inference.seed = [0, 1, 2]
"""


def run(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


def started(*arguments: str, cwd: Path) -> "subprocess.Popen[str]":
    """In a process group of its own, as a shell starts it."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*COMMAND, *arguments], **pipes, text=True, cwd=cwd, start_new_session=True
    )


def wait_until(true: Callable[[], object], seconds: float = 400) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def results(folder: Path) -> int:
    return len(list((folder / "results").glob("*.json")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a sweep varies something: give --vary training.seed=0,1, or a file."),
        (
            ["my.toml", "--quick"],
            "my.toml says what is varied; leave out --preset, --quick and --vary.",
        ),
    ],
)
def test_command_complains_in_one_sentence(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    assert fails("sweep", *arguments, cwd=tmp_path) == message
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By one worker, from beginning to end."""
    folder = tmp_path_factory.mktemp("sweep")
    write_sweep(folder, SWEEP)
    result = run("sweep.toml", "--workers", "1", "--out", "whole", cwd=folder)
    assert result.returncode == 0, result.stderr
    begin = r"(sweep: (loading|starting), .*\n)*"
    link = r"1 worker; dashboard: http://127\.0\.0\.1:\d+/status\n"
    assert re.fullmatch(begin + link + r"(sweep: \d/6, .*\n)*", result.stderr), result.stderr
    told = "6 points; only the paper's study has claims to judge\nwrote whole/sweep.csv and whole"
    assert result.stdout.startswith(told)
    return folder / "whole"


@pytest.mark.slow
def test_killed_driver_leaves_nothing_and_is_resumed(undisturbed: Path) -> None:
    """Killed after a result, then at two random moments; a last run does what is missing."""
    cwd, out = undisturbed.parent, undisturbed.parent / "killed"
    arguments = ["sweep.toml", "--workers", "2", "--out", out.name]
    rng = random.Random(0)
    for attempt in range(3):
        driver = started(*arguments, cwd=cwd)
        if attempt == 0:
            wait_until(lambda: results(out) >= 1)
        wait_until(lambda pid=driver.pid: workers_of(pid))
        time.sleep(rng.uniform(0, 8))
        if driver.poll() is not None:
            break
        workers = workers_of(driver.pid)
        driver.kill()
        driver.communicate()
        gone, alive = psutil.wait_procs(workers, timeout=10)
        assert not alive, f"workers outlived the driver: {alive}, {gone} did not"
    before = times(out)
    result = run(*arguments, cwd=cwd)
    assert result.returncode == 0, result.stderr
    assert written(out) == written(undisturbed)
    after = times(out)
    assert {name: after[name] for name in before} == before
    assert len(after) == 6
    assert left_behind(out) == []


@pytest.mark.slow
def test_interrupt_is_clean_and_resumable(undisturbed: Path) -> None:
    cwd, out = undisturbed.parent, undisturbed.parent / "interrupted"
    arguments = ["sweep.toml", "--workers", "2", "--out", out.name]
    driver = started(*arguments, cwd=cwd)
    wait_until(lambda: results(out) >= 1)
    workers = workers_of(driver.pid)
    os.killpg(driver.pid, signal.SIGINT)  # Ctrl-C reaches the workers too
    _, told = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "Traceback" not in told
    assert not psutil.wait_procs(workers, timeout=5)[1]
    assert left_behind(out) == []
    assert run(*arguments, cwd=cwd).returncode == 0
    assert written(out) == written(undisturbed)


@contextmanager
def running(*command: str, **more: object) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **more)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def dask_scheduler() -> Iterator[str]:
    command = [sys.executable, "-m", "dask", "scheduler", "--port", "0", "--no-dashboard"]
    with running(*command, "--host", "127.0.0.1") as process:
        assert process.stderr is not None
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, "the scheduler did not start"
            found = re.search(r"Scheduler at: *(tcp://\S+)", line)
        yield found[1]


def dask_worker(address: str, cwd: Path, **more: object):
    """A worker that knows the sweep's folder as little as one on another machine."""
    core = min(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1", "--no-nanny"]
    return running(
        *command,
        *("--no-dashboard", "--local-directory", str(cwd)),
        cwd=cwd,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        **more,
    )


@pytest.mark.slow
def test_running_cluster_does_it_and_may_lose_a_worker(undisturbed: Path, tmp_path: Path) -> None:
    cwd, out = undisturbed.parent, undisturbed.parent / "remote"
    with dask_scheduler() as address, dask_worker(address, tmp_path) as first:
        driver = started("sweep.toml", "--scheduler", address, "--out", out.name, cwd=cwd)
        wait_until(lambda: results(out) >= 1)
        first.kill()
        with dask_worker(address, tmp_path):  # joins late, and does the rest
            _, told = driver.communicate(timeout=300)
    assert driver.returncode == 0, told
    assert told.startswith(f"connected to {address}")
    assert written(out) == written(undisturbed)


@pytest.mark.slow
def test_worker_of_another_version_is_refused(tmp_path: Path) -> None:
    import equivocal

    write_sweep(tmp_path)
    other = tmp_path / "other"
    shutil.copytree(Path(equivocal.__file__).parent, other / "equivocal")
    changed = other / "equivocal" / "errors.py"
    changed.write_text(changed.read_text() + "# changed\n")
    environment = os.environ | {"PYTHONPATH": str(other)}
    with dask_scheduler() as address, dask_worker(address, tmp_path, env=environment) as worker:
        assert worker.stderr is not None
        while "Registered to" not in (line := worker.stderr.readline()):
            assert line, "the worker did not start"
        result = run("sweep.toml", "--scheduler", address, cwd=tmp_path)
    assert result.returncode == 2
    assert "a worker has other files of equivocal" in result.stderr
    assert "install the same on all machines." in result.stderr
