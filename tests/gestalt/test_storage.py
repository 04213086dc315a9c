"""A run on disk: read back unchanged, or refused with a sentence that says why."""

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from equivocal.errors import UserError
from equivocal.gestalt import Network, Run
from equivocal.world import World
from tests.conftest import SMALL
from tests.faults.damage import cut, flip


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
def older(copy: Path) -> Path:
    """A run without checksums, as runs were at first."""
    text = (copy / "run.toml").read_text().partition("\n")[2]
    (copy / "run.toml").write_text(re.sub(r"\[checksums\]\n(.+\n)+\n", "", text))
    return copy


def test_networks_come_back_unchanged(saved: Path, small_run: Run) -> None:
    for index in range(2):
        loaded = Network.load(saved, index)
        for a, b in zip(
            jax.tree.leaves(loaded.model), jax.tree.leaves(small_run.models[index]), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    assert Network.load(str(saved)).world.fingerprint == small_run.world.fingerprint


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


def test_only_the_listed_files_are_written(saved: Path) -> None:
    names = sorted(str(path.relative_to(saved)) for path in saved.rglob("*") if path.is_file())
    assert names == [
        "curves.csv",
        "networks/00.safetensors",
        "networks/01.safetensors",
        "run.toml",
        "scores.csv",
        "world.toml",
    ]


def test_a_truncated_settings_file_is_not_filled_up_with_defaults(older: Path) -> None:
    text = (older / "run.toml").read_text()
    (older / "run.toml").write_text(text[: text.index("patience")])
    with pytest.raises(UserError, match=r"run\.toml is damaged .*missing"):
        Run.load(older)


def test_a_time_that_is_no_float_is_damage(older: Path) -> None:
    text = (older / "run.toml").read_text()
    (older / "run.toml").write_text(re.sub("(?m)^seconds = .*", "seconds = " + "9" * 400, text))
    with pytest.raises(UserError, match=r"run\.toml is damaged .*too large"):
        Run.load(older)


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize(
    "name", ["run.toml", "world.toml", "curves.csv", "networks/01.safetensors"]
)
def test_damage_is_named_by_those_who_read_and_trained_over(
    copy: Path, garden: World, name: str, damage: Callable[[Path], None]
) -> None:
    damage(copy / name)
    before = (copy / name).read_bytes()
    with pytest.raises(UserError, match=rf"{name} (cannot be read|is damaged|is missing or)"):
        Run.load(copy)
    assert (copy / name).read_bytes() == before
    with pytest.warns(match=rf"{name} is missing or has a checksum mismatch; .* trained again"):
        assert Run.find(copy, garden, SMALL) is None


def test_one_bit_of_a_weight_is_noticed_where_one_network_is_loaded(copy: Path) -> None:
    flip(copy / "networks" / "01.safetensors", at=0.9)
    with pytest.raises(UserError, match=r"01\.safetensors is missing or has a checksum mismatch"):
        Network.load(copy, 1)
    assert Network.load(copy, 0) is not None


def test_an_empty_settings_file_is_damage_too(copy: Path, garden: World) -> None:
    (copy / "run.toml").write_text("")
    with pytest.warns(match=r"run\.toml is missing or has a checksum mismatch"):
        assert Run.find(copy, garden, SMALL) is None


def test_an_older_run_loads_without_checksums(older: Path, garden: World) -> None:
    assert "sha256" not in (older / "run.toml").read_text()
    assert "checksums" not in (older / "run.toml").read_text()
    assert Run.find(older, garden, SMALL) is not None
    assert len(Run.load(older).networks) == 2


def test_other_peoples_files_are_not_overwritten(garden: World, tmp_path: Path) -> None:
    (tmp_path / "world.toml").write_text("mine")
    with pytest.raises(UserError, match=r"a run would overwrite \(world\.toml\)"):
        Run.find(tmp_path, garden, SMALL)
    assert (tmp_path / "world.toml").read_text() == "mine"


def test_a_run_that_broke_off_while_saving_can_be_made_again(copy: Path, garden: World) -> None:
    (copy / "run.toml").unlink()
    (copy / ".unfinished").touch()
    assert Run.find(copy, garden, SMALL) is None


def test_a_run_is_found_or_protected(
    saved: Path, garden: World, paper: World, tmp_path: Path
) -> None:
    assert Run.find(tmp_path / "new", garden, SMALL) is None
    assert Run.find(saved, garden, SMALL) is not None
    with pytest.raises(UserError, match=r"holds another run \(seed 0\); choose another folder"):
        Run.find(saved, garden, replace(SMALL, seed=1))
    with pytest.raises(UserError, match="world 'garden'"):
        Run.find(saved, paper, SMALL)


def test_another_world_is_refused(older: Path, paper: World, garden: World) -> None:
    for given in (paper, "paper"):
        with pytest.raises(UserError, match=r"00.safetensors .*garden.*, not in 'paper'"):
            Network.load(older, world=given)
    changed = (older / "world.toml").read_text().replace("weight = 2", "weight = 3")
    (older / "world.toml").write_text(changed)
    with pytest.raises(UserError, match="load it with its own world"):
        Network.load(older)


def test_another_shape_is_refused(older: Path) -> None:
    settings = (older / "run.toml").read_text().replace("gestalt = 20", "gestalt = 21")
    (older / "run.toml").write_text(settings)
    with pytest.raises(
        UserError, match=r"array 'update\.\w+' has shape|array 'query\.\w+' has shape"
    ):
        Network.load(older)


def test_saving_over_a_run_never_mixes_the_two(copy: Path, small_run: Run) -> None:
    """A save that breaks off half-way leaves no complete run, neither the new one nor the old."""
    (copy / "networks" / "02.safetensors").write_bytes(b"left over from a larger run")
    (copy / "world.toml").unlink()
    (copy / "world.toml").mkdir()  # so that writing the world fails
    with pytest.raises(UserError, match="cannot write"):
        small_run.save(copy)
    with pytest.raises(UserError, match="no complete run|not a complete run"):
        Network.load(copy)
    (copy / "world.toml").rmdir()
    small_run.save(copy)
    assert len(list((copy / "networks").iterdir())) == 2


def test_missing_and_damaged_parts_are_named(older: Path, tmp_path: Path) -> None:
    copy = older
    with pytest.raises(UserError, match="no folder .*nowhere.* no complete run; .*train --out"):
        Network.load(tmp_path / "nowhere")
    with pytest.raises(
        UserError, match=r"is not a complete run .* no run\.toml; give a folder"
    ) as bad:
        Network.load(tmp_path)
    assert "--out" not in str(bad.value)  # nobody wants networks in any folder
    with pytest.raises(UserError, match="holds networks 0 to 1; there is no 2"):
        Network.load(copy, 2)
    curves = (copy / "curves.csv").read_text().splitlines(keepends=True)
    (copy / "curves.csv").write_text("".join(curves[:-1]))
    with pytest.raises(UserError, match=r"curves\.csv cannot be read \(rows are missing\)"):
        Run.load(copy)
    (copy / "curves.csv").unlink()
    with pytest.raises(UserError, match=r"curves\.csv cannot be read"):
        Run.load(copy)
    weights = copy / "networks" / "00.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"00\.safetensors cannot be read"):
        Network.load(copy, 0)
    weights.unlink()
    with pytest.raises(UserError, match=r"00\.safetensors cannot be read"):
        Network.load(copy, 0)
    (copy / "world.toml").rename(copy / "world.bak")
    with pytest.raises(UserError, match=r"the world of .* is damaged \(there is no world"):
        Network.load(copy, 1)
    (copy / "world.bak").rename(copy / "world.toml")
    (copy / "run.toml").write_text("training = 3")
    with pytest.raises(UserError, match=r"run\.toml is damaged"):
        Network.load(copy, 1)
    (copy / "run.toml").write_text("seconds = 1.0\n[training]\nlayers = 3")
    with pytest.raises(UserError, match=r"from another version \(unknown setting 'layers'"):
        Network.load(copy, 1)
