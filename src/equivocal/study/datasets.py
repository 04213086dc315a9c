"""Reads the datasets that `probe` wrote, and refuses files that hold anything else.

SciPy and xarray read any netCDF file; statistics and figures need these variables with these
dimensions, and these attributes. What a new variable must look like is added to the layouts below.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from equivocal.errors import UserError, join_names
from equivocal.store import check_netcdf, is_plain_name
from equivocal.study.activations import ANSWERED, HEARD, SUMMARIES

NAMES = ("condition", "item", "probe", "unit", "sampler", "question", "role", "non_relevant")
TEXTS = ("word", "tracked")  # coordinates of several dimensions
ESTIMATES = ("nuts", "paper", "converged")


class _Layout(NamedTuple):
    variables: Mapping[str, tuple[str, ...]]  # dimensions by name
    attributes: Mapping[str, type[str | int | float]]


_LAYOUTS = {
    "activations.nc": _Layout(
        {
            **dict.fromkeys(SUMMARIES, ANSWERED),
            "mle": ANSWERED[2:],
            "truth": ANSWERED[3:],
            "critical": HEARD[:2],
            "word": HEARD[:3],
            "tracked": (*HEARD[:2], "role"),
        },
        {"study": str, "quick": str, "central_prior": float},
    ),
    "path.nc": _Layout(
        {"time": ("network", "step")}, {"paper_steps": int, "prior": float, "condition": str}
    ),
    "nuts.nc": _Layout(
        {f"{who}_{what}": ("question",) for who in ESTIMATES for what in SUMMARIES[:4]},
        {
            "units": str,
            "network": int,
            "verdict": str,
            **{f"seconds_{w}": float for w in ESTIMATES},
        },
    ),
}


def read_dataset(path: Path) -> xr.Dataset:
    """Read activations.nc, path.nc or nuts.nc of a study's folder.

    Raises
    ------
    UserError
        Where the file is damaged or does not hold what its name says.
    """
    try:
        check_netcdf(path)
        with warnings.catch_warnings():  # about variables that the next check refuses
            warnings.simplefilter("ignore", xr.SerializationWarning)
            dataset = xr.load_dataset(path, engine="scipy", decode_times=False)
        _check_layout(dataset, _find_layout(path.name, dataset))
        return dataset
    # xarray raises an AttributeError for text that is none
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove it, and `equivocal probe --out {path.parent}` "
            "writes it again."
        ) from None


def _find_layout(name: str, dataset: xr.Dataset) -> _Layout:
    layout = _LAYOUTS[name]
    if name != "path.nc":
        return layout
    shown = [str(one) for one in dataset.data_vars if one != "time"]  # a variable for each role
    if not shown or not all(one.startswith("indicated_") for one in shown):
        raise ValueError(f"it holds {join_names(shown)}")
    of_role = dict.fromkeys(shown, ("network", "step", "item"))
    return layout._replace(variables={**layout.variables, **of_role})


def _check_layout(dataset: xr.Dataset, layout: _Layout) -> None:
    for name, dimensions in layout.variables.items():
        if name not in (dataset.coords if name in TEXTS else dataset.data_vars):
            raise ValueError(f"the variable {name} is missing")
        variable = dataset[name]
        kinds = "UO" if name in TEXTS else "fi"
        if variable.dims != dimensions or variable.dtype.kind not in kinds:
            raise ValueError(f"the variable {name} has other dimensions or another type")
    for name in dict.fromkeys(name for dims in layout.variables.values() for name in dims):
        if name not in dataset.coords:
            raise ValueError(f"it does not name its {name}")
    for name, index in dataset.indexes.items():
        _check_index(str(name), index.to_numpy())
    for name, kind in layout.attributes.items():
        value: Any = dataset.attrs.get(name)
        if np.size(value) != 1 or (kind is str and not isinstance(value, str)):
            raise ValueError(f"its attribute {name} is not one {kind.__name__}")
        kind(value)


def _check_index(name: str, values: np.ndarray) -> None:
    if name not in NAMES:
        if values.dtype.kind not in "fi" or not np.isfinite(values).all():
            raise ValueError(f"its {name}s are not numbered")
        return
    if not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
        raise ValueError(f"the names of its {name}s are not text, or not distinct")
    if name in ("condition", "item"):  # conditions become part of the names of figures
        for value in values:
            if not is_plain_name(value):
                raise ValueError(f"{name} {value!r:.60} is not a plain name")
