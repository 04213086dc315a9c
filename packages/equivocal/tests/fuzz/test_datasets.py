"""Files in good order that hold something else than what is read from them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from equivocal.asking.comprehender import Comprehender
from equivocal.asking.source import Source
from equivocal.network import Run
from equivocal.network.storage import load_network
from equivocal.paper.settings import load_study
from equivocal.paper.stages import Study
from lastlayer import Posterior
from lastlayer.errors import UserError
from tests.fuzz.conftest import Kind, unseal


def changed(kind: Kind, tmp_path: Path, change: Callable[[xr.Dataset], xr.Dataset]) -> None:
    """Read a dataset back from another folder after a change."""
    dataset = change(xr.load_dataset(kind.path, engine="scipy"))
    dataset.to_netcdf(tmp_path / kind.path.name, engine="scipy")
    Study(load_study("paper"), tmp_path).read(kind.path.name)


def attribute(name: str, value: object) -> Callable[[xr.Dataset], xr.Dataset]:
    return lambda dataset: dataset.assign_attrs({name: value})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("activations.nc", lambda d: d.drop_vars("sd"), "the variable sd is missing"),
        ("activations.nc", lambda d: d.drop_vars("unit"), "does not name its unit"),
        ("activations.nc", lambda d: d.assign(sd=d["sd"].isel(prior=0)), "other dimensions"),
        ("activations.nc", lambda d: d.assign_coords(unit=["x"] * d.sizes["unit"]), "not distinct"),
        ("activations.nc", lambda d: d.assign_coords(unit=range(d.sizes["unit"])), "not text"),
        ("activations.nc", lambda d: d.assign_coords(prior=[1.0, np.nan]), "priors are not number"),
        ("activations.nc", lambda d: d.assign_coords(item=["a", "b/../..", "c"]), "is not a plain"),
        ("activations.nc", lambda d: d.drop_vars("tracked"), "the variable tracked is missing"),
        ("activations.nc", lambda d: d.assign_coords(tracked=d["critical"]), "other dim"),
        ("activations.nc", lambda d: d.assign_coords(non_relevant=range(6)), "not text"),
        ("activations.nc", attribute("central_prior", "one"), "could not convert"),
        ("activations.nc", attribute("study", 3), "study is not one str"),
        (
            "path.nc",
            lambda d: d.drop_vars("indicated_agent").drop_vars("indicated_patient"),
            "none",
        ),
        ("path.nc", attribute("condition", [1, 2]), "condition is not one str"),
        ("path.nc", lambda d: d.assign_coords(item=["a", "b/../..", "c"]), "is not a plain"),
        ("exact.nc", lambda d: d.drop_vars("paper_sd"), "the variable paper_sd is missing"),
        ("exact.nc", lambda d: d.assign(r_hat=d["r_hat"].isel(network=0)), "other dimensions"),
        ("exact.nc", attribute("unconverged", 3), "unconverged is not one str"),
        ("nuts.nc", lambda d: d.drop_vars("nuts_sd"), "the variable nuts_sd is missing"),
        ("nuts.nc", attribute("seconds_nuts", [1.0, 2.0]), "is not one float"),
    ],
)
def test_datasets_of_another_kind(
    name: str,
    change: Callable[[xr.Dataset], xr.Dataset],
    message: str,
    kinds: dict[str, Kind],
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=message):
        changed(kinds[name], tmp_path, change)


@pytest.mark.parametrize("name", ["activations.nc", "path.nc", "exact.nc", "nuts.nc"])
def test_unchanged_datasets_are_read(name: str, kinds: dict[str, Kind], tmp_path: Path) -> None:
    changed(kinds[name], tmp_path, lambda dataset: dataset)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", [1]),
        ("steps", [[1], [2]]),
        ("time", ["a", "b"]),
        ("steps", [10**400, 1]),
        ("method", 3),
        ("message", None),
    ],
)
def test_what_a_posterior_says_of_itself_is_checked(
    field: str, value: object, kinds: dict[str, Kind], tmp_path: Path
) -> None:
    source, path = kinds["posterior"].path, tmp_path / "p.safetensors"
    with safe_open(source, framework="numpy") as file:
        header = file.metadata()
    info = json.dumps(json.loads(header["info"]) | {field: value})
    save_file(load_file(source), path, metadata=header | {"info": info})
    with pytest.raises(UserError, match="is not a posterior saved by this version"):
        Posterior.load(path)


def test_networks_of_another_kind(small_run: Run, tmp_path: Path) -> None:
    """An array too few would be noticed when the first sentence is asked; JSON that is none."""
    small_run.save(tmp_path)
    unseal(tmp_path)
    path = tmp_path / "networks" / "00.safetensors"
    with safe_open(path, framework="numpy") as file:
        header = file.metadata()
    arrays = load_file(path)
    save_file(arrays, path, metadata={"equivocal": "[" * 10**5})
    with pytest.raises(UserError, match="another world or by another version"):
        load_network(tmp_path, 0)
    del arrays["update.recurrent_weight"]
    save_file(arrays, path, metadata=header)
    with pytest.raises(UserError, match="array 'update.recurrent_weight' has shape None"):
        load_network(tmp_path, 0)
    with pytest.raises(UserError, match="it is no network of this world"):
        Comprehender(Source.choose(run=tmp_path))
