"""`kill -9` at some fifty random moments of a small reproduction, spread over all of it.

Each folder is killed at moments drawn from the whole of an undisturbed run and taken in order, so
that no part of it is spared; what was done by then is not done again. At the end every table and
every answer is that of the undisturbed run, to the last bit, and nothing else is in the folder.

EQUIVOCAL_KILL_SEED draws other moments.
"""

import os
import random
import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.conftest import ENVIRONMENT, Tiny, names, results
from tests.faults.damage import killed_at

SEED = int(os.environ.get("EQUIVOCAL_KILL_SEED", "0"))
FOLDERS, KILLS = 6, 9  # a few may come too late, after a run has ended
AT_ONCE = 2  # folders; half of the time goes into starting Python
KILLED = -9


def stages_done(folder: Path) -> int:
    """How far a run came: networks, posteriors, answers, tables, report."""
    return len(list((folder / "records").rglob("*.json")))


def disturbed(tiny: Tiny, name: str, whole: float, start: float) -> list[int]:
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


def seconds_of_work(tiny: Tiny) -> float:
    """Of processor time, for a run into the folder `again`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert tiny.run("again").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_fifty_kills_change_nothing(undisturbed: Path, tiny: Tiny) -> None:
    whole = seconds_of_work(tiny)  # compiled by now, so it takes as long as any
    start = seconds_of_work(tiny)  # all is there
    print(f"seed {SEED}; a run takes {whole:.1f} s of work, its start {start:.1f} s")  # noqa: T201
    folders = [f"out{number}" for number in range(FOLDERS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(disturbed, tiny, folder, whole, start) for folder in folders]
        came = [far for run in runs for far in run.result()]
    print(f"{len(came)} kills, after so many stages: {sorted(came)}")  # noqa: T201
    expected = results(undisturbed)
    assert results(tiny.folder / "again") == expected
    for folder in folders:
        found = results(tiny.folder / folder)
        assert found.keys() == expected.keys(), folder
        assert [name for name in found if found[name] != expected[name]] == [], folder
        assert names(tiny.folder / folder) == names(undisturbed), folder
    assert len(came) >= 0.8 * FOLDERS * KILLS
    assert len(set(came)) >= 5  # in the middle of this and of that
