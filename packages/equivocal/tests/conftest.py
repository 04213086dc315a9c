"""Worlds and small trained runs that many tests share; each is made once per session.

Run-time shape checks (jaxtyping with beartype, see `pyproject.toml`) hold for every test.
"""

import gc
import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import jax
import pytest

from equivocal.network import Run, TrainingSettings, train
from equivocal.world import World, read_example
from needs import needs, summarize_skips

# Jobs in the background of a script are started deaf to Ctrl-C, and what they start would be too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# One shape for all small trainings, so that JAX compiles them once.
SMALL = TrainingSettings(
    networks=2,
    sentences=400,
    epochs=30,
    steps=20,
    questions=64,
    learning_rate=0.02,
    hidden=20,
    gestalt=20,
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was skipped, by reason; and write the tests to the file EQUIVOCAL_SKIPPED."""
    reports = terminalreporter.stats.get("skipped", [])
    skipped = {report.nodeid: report.longrepr[2].removeprefix("Skipped: ") for report in reports}
    if skipped:
        terminalreporter.write_line(summarize_skips(skipped.values()))
    if file := os.environ.get("EQUIVOCAL_SKIPPED"):
        lines = (f"{test}\t{reason}\n" for test, reason in skipped.items())
        Path(file).write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch, or a skip where it is not installed."""
    needs("torch")
    return importlib.import_module("torch")


@pytest.fixture(scope="session")
def paper() -> World:
    return World.load("paper")


@pytest.fixture(scope="session")
def sg2018() -> World:
    return World.load("sg2018")


@pytest.fixture(scope="session")
def garden() -> World:
    """The example world that `equivocal world new` writes."""
    return World.from_toml(read_example(), "garden.toml")


@pytest.fixture(scope="session")
def small_run(garden: World) -> Run:
    """Two small networks trained in the example world."""
    return train(garden, SMALL)


@pytest.fixture(scope="session")
def made_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Callable[[Path], None]], Path]:
    """A folder that one test worker fills and the others wait for."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own  # else it outlives the run

    def fill(name: str, make: Callable[[Path], None]) -> Path:
        folder, finished = shared / name, shared / f"{name}.finished"
        try:
            folder.mkdir()
        except FileExistsError:
            while not finished.exists():
                time.sleep(0.1)
        else:
            try:
                make(folder)
            finally:  # or the others would wait for ever
                finished.touch()
        return folder

    return fill


MOST_MAPS = 30_000  # of 65,530 that Linux grants a process


@pytest.fixture(scope="module", autouse=True)
def _forget_programs() -> Iterator[None]:
    """Drop compiled programs before they use up the memory maps of a worker.

    XLA maps memory for every program on a CPU, and aborts the process once the system grants no
    more maps. Programs that are needed again are read from the cache on disk.
    """
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
