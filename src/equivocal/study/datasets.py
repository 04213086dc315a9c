"""Reads the datasets that `probe` wrote, and refuses files that hold anything else.

SciPy and xarray read any netCDF file; statistics and figures need these variables with these
dimensions, and these attributes. What a new variable must look like is added to the layouts below.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from equivocal.errors import UserError, join_names
from equivocal.store import check_netcdf, is_plain_name
from equivocal.study.activations import ANSWERED, HEARD, SUMMARIES

NAMES = ("condition", "item", "probe", "unit", "sampler", "question", "role", "non_relevant")
TEXTS = ("word", "tracked")  # coordinates of several dimensions
ESTIMATES = ("nuts", "paper", "converged")


# by file: dimensions of each variable, and types of attributes
_LAYOUTS: dict[str, tuple[dict[str, tuple[str, ...]], dict[str, type]]] = {
    "activations.nc": (
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
    "path.nc": (
        {"time": ("network", "step")},
        {"paper_steps": int, "prior": float, "condition": str},
    ),
    "nuts.nc": (
        {f"{who}_{what}": ("question",) for who in ESTIMATES for what in SUMMARIES[:4]},
        {"units": str, "network": int, "verdict": str}
        | {f"seconds_{who}": float for who in ESTIMATES},
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
        _check_layout(dataset, path.name)
        return dataset
    # xarray raises an AttributeError for text that is none
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove it, and `equivocal probe --out {path.parent}` "
            "writes it again."
        ) from None


def _check_layout(dataset: xr.Dataset, file: str) -> None:
    variables, attributes = _LAYOUTS[file]
    if file == "path.nc":
        shown = [str(one) for one in dataset.data_vars if one != "time"]  # one for each role
        if not shown or not all(one.startswith("indicated_") for one in shown):
            raise ValueError(f"it holds {join_names(shown)}")
        variables = variables | dict.fromkeys(shown, ("network", "step", "item"))
    for name, dimensions in variables.items():
        kinds, found = ("UO", dataset.coords) if name in TEXTS else ("fi", dataset.data_vars)
        if name not in found:
            raise ValueError(f"the variable {name} is missing")
        if found[name].dims != dimensions or found[name].dtype.kind not in kinds:
            raise ValueError(f"the variable {name} has other dimensions or another type")
    for name in {name for dimensions in variables.values() for name in dimensions}:
        if name not in dataset.coords:
            raise ValueError(f"it does not name its {name}")
    for label, index in dataset.indexes.items():
        _check_index(str(label), index.to_numpy())
    for name, kind in attributes.items():
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
    bad = [value for value in values if not is_plain_name(value)]
    if bad and name in ("condition", "item"):  # conditions become part of the names of figures
        raise ValueError(f"{name} {bad[0]!r:.60} is not a plain name")
