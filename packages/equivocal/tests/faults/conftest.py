"""A tiny study for the faults to come, and places that are too small or cannot be written to."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from equivocal.world import read_example
from needs import needs
from tests.faults.warm import WarmStart
from tests.paper.test_running import STIMULI, STUDY

SMALLER = {"networks = 2": "networks = 1", "= 400": "= 100", "epochs = 30": "epochs = 2"}
ENVIRONMENT = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "JAX_PLATFORMS": "cpu"}
# Whatever is not drawn or told, and does not say how long something took
COMPARED = ("*.nc", "*.csv", "*.csv.gz", "tables/*.csv", "networks/*", "figures/*")


class Tiny:
    """A study of one network that learns next to nothing; `reproduce` makes all of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        text = STUDY
        for old, new in SMALLER.items():
            text = text.replace(old, new, 1)
        (folder / "study.toml").write_text(text)
        (folder / "garden.csv").write_text(STIMULI)
        (folder / "garden.toml").write_text(read_example())

    @staticmethod
    def arguments(out: Path | str) -> list[str]:
        """Those of the command `equivocal`, to be run in the folder."""
        return ["reproduce", "--study", "study.toml", "--out", str(out)]

    def reproduce(self, out: Path | str) -> list[str]:
        """The whole command."""
        return [sys.executable, "-m", "equivocal", *self.arguments(out)]

    def run(self, out: Path | str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The command run to its end, whichever that is."""
        return subprocess.run(
            self.reproduce(out),
            cwd=self.folder,
            env=ENVIRONMENT | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def names(folder: Path) -> set[str]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def results(folder: Path) -> dict[str, bytes]:
    """What must be the same however often a run was disturbed."""
    files = (path for pattern in COMPARED for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmStart]:
    """Starts commands that have imported everything already."""
    starting = WarmStart(ENVIRONMENT)
    yield starting
    starting.close()


@pytest.fixture(scope="session")
def undisturbed(made_once: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """What the tiny study comes to when nothing happens to it; one worker makes it for all."""

    def make(folder: Path) -> None:
        done = Tiny(folder).run("out")
        assert done.returncode == 0, done.stderr

    return made_once("undisturbed", make) / "out"


Mount = Callable[[str], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a tmpfs with the options that are given; again with others to change it.

    Only root may. Others run these tests in a namespace of their own; see `test_disk`.
    """
    needs("mounting")
    place = tmp_path / "mounted"
    place.mkdir()

    def mounted(options: str) -> Path:
        again = "remount," if place.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return place

    yield mounted
    if place.is_mount():
        subprocess.run(["umount", str(place)], check=True)
