"""Disks that are full or cannot be written to: a small tmpfs, mounted for the test.

Who may not mount runs the same tests in a namespace of their own, where that is permitted.
"""

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from safetensors.numpy import save_file

from equivocal.figure_style import save_figure
from lastlayer.errors import UserError
from lastlayer.files import write_atomically, write_text_atomically
from needs import needs
from tests.cli.commands import fails
from tests.faults.conftest import Mount, Tiny, names, results
from tests.faults.warm import WarmStart

NOISE = np.random.default_rng(0).random(20_000)  # 160 KB that do not compress


def _figure(path: Path) -> None:
    figure = Figure(figsize=(9, 9), dpi=300)
    figure.subplots().imshow(NOISE.reshape(100, 200))
    save_figure(figure, path, "figure")


def _through(write: Callable[[Path], object]) -> Callable[[Path], None]:
    def writer(folder: Path) -> None:
        with write_atomically(folder / "file") as temporary:
            write(temporary)

    return writer


WRITERS: dict[str, Callable[[Path], None]] = {
    "text": lambda folder: write_text_atomically(folder / "file", "x" * 200_000),
    "safetensors": _through(lambda path: save_file({"a": NOISE}, path)),
    "netcdf": _through(
        lambda path: xr.Dataset({"a": ("x", NOISE)}).to_netcdf(path, engine="scipy")
    ),
    "gzip": _through(lambda path: path.write_bytes(gzip.compress(NOISE.tobytes()))),
    "figure": _figure,
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    writer: Callable[[Path], None], mount: Mount
) -> None:
    place = mount("size=64k")
    with pytest.raises(UserError, match="No space left on device; make room, or choose another"):
        writer(place)
    assert not names(place)
    mount("size=16m")
    writer(place)
    assert names(place)


def test_a_folder_that_cannot_be_written_to_is_one_sentence(mount: Mount, tmp_path: Path) -> None:
    place = mount("size=1m")
    write_text_atomically(place / "settings.toml", "")
    mount("ro")
    for command in ("train", "reproduce", "infer", "report"):
        said = fails(command, "--out", place)
        assert said == f"cannot write to {place}: Read-only file system; choose another place."
    assert names(place) == {"settings.toml"}


def test_a_disk_that_becomes_read_only_is_one_sentence(mount: Mount) -> None:
    place = mount("size=1m")
    with pytest.raises(UserError, match="cannot write to .*file: Read-only file system"):
        _through(lambda path: (mount("ro"), path.write_text("lost")))(place)


@pytest.mark.slow
def test_a_run_on_a_disk_that_fills_up_goes_on_once_there_is_room(
    undisturbed: Path, tiny: Tiny, warm: WarmStart, mount: Mount
) -> None:
    whole = results(undisturbed)
    stops = []
    for size in ("16k", "40k", "420k", "600k", "2m"):
        place = mount(f"size={size}")
        code, said, _ = warm.run(tiny.arguments(place), cwd=tiny.folder)
        assert code == 2, said
        (complaint,) = [line for line in said.splitlines() if "error: " in line]
        assert complaint.endswith("No space left on device; make room, or choose another place.")
        assert "Traceback" not in said
        stops.append(complaint.split()[4])
        assert {name: whole[name] for name in results(place)} == results(place)
        assert names(place) <= names(undisturbed)
    assert len(set(stops)) >= 4, stops
    mount("size=64m")
    code, said, _ = warm.run(tiny.arguments(place), cwd=tiny.folder)
    assert code == 0, said
    assert results(place) == whole
    assert names(place) == names(undisturbed)


def test_in_a_namespace_of_its_own() -> None:
    needs("no mounting")
    needs("namespaces")
    command = f"unshare --map-root-user --mount {sys.executable} -m pytest -q {__file__}"
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " 1 skipped" in done.stdout  # this one
