"""`kill -9` at fifty random moments of a sweep, spread over all of it.

As `test_kills`, but the driver and its two workers die together, as when a machine does; what
happens when only one of them dies is in tests/cli/test_sweep.py. Moments are counted in files that
are there, and then a little later, so that they mean the same on a busy machine; where as many are
there from the start, the sweep is killed while it starts. EQUIVOCAL_KILL_SEED draws other moments.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import ENVIRONMENT, Tiny, names
from tests.faults.damage import killed_at
from tests.faults.test_kills import KILLED, SEED
from tests.study.test_sweep import left_behind, written

SWEEPS, KILLS = 4, 13  # kills of each; the four run side by side where there are workers for it
LATER = 0.5  # seconds
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


def after(folder: Path, files: int, later: float) -> Callable[[], bool]:
    """Whether it is so many seconds since the folder had so many files."""
    since: list[float] = []

    def is_time() -> bool:
        if not since and number_of_files(folder) >= files:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= later

    return is_time


def number_of_files(folder: Path) -> int:
    """Those that will stay; hidden folders come and go."""
    found = (path for pattern in ("*.csv", "[!.]*/**/*") for path in folder.glob(pattern))
    return sum(path.name[0] != "." and path.is_file() for path in found)


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
        for files in sorted(rng.randrange(total) for _ in range(KILLS - len(came))):
            there = number_of_files(out)
            later = rng.uniform(0, start if there >= files else LATER)
            moment = after(out, files, later)
            code, said = killed_at(command(out.name), moment, cwd=tiny.folder, env=ENVIRONMENT)
            assert code in (0, KILLED), said
            if code == KILLED:
                came.append(number_of_files(out))
        run(tiny, out.name)
        assert written(out) == written(expected), out.name
        assert names(out) == names(expected), out.name
        assert left_behind(out) == []
    print(f"seed {SEED}; {len(came)} kills, after so many files: {sorted(came)}")  # noqa: T201
    assert len(set(came)) >= 3  # in the middle of this and of that
