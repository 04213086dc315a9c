"""Keys of saved results: they depend on every file of the package that can change the result."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import equivocal
from equivocal.asking.posteriors import MOMENTS_CODE
from equivocal.doubt.run import DOUBT_CODE
from equivocal.measuring.measurement import SUITE_CODE
from equivocal.paper.stages import PROBE_CODE
from equivocal.store.store import NETWORK_CODE, POSTERIOR_CODE, STUDY_CODE

# the parts of each key, and the modules that make its results
MAKERS = {
    "networks": (NETWORK_CODE, ("gestalt", "gestalt.training", "gestalt.runs")),
    "posteriors": (POSTERIOR_CODE, ("inference", "sampling")),
    "answers": (PROBE_CODE, ("study.activations", "study.comparisons")),
    "points": (STUDY_CODE, ("study.multiverse", "study.readings", "study.stages")),
    "readings": (SUITE_CODE, ("suites.measurement", "suites.reading")),
    "doubt": (DOUBT_CODE, ("uncertainty.answers", "uncertainty.members")),
    "moments": (MOMENTS_CODE, ("asking.posteriors",)),
}
# what changes no number, or has a key of its own: networks that are trained first
OTHERS = {"errors", "progress", "store", "machine", "experiments/networks", "experiments"}


@pytest.mark.parametrize("name", MAKERS)
def test_keys_cover_whatever_the_makers_of_a_result_import(name: str) -> None:
    parts, makers = MAKERS[name]
    graph = grimp.build_graph("equivocal", exclude_type_checking_imports=True, cache_dir=None)
    left, seen = [f"equivocal.{maker}" for maker in makers], set[str]()
    while left:
        module = left.pop()
        place = "/".join(module.split(".")[1:])
        if module not in seen and not OTHERS & {place, place.split("/")[0]}:
            seen.add(module)
            left += graph.find_modules_directly_imported_by(module)
    places = {"/".join(module.split(".")[1:]) for module in seen}
    covered = tuple(part.removesuffix(".py") for part in parts)
    missing = {
        place
        for place in places
        if not any(place == part or place.startswith(f"{part}/") for part in covered)
    }
    assert not missing


def hash_copy(source: Path) -> str:
    """Hash what the points of a grid depend on in a copy of the package."""
    command = "from equivocal.store.store import *; print(hash_code(*STUDY_CODE))"
    place = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.check_output([sys.executable, "-c", command], env=place, text=True)


@pytest.mark.parametrize(
    "name", ["study/record/claims.toml", "study/presets/paper.csv", "metrics/scores.py", "seeds.py"]
)
def test_keys_depend_on_code_and_data(name: str, tmp_path: Path) -> None:
    package = Path(equivocal.__file__).parent
    shutil.copytree(package, tmp_path / "equivocal", ignore=shutil.ignore_patterns("__pycache__"))
    before = hash_copy(tmp_path)
    with (tmp_path / "equivocal" / name).open("a") as file:
        file.write("\n# changed\n")
    assert hash_copy(tmp_path) != before


def test_every_part_of_a_key_exists() -> None:
    root = Path(equivocal.__file__).parent
    for parts, _ in MAKERS.values():
        assert all((root / part).exists() for part in parts)
