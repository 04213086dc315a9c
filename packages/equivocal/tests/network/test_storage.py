"""A run on disk: read back unchanged, or refused with a sentence that says why."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from equivocal.network import Network, Run
from equivocal.store import Store
from equivocal.store.folders import NETWORKS, has_run
from equivocal.world import World
from lastlayer.errors import UserError
from tests.conftest import SMALL
from tests.faults.damage import cut, flip

RECORD = "records/networks.json"


@pytest.fixture(scope="module")
def saved(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    small_run.save(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    shutil.copytree(saved, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def unsealed(copy: Path) -> Path:
    """A run without checksums, so that the checks after them can be tested."""
    Store(copy).record(NETWORKS, "", [])
    return copy


def test_equal_runs_are_equal_files(saved: Path, small_run: Run, tmp_path: Path) -> None:
    small_run.save(tmp_path)
    for path in saved.rglob("*"):
        if path.is_file():
            assert (tmp_path / path.relative_to(saved)).read_bytes() == path.read_bytes(), path


def test_a_run_comes_back_whole(saved: Path, small_run: Run) -> None:
    loaded = Run.load(saved)
    assert loaded.settings == small_run.settings
    assert loaded.held_out.texts == small_run.held_out.texts
    pd.testing.assert_frame_equal(loaded.curves, small_run.curves, check_dtype=False, rtol=1e-6)
    pd.testing.assert_frame_equal(loaded.scores, small_run.scores)


@pytest.mark.parametrize(
    ("name", "damage"),
    [("run.toml", cut), ("world.toml", flip), ("networks/01.safetensors", flip)],
)
def test_damage_is_named_by_readers_and_trained_over(
    copy: Path, garden: World, name: str, damage: Callable[[Path], None]
) -> None:
    damage(copy / name)
    before = (copy / name).read_bytes()
    with pytest.raises(UserError, match=rf"{name} (cannot be read|is damaged|is missing or)"):
        Run.load(copy)
    assert (copy / name).read_bytes() == before
    with pytest.warns(match=rf"{name}: checksum mismatch; recomputing"):
        assert Run.find(copy, garden, SMALL) is None


@pytest.mark.parametrize("blocked", ["world.toml", "networks", "curves.csv", "records"])
def test_a_save_that_breaks_off_anywhere_leaves_no_run_and_can_be_made_again(
    small_run: Run, garden: World, tmp_path: Path, blocked: str
) -> None:
    """There is a folder in place of a file to be written, or a file in place of a folder."""
    (tmp_path / blocked).mkdir() if "." in blocked else (tmp_path / blocked).touch()
    with pytest.raises(UserError, match=f"cannot write to .*{blocked}"):
        small_run.save(tmp_path)
    (tmp_path / blocked).rmdir() if "." in blocked else (tmp_path / blocked).unlink()
    assert (tmp_path / "run.toml").exists()
    assert not has_run(tmp_path)
    with pytest.raises(UserError, match=r"is not a complete run .* records/networks\.json"):
        Run.load(tmp_path)
    assert Run.find(tmp_path, garden, SMALL) is None
    small_run.save(tmp_path)
    assert Run.find(tmp_path, garden, SMALL) is not None


def test_a_run_that_other_code_trained_is_trained_again(copy: Path, garden: World) -> None:
    """The key depends on the code; where keys differ, the settings are compared."""
    record = json.loads((copy / RECORD).read_text())
    (copy / RECORD).write_text(json.dumps(record | {"key": "of version 9"}))
    with pytest.raises(UserError, match=r"holds another run \(seed 0\)"):
        Run.find(copy, garden, replace(SMALL, seed=1))
    with pytest.warns(match=r"networks in .* were trained by another version of equivocal"):
        assert Run.find(copy, garden, SMALL) is None
    assert len(Run.load(copy).networks) == 2  # those who only ask it


def test_missing_and_damaged_parts_are_named(unsealed: Path, tmp_path: Path) -> None:
    copy = unsealed
    with pytest.raises(UserError, match="no folder .*nowhere.* no complete run; .*train --out"):
        Network.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds networks 0 to 1; there is no 2"):
        Network.load(copy, 2)
    curves = (copy / "curves.csv").read_text().splitlines(keepends=True)
    (copy / "curves.csv").write_text("".join(curves[:-1]))
    with pytest.raises(UserError, match=r"curves\.csv cannot be read \(rows are missing\)"):
        Run.load(copy)
    (copy / "run.toml").write_text("seconds = 1.0\n[training]\nlayers = 3")
    with pytest.raises(UserError, match=r"from another version \(unknown setting 'layers'"):
        Network.load(copy, 1)


def test_a_network_belongs_to_its_world(unsealed: Path, paper: World) -> None:
    with pytest.raises(UserError, match=r"00.safetensors .*garden.*, not in 'paper'"):
        Network.load(unsealed, world=paper)
