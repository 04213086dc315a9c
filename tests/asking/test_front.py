"""Finding, making and keeping what answers need, in a real cache folder."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import equivocal
from equivocal.asking import AskSettings, Comprehender, Source
from equivocal.errors import UserError
from equivocal.world import World, example_text
from tests.asking.conftest import TINY


def source(run: Path) -> Source:
    return Source.choose(run=run, network=1, settings=TINY)


def test_what_was_made_is_found_again(garden_mind: Comprehender, saved_run: Path) -> None:
    first = garden_mind.answer("the cat chases").bayes
    file = source(saved_run).folder / "converged_1.safetensors"
    before = file.stat().st_mtime_ns
    np.testing.assert_array_equal(
        Comprehender(source(saved_run)).answer("the cat chases").bayes, first
    )
    assert file.stat().st_mtime_ns == before


def test_other_settings_and_networks_are_other_folders(saved_run: Path, cache: Path) -> None:
    folders = {
        Source.choose(run=saved_run, network=network, settings=settings).folder
        for network in (0, 1)
        for settings in (TINY, AskSettings())
    }
    assert len(folders) == 4
    assert {folder.parent for folder in folders} == {cache}


@pytest.mark.parametrize("damage", ["truncated", "header", "missing", "not a number", "shape"])
def test_damaged_files_are_made_again(
    garden_mind: Comprehender, saved_run: Path, damage: str
) -> None:
    before = garden_mind.answer("the cat chases").bayes
    file = source(saved_run).folder / "converged_1.safetensors"
    whole = file.read_bytes()
    arrays = load_file(file)
    if damage == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "header":
        file.write_bytes(bytes(255 - byte for byte in whole[:64]) + whole[64:])
    elif damage == "missing":
        file.unlink()
    elif damage == "not a number":
        save_file({"particles": arrays["particles"] * np.float32(np.nan)}, file)
    else:
        save_file({"particles": arrays["particles"][:, :3].copy()}, file)
    mended = Comprehender(source(saved_run)).answer("the cat chases").bayes
    assert file.read_bytes() == whole
    np.testing.assert_array_equal(mended, before)


def test_nothing_half_made_is_left_by_a_kill(tmp_path: Path) -> None:
    """Killed while it trains or samples, it starts again and ends with the same answer."""
    (tmp_path / "garden.toml").write_text(example_text())
    code = (
        "import equivocal; print(equivocal.ask('the cat chases', world='garden.toml')"
        ".belief(-1, 'patient', 'mouse').bayes)"
    )
    environment = {"EQUIVOCAL_CACHE": str(tmp_path / "cache")}
    command = {"args": [sys.executable, "-c", code], "cwd": tmp_path}
    options = {"env": os.environ | environment, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(**command, **options, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("cache/*/run/run.toml")) and time.monotonic() < deadline:
        time.sleep(0.05)  # until the network is there and sampling has begun
    process.kill()
    process.wait()
    ends = [
        subprocess.run(**command, **options, stdout=subprocess.PIPE, check=True).stdout
        for _ in range(2)
    ]
    assert ends[0] == ends[1]
    assert float(ends[0]) > 0.5
    names = {path.name for path in tmp_path.glob("cache/*/*")}
    assert names == {"run", "converged_1.safetensors"}


def test_missing_runs_and_double_choices(tmp_path: Path, saved_run: Path) -> None:
    with pytest.raises(UserError, match=r"world\.toml is missing; `equivocal train --out"):
        equivocal.ask("the cat", run=tmp_path)
    with pytest.raises(UserError, match="give a run or a world, not both"):
        equivocal.ask("the cat", run=saved_run, world="paper")
    with pytest.raises(UserError, match=r"networks/07\.safetensors is missing"):
        equivocal.ask("the cat", run=saved_run, network=7)
    with pytest.raises(UserError, match="needs a run"):
        equivocal.ask("the cat", network=1)


def test_a_run_without_its_settings_is_explained(saved_run: Path, tmp_path: Path) -> None:
    shutil.copytree(saved_run, tmp_path / "run")
    (tmp_path / "run" / "run.toml").write_text("training = [")
    with pytest.raises(UserError, match=r"run\.toml cannot be read"):
        equivocal.ask("the cat", run=tmp_path / "run")


def test_unwritable_cache_is_explained(
    garden: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match="choose another place"):
        equivocal.ask("the cat", world=garden)
