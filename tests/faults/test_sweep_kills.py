"""`kill -9` at some fifty random moments of a sweep, spread over all of it.

As `test_kills`, but the driver and its two workers die together, as when a machine does; what
happens when only one of them dies is in tests/cli/test_sweep.py. EQUIVOCAL_KILL_SEED draws other
moments.
"""

import random
import subprocess
import sys
import time

import pytest

from tests.faults.conftest import ENVIRONMENT, Tiny, names
from tests.faults.damage import killed_at
from tests.faults.test_kills import KILLED, SEED
from tests.study.test_sweep import left_behind, written

KILLS, IN_ONE_FOLDER = 50, 12
SWEEP = """
study = "study.toml"
[vary]
training.seed = [0, 1]
inference.seed = [0, 1, 2]
"""
RESULTS = "results/*.json"


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
    return time.monotonic() - began


@pytest.mark.slow
def test_fifty_kills_change_nothing_of_a_sweep(tiny: Tiny) -> None:
    (tiny.folder / "sweep.toml").write_text(SWEEP)
    run(tiny, "compiled")  # so that the next takes as long as any
    whole = run(tiny, "undisturbed")
    expected = tiny.folder / "undisturbed"
    rng = random.Random(SEED)
    came: list[int] = []
    while len(came) < KILLS:
        out = tiny.folder / f"after_{len(came)}_kills"
        for _ in range(IN_ONE_FOLDER):
            seconds = rng.uniform(0, whole)
            code, said = killed_at(command(out.name), seconds, cwd=tiny.folder, env=ENVIRONMENT)
            assert code in (0, KILLED), said
            if code == 0:
                break
            came.append(len(list(out.glob(RESULTS))))
        run(tiny, out.name)
        assert written(out) == written(expected), out.name
        assert names(out) == names(expected), out.name
        assert left_behind(out) == []
    print(f"seed {SEED}; {len(came)} kills, after so many results: {sorted(came)}")  # noqa: T201
    assert len(set(came)) >= 4  # in the middle of this and of that
