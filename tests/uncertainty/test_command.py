"""`equivocal doubt` as a user runs it, and what it keeps."""

import json
import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from equivocal.cli.doubt import doubt
from equivocal.cli.experiments import SMALL
from equivocal.errors import UserError
from equivocal.gestalt import Run, TrainingSettings
from equivocal.gestalt.storage import name_arrays
from equivocal.sampling.engine import network_moves
from equivocal.sampling.samplers import network_flow
from equivocal.uncertainty import LAYERS, compare_kinds, keeping, mc_dropout
from equivocal.uncertainty.comparing import KINDS
from equivocal.uncertainty.keeping import (
    DoubtSettings,
    Kept,
    load_members,
    save_members,
    seconds_each,
)
from equivocal.world import World, example_text
from tests.faults.damage import cut, flip

FEW = DoubtSettings(num_particles=24, num_steps=1)


def test_members_are_read_back_as_they_were(small_run: Run, tmp_path: Path) -> None:
    made = replace(mc_dropout(small_run.networks[0], 0.1, 24, seconds=2.5), converged=False)
    path = tmp_path / "00.safetensors"
    save_members(made, path)
    found = load_members(path, small_run, "last")
    last = (made.models.query.output_weight, made.models.query.output_bias)
    differ = sum(np.asarray(leaf).nbytes for leaf in last)
    assert differ < path.stat().st_size < differ + 50_000  # shared arrays are there once
    for name, array in name_arrays(made.models).items():
        np.testing.assert_array_equal(name_arrays(found.models)[name], array)
    assert (found.seconds, found.message) == (made.seconds, made.message)
    assert found.converged is False


@pytest.mark.parametrize(
    ("message", "rest"),
    [("converged in 4 steps.", True), ("do not trust this yet: after 40 rounds …", False)],
)
def test_members_of_an_earlier_version_say_in_words_whether_they_came_to_rest(
    small_run: Run, tmp_path: Path, message: str, rest: bool
) -> None:
    path = tmp_path / "00.safetensors"
    save_members(replace(mc_dropout(small_run.networks[0], 0.1, 2), message=message), path)
    with safe_open(path, "numpy") as file:
        about = json.loads(file.metadata()["equivocal"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del about["converged"]
    save_file(arrays, path, metadata={"equivocal": json.dumps(about)})
    assert load_members(path, small_run, "last").converged is rest


def test_members_of_another_world_or_size_are_refused(
    small_run: Run, paper: World, tmp_path: Path
) -> None:
    made = mc_dropout(small_run.networks[0], 0.1, 24, seconds=2.5)
    path = tmp_path / "00.safetensors"
    save_members(made, path)
    other = Run(
        paper, small_run.settings, small_run.models, small_run.held_out, small_run.curves, 0.0
    )
    with pytest.raises(UserError, match=r"cannot be read \(of another world or version\)"):
        load_members(path, other, "last")
    flip(path, 0.9)
    with pytest.raises(UserError, match=r"cannot be read \(checksum mismatch\)"):
        load_members(path, small_run, "last")
    cut(path)
    with pytest.raises(UserError, match="cannot be read"):
        load_members(path, small_run, "last")


@pytest.fixture(scope="module")
def kept(small_run: Run, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    folder = tmp_path_factory.mktemp("doubt")
    small_run.save(folder / "networks")
    return Kept(folder, small_run, small_run, FEW)


@pytest.mark.slow
def test_what_was_made_is_found_again_and_what_is_damaged_made_again(kept: Kept) -> None:
    made = kept.of("query", 1)
    (path,) = (kept.folder / "members" / "query").iterdir()
    written = path.stat().st_mtime_ns
    found = kept.of("query", 1)
    assert path.stat().st_mtime_ns == written
    assert found.seconds == made.seconds
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.warns(UserWarning, match="it is sampled again"):
        again = kept.of("query", 1)
    np.testing.assert_array_equal(again.models.query.output_weight, made.models.query.output_weight)
    other = Kept(kept.folder, kept.run, kept.dropped, DoubtSettings(num_particles=25, num_steps=1))
    assert other._path("query", 1) != path


def test_a_run_found_again_took_as_long_as_when_it_was_made(kept: Kept) -> None:
    assert seconds_each(Run.load(kept.folder / "networks")) == seconds_each(kept.run) > 0


@pytest.mark.parametrize(
    ("module", "name", "kinds"),
    [
        (network_moves, "SLACK", ["query", "all"]),
        (network_flow, "START", ["query", "all"]),
        (keeping, "CLOSE", ["last"]),
    ],
)
def test_another_constant_has_another_place(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, kinds: list[str]
) -> None:
    before = {kind: kept._path(kind, 0) for kind in LAYERS}
    monkeypatch.setattr(module, name, 0.015)
    assert [kind for kind in LAYERS if kept._path(kind, 0) != before[kind]] == kinds


@pytest.mark.slow
def test_every_kind_has_its_rows(kept: Kept) -> None:
    few, _ = compare_kinds(kept.run.world, 2, kept.of, kinds=("trained", "last"))
    assert few["kind"].unique().tolist() == ["trained", "last"]
    table, roles = compare_kinds(kept.run.world, 2, kept.of)
    rows = table.groupby("kind", sort=False).size()
    assert rows.to_dict() == dict.fromkeys(KINDS, 2) | {"deep ensemble": 1}
    assert len(roles) == len(table) * len(kept.run.world.roles)
    assert table["auroc_study"].isna().all()
    indexed = table.set_index(["kind", "network"])
    assert (indexed.loc["trained", "epistemic_share"] < 1e-6).all()
    assert (indexed.loc["last", "epistemic_share"] > 1e-4).all()
    # a single network is judged by its entropy, several by their information
    by_entropy = indexed["auroc"] == indexed["auroc_entropy"]
    assert by_entropy.groupby("kind").all().to_dict() == {kind: kind == "trained" for kind in KINDS}
    assert indexed.loc["last", "converged"].tolist() == [True, True]
    assert indexed.loc["query", "converged"].tolist() == [False, False]  # one round is too few
    assert indexed.loc["MC dropout", "converged"].isna().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world": "papers"}, "did you mean 'paper'"),
        ({"layers": ["lasst"]}, "layers must be one of last, query.*got 'lasst'"),
        ({"networks": 20_000}, "networks must be from 1 to 10,000"),
        ({"world": "victims.toml"}, "has no role patient"),
    ],
)
def test_a_mistake_is_seen_before_anything_is_made(
    arguments: dict, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("victims.toml").write_text(example_text().replace("patient", "victim"))
    with pytest.raises(UserError, match=message):
        doubt(**arguments, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_one_command_makes_all_and_finds_it_again(tmp_path: Path) -> None:
    (tmp_path / "garden.toml").write_text(example_text())
    command = [sys.executable, "-m", "equivocal", "doubt", "--quick", "--world", "garden.toml"]
    done, again = (
        subprocess.run(
            [*command, "--out", "out"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
            check=False,
        )
        for _ in range(2)
    )
    assert done.returncode == 0, done.stderr
    assert "Most like the truth: " in done.stdout
    assert "calibration error by role" in done.stdout
    assert done.stdout.endswith("they are not to be quoted.\n")
    for name in ("scores", "roles", "summary"):
        assert len(pd.read_csv(tmp_path / "out" / "tables" / f"{name}.csv")) >= len(KINDS)
    assert (tmp_path / "out" / "figures" / "doubt.svg").stat().st_size > 1000
    made_of = tomllib.loads((tmp_path / "out" / "doubt.toml").read_text())
    assert made_of["answer"] in done.stdout
    assert made_of["fingerprint"] == World.load(tmp_path / "garden.toml").fingerprint
    assert made_of["training"] == asdict(TrainingSettings.from_dict(SMALL))
    assert {"python", "equivocal", "jax"} < made_of["versions"].keys()
    assert made_of["seconds"] > 0
    assert made_of["kinds"] == list(KINDS)
    assert "holds this run already" in again.stderr
    lines = [text.splitlines()[-6:] for text in (done.stdout, again.stdout)]
    assert lines[0] == lines[1]  # what was made is what is found, costs and all
