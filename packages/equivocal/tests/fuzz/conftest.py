"""Whole files of every kind that is read, made once, and what reads each of them."""

import gzip
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from equivocal.asking.comprehender import Comprehender
from equivocal.asking.source import Source
from equivocal.doubt.comprehenders import load_members, save_members
from equivocal.doubt.members import make_deep_ensemble
from equivocal.measuring.reading import Readings, load_readings, save_readings
from equivocal.measuring.suite import DATA, load_suite
from equivocal.multiverse.grid import load_grid, load_sweep
from equivocal.network import Run
from equivocal.network.runs import read_curves
from equivocal.network.storage import load_network, read_run
from equivocal.paper.settings import load_study
from equivocal.paper.stages import Study
from equivocal.people.tables import Columns, read_measures, read_trials
from equivocal.store import Store
from equivocal.store.arrays import CHECKSUM
from equivocal.store.folders import NETWORKS
from equivocal.world import World, read_example
from equivocal.world.items import load_stimuli
from lastlayer import Posterior, sample_posterior
from lastlayer.tensors import read_tensors
from tests.multiverse.test_multiverse import GRID, STIMULI, STUDY
from tests.network.older import make_older
from tests.report import made_up

KEY = "0123456789abcdef"
SWEEP = """
study = "study.toml"
[vary]
training.seed = [0, 1]
"inference.rows" = ["every word", "last word"]
"""
TRIALS = """participant,item,condition,position,word,rt
p1,1,congruent,1,woman,301.5
p1,1,congruent,2,eats,288
p2,1,reversal,1,pizza,412
p2,2,reversal,2,eats,
"""
MEASURES = """item,position,measure,value
1,1,semantic_update,3.5
1,2,semantic_update,1e-3
"""


@dataclass(frozen=True)
class Kind:
    """A kind of file: one that is whole, its format, and what reads it from where it lies."""

    path: Path
    format: str
    load: Callable[[], object]


def unseal(run: Path) -> None:
    """A changed file would be refused by its checksum, and nothing behind that be tried."""
    Store(run).record(NETWORKS, KEY, [])


def unseal_tensors(path: Path) -> None:
    """The same of a file that carries its own checksum."""
    about, arrays = read_tensors(path)
    del about[CHECKSUM]
    save_file(arrays, path, metadata=about)


def _settings(path: Path) -> object:
    study = load_study(path)
    return study.stimuli_path, study.world_source, study.training_settings


def _posterior(path: Path) -> None:
    rng = np.random.default_rng(0)
    targets = rng.uniform(size=(40, 2)) < 0.5
    sample_posterior(rng.normal(size=(40, 3)), targets, num_particles=8, seed=0).save(path)


@pytest.fixture(scope="session")
def kinds(
    small_run: Run, garden: World, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Kind]:
    folder = tmp_path_factory.mktemp("fuzz")
    texts = {"garden.toml": read_example(), "garden.csv": STIMULI}
    texts |= {"study.toml": STUDY, "grid.toml": GRID, "sweep.toml": SWEEP}
    texts |= {"trials.csv": TRIALS, "measures.csv": MEASURES}
    for end in ("toml", "csv"):
        texts[f"suite.{end}"] = (DATA / f"lexical_frequency.{end}").read_text("utf-8")
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "trials.csv.gz").write_bytes(gzip.compress(TRIALS.encode()))
    run = folder / "run"
    small_run.save(run)
    shutil.copytree(run, folder / "older")
    make_older(folder / "older")
    unsigned = (folder / "older/run.toml").read_text().partition("\n")[2]
    (folder / "older/run.toml").write_text(unsigned)
    unseal(run)
    _posterior(folder / "posterior.safetensors")
    unseal_tensors(folder / "posterior.safetensors")
    study = Study(load_study(folder / "study.toml"), folder)
    path = made_up.path().assign_coords(network=[0, 1], step=np.arange(31), item=["a", "b", "c"])
    path.attrs |= {"prior": 1.0, "condition": "reversal"}
    exact, who = made_up.exact(), ("exact", "nuts", "paper", "converged")
    chains = dict.fromkeys(("r_hat", "ess"), exact["exact_mean"])
    exact = exact.assign({f"{name}_sd": exact["exact_mean"] for name in who} | chains)
    exact.attrs |= {"posteriors": 12, "unconverged": "none"}
    nuts = exact.isel(network=[0])
    seconds = {f"seconds_{name}": 1.0 for name in who[1:]}
    nuts.attrs |= {"units": "a, b", "network": 0, "verdict": "converged.", **seconds}
    datasets = {"activations.nc": made_up.activations(1), "path.nc": path, "nuts.nc": nuts}
    datasets["exact.nc"] = exact
    for name, dataset in datasets.items():
        dataset.to_netcdf(folder / name, engine="scipy")
    save_members(make_deep_ensemble(small_run.networks), folder / "members.safetensors")
    readings = folder / "readings.json"
    save_readings(Readings(np.full((2, 5), 0.25), True), readings)
    Store(folder).record("made", KEY, [folder / "garden.csv"])

    def kind(name: str, form: str, load: Callable[[Path], object]) -> Kind:
        return Kind(folder / name, form, lambda: load(folder / name))

    found = {
        "world": kind("garden.toml", "toml", World.load),
        "stimuli": kind("garden.csv", "csv", lambda file: load_stimuli(file, garden)),
        "study": kind("study.toml", "toml", _settings),
        "grid": kind("grid.toml", "toml", load_grid),
        "sweep": kind("sweep.toml", "toml", load_sweep),
        "run": kind("run/run.toml", "toml", lambda file: read_run(file.parent)),
        "older": kind("older/run.toml", "toml", lambda file: read_run(file.parent)),
        "curves": kind("run/curves.csv", "csv", lambda file: read_curves(file, 2)),
        "network": kind(
            "run/networks/00.safetensors", "safetensors", lambda _: load_network(run, 0)
        ),
        "asked": kind(
            "run/networks/01.safetensors",
            "safetensors",
            lambda _: Comprehender(Source.choose(run=run, network=1)),
        ),
        "posterior": kind("posterior.safetensors", "safetensors", Posterior.load),
        "record": kind("records/made.json", "json", lambda _: Store(folder).find("made", KEY)),
        "suite": kind("suite.toml", "toml", load_suite),
        "items": kind("suite.csv", "csv", lambda file: load_suite(file.with_suffix(".toml"))),
        "trials": kind("trials.csv", "csv", lambda file: read_trials(file, Columns())),
        "packed": kind("trials.csv.gz", "gz", lambda file: read_trials(file, Columns())),
        "measures": kind("measures.csv", "csv", lambda file: read_measures(file, Columns())),
        "members": kind(
            "members.safetensors",
            "safetensors",
            lambda file: load_members(file, small_run.networks[0], "last"),
        ),
        "readings": kind("readings.json", "json", lambda file: load_readings(file, 2)),
    }
    for name in datasets:
        found[name] = kind(name, "netcdf", lambda file: study.read(file.name))
    for each in found.values():
        assert each.load() is not None  # whole files are read
    return found
