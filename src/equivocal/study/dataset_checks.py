"""Whether a dataset read from a study's folder is one that `probe` writes.

SciPy and xarray read any netCDF file; statistics and figures need these variables, with these
dimensions, and these attributes. A `ValueError` says what is not there.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from equivocal.errors import join_names
from equivocal.store import is_plain_name, parse_json
from equivocal.study.activations import HEARD, SUMMARIES

__all__ = ["check_dataset"]

ESTIMATES = ("nuts", "paper", "converged")
MOMENTS = ("mean", "sd", "low", "high")
NAMES = ("condition", "item", "probe", "unit", "sampler", "question")  # coordinates that are text


def check_dataset(name: str, dataset: xr.Dataset) -> None:
    """`name` is that of the file: activations.nc, path.nc or nuts.nc."""
    {"activations.nc": _activations, "path.nc": _path, "nuts.nc": _nuts}[name](dataset)
    for coordinate in set(NAMES) & set(dataset.coords):
        values = dataset[coordinate].values
        if not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
            raise ValueError(f"the names of its {coordinate}s are no texts, or not distinct")
    for coordinate in ("condition", "item"):  # conditions become part of the names of figures
        for value in dataset.coords.get(coordinate, xr.DataArray([])).values:
            if not is_plain_name(value):
                raise ValueError(f"{coordinate} {value!r:.60} is no name")


def _activations(dataset: xr.Dataset) -> None:
    every = ("sampler", "prior", "network", *HEARD, "unit")
    _variables(dataset, dict.fromkeys(SUMMARIES, every))
    _variables(dataset, {"mle": every[2:], "truth": every[3:], "critical": HEARD[:2]})
    _coordinates(dataset, every)
    _attributes(dataset, {"study": str, "quick": str, "central_prior": float})
    tracked, others = (_parsed(dataset, name) for name in ("tracked", "non_relevant"))
    if not isinstance(others, list) or not all(isinstance(unit, str) for unit in others):
        raise ValueError("its attribute non_relevant is no list of units")
    for condition in dataset["condition"].values:
        for item in dataset["item"].values:
            units = _within(_within(tracked, condition), item)
            if not all(isinstance(unit, str) for unit in units.values()):
                raise ValueError("its attribute tracked holds no units")


def _path(dataset: xr.Dataset) -> None:
    shown = [str(name) for name in dataset.data_vars if name != "time"]
    if not shown or not all(name.startswith("indicated_") for name in shown):
        raise ValueError(f"it holds {join_names(shown)}")
    _variables(dataset, dict.fromkeys(shown, ("network", "step", "item")))
    _variables(dataset, {"time": ("network", "step")})
    _coordinates(dataset, ("network", "step", "item"))
    _attributes(dataset, {"paper_steps": int, "prior": float, "condition": str})


def _nuts(dataset: xr.Dataset) -> None:
    names = [f"{estimate}_{moment}" for estimate in ESTIMATES for moment in MOMENTS]
    _variables(dataset, dict.fromkeys(names, ("question",)))
    _coordinates(dataset, ("question",))
    seconds = {f"seconds_{estimate}": float for estimate in ESTIMATES}
    _attributes(dataset, {"units": str, "network": int, "verdict": str, **seconds})


def _variables(dataset: xr.Dataset, wanted: Mapping[str, tuple[str, ...]]) -> None:
    for name, dimensions in wanted.items():
        if name not in dataset.data_vars:
            raise ValueError(f"the variable {name} is missing")
        if dataset[name].dims != dimensions or dataset[name].dtype.kind not in "fi":
            raise ValueError(f"the variable {name} has other dimensions, or holds no numbers")


def _coordinates(dataset: xr.Dataset, wanted: tuple[str, ...]) -> None:
    if missing := [name for name in wanted if name not in dataset.coords]:
        raise ValueError(f"it does not name its {join_names(missing)}")
    for name in set(wanted) - set(NAMES):
        values = dataset[name].values
        if values.dtype.kind not in "fi" or not np.isfinite(values).all():
            raise ValueError(f"its {name}s are not numbered")


def _attributes(dataset: xr.Dataset, wanted: Mapping[str, type[str | int | float]]) -> None:
    for name, kind in wanted.items():
        value = dataset.attrs.get(name)
        if kind is str and not isinstance(value, str):
            raise ValueError(f"its attribute {name} is no text")
        if value is None or np.size(value) != 1:
            raise ValueError(f"its attribute {name} is not one value")
        kind(value)


def _parsed(dataset: xr.Dataset, name: str) -> Any:
    text = dataset.attrs.get(name)
    if not isinstance(text, str):
        raise ValueError(f"its attribute {name} is missing")
    return parse_json(text)


def _within(table: Any, key: str) -> dict[str, Any]:
    found = table.get(key) if isinstance(table, dict) else None
    if not isinstance(found, dict):
        raise ValueError("its attribute tracked does not name every condition and item")
    return found
