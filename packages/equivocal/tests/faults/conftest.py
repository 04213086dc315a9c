"""A tiny study for the faults to come, and places that are too small or cannot be written to."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from equivocal.world import read_example
from needs import needs
from tests.paper.test_running import STIMULI, STUDY

SMALLER = {"networks = 2": "networks = 1", "= 400": "= 100", "epochs = 30": "epochs = 2"}
ENVIRONMENT = os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "JAX_PLATFORMS": "cpu"}
# whatever does not say how long something took
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
    def reproduce(out: Path | str) -> list[str]:
        """Return the command, to be run in the folder."""
        options = ["--study", "study.toml", "--out", str(out)]
        return [sys.executable, "-m", "equivocal", "reproduce", *options]

    def run(self, out: Path | str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, whichever that is."""
        return subprocess.run(
            self.reproduce(out),
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def kill_when(command: list[str], is_time: Callable[[], bool], cwd: Path) -> tuple[int, str]:
    """Start a command and kill its group once something is true, unless it has ended by then.

    Returns the exit status and what was printed on standard error.
    """
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT, text=True, start_new_session=True, **pipes
    )
    while process.poll() is None and not is_time():
        time.sleep(0.01)
    with suppress(ProcessLookupError):  # it ended just now
        os.killpg(process.pid, 9)
    _, printed = process.communicate(timeout=300)
    return process.returncode, printed


def names(folder: Path) -> set[str]:
    """Return every file of a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def results(folder: Path) -> dict[str, bytes]:
    """Return what must be the same however often a run was disturbed."""
    files = (path for pattern in COMPARED for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)


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
