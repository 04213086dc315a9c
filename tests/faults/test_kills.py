"""`kill -9` at some fifty random moments of a small reproduction, spread over all of it.

Runs into five folders are killed at moments drawn from the whole of an undisturbed run and taken in
order, so that no part of it is spared; what was done by then is not done again. At the end every
table and every answer is that of the undisturbed run, to the last bit, and nothing else is in the
folder.

EQUIVOCAL_KILL_SEED draws other moments.
"""

import json
import os
import random
import resource
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.conftest import ENVIRONMENT, Tiny, names, results
from tests.faults.damage import killed_at

SEED = int(os.environ.get("EQUIVOCAL_KILL_SEED", "0"))
FOLDERS, KILLS = 5, 11  # a few may come too late, after a run has ended
KILLED = -9


def stages_done(folder: Path) -> int:
    """How far a run came: networks, posteriors, answers, tables, report."""
    return len(list((folder / "records").rglob("*.json")))


def run_disturbed(tiny: Tiny, name: str, whole: float, start: float) -> list[int]:
    """Run into a folder, killed again and again, and at last to the end; how far each came."""
    rng = random.Random(f"{SEED} {name}")
    moments = sorted(rng.uniform(0, whole) for _ in range(KILLS))
    lasting = [moments[0], *(start + later - earlier for earlier, later in pairwise(moments))]
    came = []
    for seconds in lasting:
        code, said = killed_at(
            tiny.reproduce(name), seconds, cwd=tiny.folder, env=ENVIRONMENT, of_work=True
        )
        assert code in (0, KILLED), said
        if code == KILLED:
            came.append(stages_done(tiny.folder / name))
    done = tiny.run(name)
    assert done.returncode == 0, done.stderr
    assert "checksum mismatch" not in done.stderr
    return came


def measure_work(tiny: Tiny) -> float:
    """Seconds of processor time for a run into the folder `out`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert tiny.run("out").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.fixture(scope="session")
def measured(
    undisturbed: Path, made_once: Callable[[str, Callable[[Path], None]], Path]
) -> dict[str, float]:
    """How long a run takes that finds its programs compiled, and one that finds all results."""

    def make(folder: Path) -> None:
        study = Tiny(folder)
        work = {"whole": measure_work(study), "start": measure_work(study)}
        assert results(folder / "out") == results(undisturbed)
        (folder / "work.json").write_text(json.dumps(work))

    return json.loads((made_once("measured", make) / "work.json").read_text())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
@pytest.mark.parametrize("number", range(FOLDERS))
def test_fifty_kills_change_nothing(
    number: int, undisturbed: Path, measured: dict[str, float], tiny: Tiny
) -> None:
    folder = f"out{number}"
    came = run_disturbed(tiny, folder, measured["whole"], measured["start"])
    print(f"seed {SEED}, {measured}: {len(came)} kills, after so many stages: {came}")  # noqa: T201
    found, expected = results(tiny.folder / folder), results(undisturbed)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    assert names(tiny.folder / folder) == names(undisturbed)
    assert len(came) >= 0.8 * KILLS
    assert len(set(came)) >= 3  # in the middle of this and of that
