"""Who runs the points of a grid: this process, workers of this machine, a cluster."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.commands import fails
from tests.multiverse.test_multiverse import write_grid

from equivocal.multiverse.run import run_multiverse
from equivocal.multiverse.tasks import call_checked
from lastlayer.errors import UserError

GRID = """
study = "study.toml"
[factorial]
weight_decay = [1e-4, 0.01]
num_steps = [3, 6]
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    run_multiverse(write_grid(folder, GRID), folder / "out")
    return folder


def read_effects(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "tables" / "multiverse.csv").select_dtypes(float)


@pytest.mark.longer
def test_workers_give_the_same_numbers_and_leave_nothing(alone: Path) -> None:
    run_multiverse(alone / "grid.toml", alone / "workers", workers=2)
    np.testing.assert_allclose(
        read_effects(alone / "workers"), read_effects(alone / "out"), rtol=1e-3
    )
    assert not [path for path in (alone / "workers").rglob("*") if path.name.startswith(".")]


@contextmanager
def start(*command: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    whole = [sys.executable, "-m", "dask", *command]
    process = subprocess.Popen(whole, stderr=subprocess.PIPE, text=True, cwd=cwd)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(process: subprocess.Popen[str], pattern: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"no {pattern}")


@pytest.mark.longer
def test_a_cluster_gives_the_same_numbers(alone: Path, tmp_path: Path) -> None:
    scheduler = ("scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1")
    with start(*scheduler, cwd=tmp_path) as process:
        address = wait_for(process, r"Scheduler at: *(tcp://\S+)")
        worker = ("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        with start(*worker, cwd=tmp_path):
            run_multiverse(alone / "grid.toml", alone / "cluster", scheduler=address)
    np.testing.assert_allclose(
        read_effects(alone / "cluster"), read_effects(alone / "out"), rtol=1e-3
    )


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path) -> None:
    write_grid(tmp_path, GRID)
    command = ("multiverse", "--grid", "grid.toml", "--scheduler", "tcp://127.0.0.1:9")
    said = fails(*command, cwd=tmp_path)
    assert said.startswith("no Dask scheduler answers at 'tcp://127.0.0.1:9' (")
    assert "give one of them" in fails(*command, "--workers", "2", cwd=tmp_path)


def test_a_worker_with_other_code_is_refused() -> None:
    with pytest.raises(UserError, match="another version of equivocal"):
        call_checked("another", bool)
