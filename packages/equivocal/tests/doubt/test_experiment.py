"""`compare_uncertainty` and `equivocal doubt`, and the members that they save."""

import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equivocal.doubt.comparison import KINDS, score_kinds
from equivocal.doubt.comprehenders import load_members, save_members
from equivocal.doubt.members import make_mc_dropout
from equivocal.doubt.run import (
    MemberStore,
    UncertaintySettings,
    compare_uncertainty,
    hash_members,
)
from equivocal.network import Network, Run, TrainingSettings
from equivocal.network.storage import name_arrays
from equivocal.network.train_or_load import QUICK
from equivocal.world import World, read_example
from lastlayer import network_flow
from lastlayer.errors import UserError
from lastlayer.files import UnreadableError
from tests.faults.damage import cut, flip

FEW = UncertaintySettings(num_particles=24, num_steps=1)


def test_members_are_loaded_as_they_were_saved(small_run: Run, tmp_path: Path) -> None:
    network = small_run.networks[0]
    made = replace(make_mc_dropout(network, 0.1, 24, seconds=2.5), converged=False)
    path = tmp_path / "00.safetensors"
    save_members(made, path)
    found = load_members(path, network, "last")
    last = (made.models.query.output_weight, made.models.query.output_bias)
    differ = sum(np.asarray(leaf).nbytes for leaf in last)
    assert differ < path.stat().st_size < differ + 50_000  # shared arrays are there once
    for name, array in name_arrays(made.models).items():
        np.testing.assert_array_equal(name_arrays(found.models)[name], array)
    assert (found.seconds, found.message) == (made.seconds, made.message)
    assert found.converged is False


def test_members_of_another_world_or_size_are_refused(
    small_run: Run, paper: World, tmp_path: Path
) -> None:
    network = small_run.networks[0]
    path = tmp_path / "00.safetensors"
    save_members(make_mc_dropout(network, 0.1, 24, seconds=2.5), path)
    with pytest.raises(UnreadableError, match="another world or version"):
        load_members(path, Network(network.model, paper), "last")
    larger = replace_arrays(network, lambda leaf: np.repeat(np.asarray(leaf), 2, axis=-1))
    with pytest.raises(UnreadableError, match="networks of another size"):
        load_members(path, larger, "last")
    cut(path)
    with pytest.raises(UnreadableError, match="cannot read"):
        load_members(path, network, "last")


def replace_arrays(network: Network, change) -> Network:
    import jax

    return Network(jax.tree.map(change, network.model), network.world)


@pytest.fixture(scope="module")
def members(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> MemberStore:
    folder = tmp_path_factory.mktemp("doubt")
    small_run.save(folder / "networks")
    return MemberStore(folder, small_run, small_run, FEW)


@pytest.mark.parametrize("kind", ["last", pytest.param("query", marks=pytest.mark.slow)])
def test_members_are_reused_and_made_again_if_damaged(members: MemberStore, kind: str) -> None:
    made = members.load_or_make(kind, 1)
    path = members.folder / "members" / kind / "01.safetensors"
    written = path.stat().st_mtime_ns
    found = members.load_or_make(kind, 1)
    assert path.stat().st_mtime_ns == written
    assert found.seconds == made.seconds
    flip(path, 0.9)
    with pytest.warns(UserWarning, match=r"01\.safetensors: checksum mismatch"):
        again = members.load_or_make(kind, 1)
    np.testing.assert_array_equal(again.models.query.output_weight, made.models.query.output_weight)
    other = replace(members, settings=replace(FEW, num_particles=25))
    assert len(other.load_or_make(kind, 1)) == 25


def test_a_loaded_run_keeps_its_training_time(members: MemberStore) -> None:
    loaded = replace(members, run=Run.load(members.folder / "networks"))
    seconds = [each.load_or_make("deep ensemble", 0).seconds for each in (members, loaded)]
    assert seconds[0] == seconds[1] > 0


def test_the_key_of_members_contains_all_settings_that_affect_them() -> None:
    constants = network_flow.list_constants()
    given = {"weights": "a", "kind": "query", "index": 0, "settings": FEW, "constants": constants}
    key = hash_members(**given)
    for name, other in {
        "weights": "b",
        "kind": "all",
        "index": 1,
        "settings": replace(FEW, tolerance=0.4),
        "constants": constants | {"SLACK": 0.015},
    }.items():
        assert hash_members(**given | {name: other}) != key, name
    for idle in ({"dropout": 0.2}, {"last_tolerance": 0.02}):  # of no concern to the query network
        assert hash_members(**given | {"settings": replace(FEW, **idle)}) == key
    assert {"START", "SLACK"} < constants.keys()


@pytest.mark.slow
def test_every_kind_has_its_rows(members: MemberStore) -> None:
    world, find = members.run.world, members.load_or_make
    few, _ = score_kinds(world, 2, find, kinds=("trained", "last"))
    assert few["kind"].unique().tolist() == ["trained", "last"]
    table, roles = score_kinds(world, 2, find)
    rows = table.groupby("kind", sort=False).size()
    assert rows.to_dict() == dict.fromkeys(KINDS, 2) | {"deep ensemble": 1}
    assert len(roles) == len(table) * len(world.roles)
    assert table["auroc_study"].isna().all()
    indexed = table.set_index(["kind", "network"])
    assert (indexed.loc["trained", "epistemic_share"] < 1e-6).all()
    assert (indexed.loc["last", "epistemic_share"] > 1e-4).all()
    # a single network is judged by its entropy, several by their epistemic uncertainty
    by_entropy = indexed["auroc"] == indexed["auroc_entropy"]
    assert by_entropy.groupby("kind").all().to_dict() == {kind: kind == "trained" for kind in KINDS}
    assert indexed.loc["last", "converged"].tolist() == [True, True]
    assert indexed.loc["query", "converged"].tolist() == [False, False]  # one round is too few
    assert indexed.loc["MC dropout", "converged"].isna().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world": "papers"}, "did you mean 'paper'"),
        ({"layers": ["lasst"]}, "'lasst': did you mean 'last'"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
        ({"world": "victims.toml"}, "has no role patient"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("victims.toml").write_text(read_example().replace("patient", "victim"))
    with pytest.raises(UserError, match=message):
        compare_uncertainty(**arguments, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_function_writes_what_it_returns_and_the_command_finds_it(tmp_path: Path) -> None:
    (tmp_path / "garden.toml").write_text(read_example())
    result = compare_uncertainty(tmp_path / "garden.toml", tmp_path / "out", quick=True)
    assert list(result.tables) == ["scores", "roles", "summary", "role_means"]
    for name, table in result.tables.items():
        written = pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv")
        assert len(written) == len(table) >= len(KINDS)
        assert written.columns.tolist() == table.columns.tolist()
    assert list(result.draw()) == ["doubt"]
    assert (tmp_path / "out" / "figures" / "doubt.svg").stat().st_size > 1000
    made_of = tomllib.loads((tmp_path / "out" / "doubt.toml").read_text())
    assert made_of["answer"] == result.summary[0]
    assert made_of["fingerprint"] == World.load(tmp_path / "garden.toml").fingerprint
    assert made_of["training"] == asdict(TrainingSettings.from_dict(QUICK))
    assert {"python", "equivocal", "jax"} < made_of["versions"].keys()
    assert made_of["seconds"] > 0
    assert made_of["kinds"] == list(KINDS)
    command = [sys.executable, "-m", "equivocal", "doubt", "--quick", "--world", "garden.toml"]
    done = subprocess.run(
        [*command, "--out", "out"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "holds this run already" in done.stderr
    # what was made is what is found, costs and all
    assert all(line in done.stdout for line in result.summary)
    assert "calibration error by role" in done.stdout
    assert done.stdout.endswith("do not report them.\n")
