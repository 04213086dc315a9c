"""Networks and ensembles are found, computed and kept in a real cache folder."""

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import equivocal
from equivocal.asking.listeners import Listeners
from equivocal.asking.source import AskSettings, Source
from equivocal.world import World, read_example
from lastlayer.errors import UserError
from tests.asking.conftest import TINY
from tests.faults.damage import flip


def source(run: Path) -> Source:
    return Source.choose(run=run, network=1, settings=TINY)


def test_ensembles_are_reused_from_the_cache(gardener: Listeners, saved_run: Path) -> None:
    first = gardener.answer("the cat chases").bayes
    file = source(saved_run).folder / "converged_1_1.safetensors"
    before = file.stat().st_mtime_ns
    np.testing.assert_array_equal(
        Listeners(source(saved_run)).answer("the cat chases").bayes, first
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


@pytest.mark.parametrize("damage", ["missing", "bit"])
def test_damaged_files_are_recomputed(gardener: Listeners, saved_run: Path, damage: str) -> None:
    before = gardener.answer("the cat chases").bayes
    file = source(saved_run).folder / "converged_1_1.safetensors"
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        flip(file, at=0.9)
    said = nullcontext() if damage == "missing" else pytest.warns(match=str(file))
    with said:
        mended = Listeners(source(saved_run)).answer("the cat chases").bayes
    assert file.read_bytes() == whole
    np.testing.assert_array_equal(mended, before)


@pytest.mark.slow
def test_a_damaged_default_network_is_trained_again(
    garden: World, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path))
    settings = replace(TINY, training={"networks": 1, "sentences": 200, "epochs": 2})
    chosen = Source.choose(world=garden, settings=settings)
    before = Listeners(chosen).answer("the cat").mle
    whole = chosen.network_path.read_bytes()
    flip(chosen.network_path, at=0.9)
    with pytest.warns(match=rf"{chosen.network_path}: checksum mismatch; recomputing"):
        mended = Listeners(chosen).answer("the cat").mle
    np.testing.assert_array_equal(mended, before)
    assert chosen.network_path.read_bytes() == whole


def test_a_damaged_run_of_ones_own_is_named_and_left_alone(saved_run: Path, tmp_path: Path) -> None:
    shutil.copytree(saved_run, tmp_path / "run")
    network = tmp_path / "run" / "networks" / "01.safetensors"
    network.write_bytes(network.read_bytes()[:100])
    with pytest.raises(UserError, match=r"01\.safetensors is missing or has a checksum mismatch"):
        Listeners(Source.choose(run=tmp_path / "run", network=1))
    assert len(network.read_bytes()) == 100


def test_a_new_spelling_is_understood_though_the_files_are_the_same(saved_run: Path) -> None:
    """Forms do not change a network, so its files serve both; what is parsed differs."""
    old = World.from_toml(read_example())
    new = World.from_toml(read_example().replace('mouse = ["mice"]', 'mouse = ["mice", "rodent"]'))
    first, second = (Source.choose(world=world, settings=TINY) for world in (old, new))
    assert first.folder == second.folder
    assert first != second


def test_missing_runs_and_double_choices(tmp_path: Path, saved_run: Path) -> None:
    with pytest.raises(UserError, match=r"is not a complete run .* no valid records/.*; give a"):
        equivocal.ask("the cat", run=tmp_path)
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        equivocal.ask("the cat", run=tmp_path / "nowhere")
    with pytest.raises(UserError, match="has no networks of world 'paper'"):
        equivocal.ask("the cat", run=saved_run, world="paper")
    with pytest.raises(UserError, match=r"has no network 7; it has 2, counted from 0"):
        equivocal.ask("the cat", run=saved_run, network=7)
    with pytest.raises(UserError, match="is one of a run"):
        equivocal.ask("the cat", network=1)


@pytest.mark.parametrize("inner", [".", "networks", "networks/garden", "sizes/small"])
def test_networks_are_found_wherever_a_command_keeps_them(
    saved_run: Path, cache: Path, tmp_path: Path, inner: str
) -> None:
    """As train and reproduce, doubt, measure and multiverse, and doubt --along leave them."""
    results = tmp_path / ".kept" / "results"
    shutil.copytree(saved_run, results / inner, dirs_exist_ok=True)
    shutil.copytree(saved_run, results / ".scratch" / "half")  # a worker's own
    found = Source.choose(run=results, settings=TINY)
    assert [member.network for member in found.members] == [0, 1]
    assert len({member.folder for member in found.members}) == 2
    alone = Source.choose(run=results, network=1, settings=TINY)
    assert alone.folder == source(saved_run).folder == found.members[1].folder  # one cache for all


def test_all_networks_of_a_folder_are_asked(saved_run: Path, gardener: Listeners) -> None:
    both = Listeners(Source.choose(run=saved_run, settings=TINY))
    answer = both.answer("the cat chases the mouse")
    assert answer.network == f"the 2 networks in {saved_run}"
    assert [one.network for one in answer.networks] == ["network 0", "network 1"]
    alone = gardener.answer("the cat chases the mouse")
    np.testing.assert_array_equal(answer.networks[1].bayes, alone.bayes)
    assert "between the 2 networks" in answer.summary


def test_networks_that_cannot_answer_together_are_told_apart(
    saved_run: Path, tmp_path: Path
) -> None:
    """Suites keep networks of several worlds; `world` chooses."""
    shutil.copytree(saved_run, tmp_path / "networks" / "garden")
    other = World.from_toml(
        read_example()
        .replace('name = "garden"', 'name = "yard"')
        .replace("dog = 0.6, cat = 0.3", "dog = 0.5, cat = 0.4")
    )
    equivocal.train(other, networks=1, sentences=50, epochs=1).save(tmp_path / "networks" / "yard")
    with pytest.raises(UserError, match=r"differ in .* worlds garden, yard with --world"):
        Source.choose(run=tmp_path)
    chosen = Source.choose(run=tmp_path, world="yard")
    assert (chosen.world.name, len(chosen.members)) == ("yard", 1)
    assert len(Source.choose(run=tmp_path, world="garden").members) == 2
    # of one world there may be several sizes, which answer together
    equivocal.train(other, networks=1, sentences=50, epochs=1, hidden=7).save(
        tmp_path / "networks" / "yard-7"
    )
    both = Listeners(Source.choose(run=tmp_path, world="yard", settings=TINY))
    assert len(both.answer("the cat chases").networks) == 2
    assert Source.choose(run=tmp_path / "networks" / "yard-7").world.name == "yard"


def test_a_run_without_its_settings_is_explained(saved_run: Path, tmp_path: Path) -> None:
    shutil.copytree(saved_run, tmp_path / "run")
    (tmp_path / "run" / "run.toml").write_text("training = [")
    with pytest.raises(UserError, match=r"run\.toml is missing or has a checksum mismatch; train"):
        equivocal.ask("the cat", run=tmp_path / "run")


def test_a_sentence_is_understood_before_anything_is_trained(
    garden: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match="unknown word 'zebra'"):
        equivocal.ask("the zebra", world=garden)
    assert not (tmp_path / "cache").exists()


def test_unwritable_cache_is_explained(
    garden: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match="choose another place"):
        equivocal.ask("the cat", world=garden)
