"""Disks that are full or cannot be written to: a small tmpfs, mounted for the test.

Who may not mount runs the same tests in a namespace of their own, where that is permitted.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from equivocal.store.files import write_text_atomically
from lastlayer.errors import UserError
from lastlayer.files import write_atomically
from needs import needs
from tests.cli.commands import fails
from tests.faults.conftest import Mount, Tiny, names, results

NOISE = np.random.default_rng(0).random(20_000)  # 160 KB that do not compress


def _save(folder: Path) -> None:
    with write_atomically(folder / "file") as temporary:
        save_file({"a": NOISE}, temporary)


def test_a_full_disk_is_one_sentence_and_leaves_nothing(mount: Mount) -> None:
    place = mount("size=64k")
    with pytest.raises(UserError, match="No space left on device; make room, or choose another"):
        _save(place)
    assert not names(place)
    mount("size=16m")
    _save(place)
    assert names(place)


def test_a_folder_that_cannot_be_written_to_is_one_sentence(mount: Mount) -> None:
    place = mount("size=1m")
    write_text_atomically(place / "settings.toml", "")
    mount("ro")
    for command in ("train", "reproduce"):
        printed = fails(command, "--out", place)
        assert printed == f"cannot write to {place}: Read-only file system; choose another place."
    assert names(place) == {"settings.toml"}


@pytest.mark.longer
def test_a_run_on_a_disk_that_fills_up_goes_on_once_there_is_room(
    undisturbed: Path, tiny: Tiny, mount: Mount
) -> None:
    whole = results(undisturbed)
    for size in ("40k", "600k"):
        place = mount(f"size={size}")
        done = tiny.run(place)
        assert done.returncode == 2, done.stderr
        (complaint,) = [line for line in done.stderr.splitlines() if "error: " in line]
        assert complaint.endswith("No space left on device; make room, or choose another place.")
        assert "Traceback" not in done.stderr
        assert {name: whole[name] for name in results(place)} == results(place)
    mount("size=64m")
    done = tiny.run(place)
    assert done.returncode == 0, done.stderr
    assert results(place) == whole


def test_in_a_namespace_of_its_own() -> None:
    needs("no mounting")
    needs("namespaces")
    command = f"unshare --map-root-user --mount {sys.executable} -m pytest -q {__file__}"
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " 1 skipped" in done.stdout  # this one
