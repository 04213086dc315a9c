"""`kill -9` at fifty random moments of a sweep, spread over all of it.

As `test_kills`, but the driver and its two workers die together, as when a machine does; what
happens when only one of them dies is in tests/cli/test_sweep.py.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import ENVIRONMENT, names
from tests.faults.damage import kill_spread, number_of_files
from tests.faults.test_kills import FOLDERS, KILLS, SEED
from tests.faults.warm import WarmStart
from tests.multiverse.test_sweep import STUDY, left_behind, write_sweep, written

SWEEP = """
study = "study.toml"
[vary]
training.seed = [0, 1]
inference.seed = [0, 1]
"""


def write_small_sweep(folder: Path) -> None:
    write_sweep(folder, SWEEP)
    (folder / "study.toml").write_text(STUDY.replace("networks = 2", "networks = 1", 1))


def arguments(out: str) -> list[str]:
    return ["sweep", "sweep.toml", "--workers", "2", "--out", out]


def resume(warm: WarmStart, folder: Path, out: str) -> float:
    """Run a sweep to its end, and return the seconds it took."""
    code, said, seconds = warm.run(arguments(out), cwd=folder)
    assert code == 0, said
    assert "damaged" not in said
    assert "mismatch" not in said
    return seconds


@pytest.fixture(scope="session")
def undisturbed_sweep(
    warm: WarmStart, made_once: Callable[[str, Callable[[Path], None]], Path]
) -> Path:
    """A folder with a sweep that nothing happened to, and the seconds that its start takes."""

    def make(folder: Path) -> None:
        write_small_sweep(folder)
        command = [sys.executable, "-m", "equivocal", *arguments("out")]
        subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, timeout=300)
        (folder / "start").write_text(str(resume(warm, folder, "out")))  # all is there

    return made_once("undisturbed-sweep", make)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FOLDERS))
def test_fifty_kills_change_nothing_of_a_sweep(
    number: int, undisturbed_sweep: Path, warm: WarmStart, tmp_path: Path
) -> None:
    write_small_sweep(tmp_path)
    expected, start = undisturbed_sweep / "out", float((undisturbed_sweep / "start").read_text())
    total = number_of_files(expected)
    rng = random.Random(f"{SEED} {number}")
    came: list[int] = []
    while len(came) < KILLS:  # again in a new folder where some came after the end of a sweep
        out = tmp_path / f"after_{len(came)}_kills"
        came += kill_spread(
            warm,
            arguments(out.name),
            out,
            kills=KILLS - len(came),
            total=total,
            start=start,
            rng=rng,
        )
        resume(warm, tmp_path, out.name)
        assert written(out) == written(expected), out.name
        assert names(out) == names(expected), out.name
        assert left_behind(out) == []
    print(f"seed {SEED}; {len(came)} kills, after so many files: {sorted(came)}")  # noqa: T201
    assert len(set(came)) >= 3  # in the middle of this and of that
