"""Keys of saved results: they depend on every file of the packages that can change the result."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

import equivocal
import lastlayer
from equivocal.store.store import NETWORK_CODE, POSTERIOR_CODE

SOURCES = {
    "equivocal": Path(equivocal.__file__).parent,
    "lastlayer": Path(lastlayer.__file__).parent,
}
# modules that change no number, or whose results have a key of their own
OTHERS = {
    f"equivocal/{name}"
    for name in ("errors", "progress", "store", "machine", "workers", "result", "report", "console")
}
OTHERS |= {"equivocal/figure_style", "equivocal"}
OTHERS |= {"lastlayer/errors", "lastlayer/files", "lastlayer/machine"}
# where a key is not defined beside what makes its result
MAKERS = {"equivocal.paper.study.BELIEF_CODE": "equivocal.paper.inference"}


def list_keys() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield the name of each key, its parts, and the module that makes what it names."""
    yield "networks", NETWORK_CODE, "equivocal.network.training"
    yield "posteriors", POSTERIOR_CODE, "equivocal.beliefs"
    for path in sorted(SOURCES["equivocal"].rglob("*.py")):
        place = path.relative_to(SOURCES["equivocal"].parent).with_suffix("").parts
        if place[1] != "store" and "_CODE = (" in path.read_text(encoding="utf-8"):
            module = importlib.import_module(".".join(place))
            for name in [name for name in vars(module) if name.endswith("_CODE")]:
                if f"\n{name} = (" in path.read_text(encoding="utf-8"):
                    key = f"{module.__name__}.{name}"
                    yield key, getattr(module, name), MAKERS.get(key, module.__name__)


@pytest.mark.parametrize(
    ("parts", "maker"), [pytest.param(*rest, id=name) for name, *rest in list_keys()]
)
def test_keys_cover_whatever_the_maker_of_a_result_imports(
    parts: tuple[str, ...], maker: str
) -> None:
    graph = grimp.build_graph(*SOURCES, exclude_type_checking_imports=True, cache_dir=None)
    left, seen = [maker], set[str]()
    while left:
        module = left.pop()
        place = module.replace(".", "/")
        if module not in seen and not {place, "/".join(place.split("/")[:2])} & OTHERS:
            seen.add(module)
            left += graph.find_modules_directly_imported_by(module)
    covered = tuple(part.removesuffix(".py") for part in parts)
    missing = {
        place
        for place in (module.replace(".", "/") for module in seen)
        if not any(place == part or place.startswith(f"{part}/") for part in covered)
    }
    assert not missing


@pytest.mark.parametrize(
    "name", ["equivocal/beliefs.py", "equivocal/world/data/slips.toml", "lastlayer/__init__.py"]
)
def test_keys_depend_on_code_and_data(name: str, tmp_path: Path) -> None:
    for package, folder in SOURCES.items():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, tmp_path / package, ignore=ignored)

    def hash_copy() -> str:
        code = "from equivocal.store.store import *; print(hash_code(*POSTERIOR_CODE))"
        place = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.check_output([sys.executable, "-c", code], env=place, text=True)

    before = hash_copy()
    with (tmp_path / name).open("a") as file:
        file.write("\n# changed\n")
    assert hash_copy() != before
