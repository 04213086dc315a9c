"""`kill -9` at fifty random moments of a small reproduction, spread over all of it.

Runs into four folders are killed again and again; what was done by then is not done again. At the
end every table and every answer is that of the undisturbed run, to the last bit, and nothing else
is in the folder. EQUIVOCAL_KILL_SEED draws other moments; EQUIVOCAL_KILL_FOLDERS sets the number of
folders, here and in `test_sweep_kills`: continuous integration takes two.
"""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.conftest import Tiny, names, results
from tests.faults.damage import kill_spread, number_of_files
from tests.faults.warm import WarmStart

SEED = int(os.environ.get("EQUIVOCAL_KILL_SEED", "0"))
FOLDERS = int(os.environ.get("EQUIVOCAL_KILL_FOLDERS", "4"))
KILLS = 13  # of each folder; a few may come too late, after a run has ended


@pytest.fixture(scope="session")
def seconds_to_start(
    undisturbed: Path, warm: WarmStart, made_once: Callable[[str, Callable[[Path], None]], Path]
) -> float:
    """How long a run takes that finds all results."""

    def make(folder: Path) -> None:
        shutil.copytree(undisturbed, folder / "out")
        code, said, seconds = warm.run(Tiny(folder).arguments("out"), cwd=folder)
        assert (code, "figures and report are up to date" in said) == (0, True), said
        (folder / "start").write_text(str(seconds))

    return float((made_once("measured", make) / "start").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(FOLDERS))
def test_fifty_kills_change_nothing(
    number: int, undisturbed: Path, seconds_to_start: float, tiny: Tiny, warm: WarmStart
) -> None:
    out = tiny.folder / f"out{number}"
    came = kill_spread(
        warm,
        tiny.arguments(out.name),
        out,
        kills=KILLS,
        total=number_of_files(undisturbed),
        start=seconds_to_start,
        rng=random.Random(f"{SEED} {out.name}"),
    )
    print(f"seed {SEED}; {len(came)} kills, after so many files: {came}")  # noqa: T201
    code, said, _ = warm.run(tiny.arguments(out.name), cwd=tiny.folder)
    assert code == 0, said
    assert "checksum mismatch" not in said
    found, expected = results(out), results(undisturbed)
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    assert names(out) == names(undisturbed)
    assert len(came) >= 0.8 * KILLS
    assert len(set(came)) >= 3  # in the middle of this and of that
