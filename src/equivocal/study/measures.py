"""What the paper measures: the activations of a few units at the critical word of each sentence.

- "indicated ROLE": what the sentence's syntax makes the ROLE (reversal: pizza as agent)
- "plausible ROLE": the ROLE in the baseline condition, where it is another unit (woman as agent)
- "non-relevant agent": average over the units that belong to neither (chess, novel, … as agent)
"""

import json
from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.errors import UserError, join_names

__all__ = ["central_prior", "grid", "measures"]

KEYS = ["sampler", "prior", "network", "condition", "item", "measure", "probe"]


def measures(dataset: xr.Dataset) -> pd.DataFrame:
    """One row per sampler, prior, network, condition, item and measure; double precision."""
    _check(dataset)
    index = pd.MultiIndex.from_product(
        [dataset[name].values for name in KEYS[:3]], names=list(KEYS[:3])
    )
    parts = []
    for condition in (str(name) for name in dataset["condition"].values):
        for item in (str(name) for name in dataset["item"].values):
            here = dataset[["mle", "mean", "truth"]].sel(condition=condition, item=item)
            position = dataset["critical"].sel(condition=condition, item=item)
            here = here.sel(position=int(position))
            for measure, probe, units in _measured(dataset, condition, item):
                found = here.sel(probe=probe, unit=units).astype(float).mean("unit", skipna=False)
                part = pd.DataFrame(index=index).reset_index()
                part["condition"], part["item"] = condition, item
                part["measure"], part["probe"] = measure, probe
                shape = tuple(dataset.sizes[name] for name in KEYS[:3])
                for name in ("mle", "mean", "truth"):
                    values = found[name].transpose(..., "network", missing_dims="ignore").values
                    part[name] = np.broadcast_to(values, shape).ravel()
                parts.append(part)
    return pd.concat(parts, ignore_index=True)[[*KEYS, "mle", "mean", "truth"]]


def grid(rows: pd.DataFrame, column: str) -> np.ndarray:
    """(network, item): one column of `measures` for one measure, sampler and prior."""
    table = rows.pivot(index="network", columns="item", values=column)
    return np.asarray(table[list(dict.fromkeys(rows["item"]))].values, float)


def central_prior(dataset: xr.Dataset) -> float:
    """The prior variance of the main analysis, as the dataset spells it."""
    priors = np.asarray(dataset["prior"].values, float)
    wanted = float(dataset.attrs["central_prior"])
    near = priors[np.isclose(priors, wanted)]
    if not len(near):
        raise UserError(
            f"the central prior variance {wanted:g} is not among those that were run, "
            f"{join_names(f'{prior:g}' for prior in priors)}; set inference.central_prior to one."
        )
    return float(near[0])


def _measured(
    dataset: xr.Dataset, condition: str, item: str
) -> Iterator[tuple[str, str, list[str]]]:
    """Name, probe and units of each measure of one sentence."""
    tracked = json.loads(dataset.attrs["tracked"])
    indicated, plausible = tracked[condition][item], tracked[_baseline(dataset)][item]
    for role, unit in indicated.items():
        yield f"indicated {role}", role, [unit]
    for role, unit in plausible.items():
        if indicated.get(role, unit) != unit:
            yield f"plausible {role}", role, [unit]
    own = {unit for rows in tracked.values() for unit in rows[item].values()}
    others = [unit for unit in json.loads(dataset.attrs["non_relevant"]) if unit not in own]
    if others and indicated:
        role = "agent" if "agent" in indicated else next(iter(indicated))
        yield f"non-relevant {role}", role, others


def _baseline(dataset: xr.Dataset) -> str:
    return str(dataset["condition"].values[0])


def _check(dataset: xr.Dataset) -> None:
    """Everything that is to be measured was asked and has a unit."""
    tracked = json.loads(dataset.attrs["tracked"])
    pairs = {p for rows in tracked.values() for units in rows.values() for p in units.items()}
    probes, known = set(dataset["probe"].values), set(dataset["unit"].values)
    if missing := sorted({role for role, _ in pairs} - probes):
        raise UserError(
            f"{join_names(missing)} is tracked but was not asked; add it to stimuli.probes."
        )
    wanted = {unit for _, unit in pairs} | set(json.loads(dataset.attrs["non_relevant"]))
    if missing := sorted(wanted - known):
        raise UserError(
            f"the activations hold no unit {join_names(missing)}; "
            "mend the tracked units of the stimulus file or stimuli.non_relevant."
        )
