"""`kill -9` at fifty random moments of a sweep, spread over all of it.

As `test_kills`, but the driver and its two workers die together, as when a machine does; what
happens when only one of them dies is in tests/cli/test_sweep.py.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import ENVIRONMENT, Tiny, names
from tests.faults.damage import kill_spread, number_of_files
from tests.faults.test_kills import SEED
from tests.study.test_sweep import left_behind, written

SWEEPS, KILLS = 4, 13  # kills of each; the four run side by side where there are workers for it
SWEEP = """
study = "study.toml"
[vary]
training.seed = [0, 1]
inference.seed = [0, 1]
"""


def command(out: str) -> list[str]:
    program = [sys.executable, "-m", "equivocal", "sweep"]
    return [*program, "sweep.toml", "--workers", "2", "--out", out]


def run(tiny: Tiny, out: str) -> float:
    """To the end; seconds it took."""
    began = time.monotonic()
    done = subprocess.run(
        command(out),
        cwd=tiny.folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
    assert "mismatch" not in done.stderr
    return time.monotonic() - began


@pytest.fixture(scope="session")
def undisturbed_sweep(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A folder with a sweep that nothing happened to, and the seconds that its start takes."""

    def make(folder: Path) -> None:
        tiny = Tiny(folder)
        (folder / "sweep.toml").write_text(SWEEP)
        run(tiny, "out")
        (folder / "start").write_text(str(run(tiny, "out")))  # all is there

    return made_once("undisturbed-sweep", make)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(SWEEPS))
def test_fifty_kills_change_nothing_of_a_sweep(
    number: int, undisturbed_sweep: Path, tiny: Tiny
) -> None:
    (tiny.folder / "sweep.toml").write_text(SWEEP)
    expected, start = undisturbed_sweep / "out", float((undisturbed_sweep / "start").read_text())
    total = number_of_files(expected)
    rng = random.Random(f"{SEED} {number}")
    came: list[int] = []
    while len(came) < KILLS:  # again in a new folder where some came after the end of a sweep
        out = tiny.folder / f"after_{len(came)}_kills"
        came += kill_spread(
            command(out.name),
            out,
            kills=KILLS - len(came),
            total=total,
            start=start,
            rng=rng,
            env=ENVIRONMENT,
        )
        run(tiny, out.name)
        assert written(out) == written(expected), out.name
        assert names(out) == names(expected), out.name
        assert left_behind(out) == []
    print(f"seed {SEED}; {len(came)} kills, after so many files: {sorted(came)}")  # noqa: T201
    assert len(set(came)) >= 3  # in the middle of this and of that
