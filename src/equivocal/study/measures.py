"""The paper's measures: activations of a few units at the critical word of each sentence.

- "indicated ROLE": what the sentence's syntax makes the ROLE (reversal: pizza as agent)
- "plausible ROLE": the ROLE in the baseline condition, where it is another unit (woman as agent)
- "non-relevant agent": average over the units that belong to neither (chess, novel, … as agent)

A new measure is one more `yield` in `_list_measures`.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.errors import UserError, join_names
from equivocal.study.activations import get_non_relevant, get_tracked

KEYS = ["sampler", "prior", "network", "condition", "item", "measure", "probe"]


def compute_measures(dataset: xr.Dataset) -> pd.DataFrame:
    """Compute the measures of every sentence, in double precision.

    Parameters
    ----------
    dataset : Dataset
        As `activations.nc` holds it.

    Returns
    -------
    DataFrame
        A row per sampler, prior, network, condition, item and measure; `mle`, `mean` and `truth`.
    """
    _check_units(dataset)
    parts = []
    for condition, item, measure, probe, units in _list_measures(dataset):
        position = int(dataset["critical"].sel(condition=condition, item=item))
        here = dataset[["mle", "mean", "truth"]].sel(
            condition=condition, item=item, position=position, probe=probe, unit=units
        )
        found = here.astype(float).mean("unit", skipna=False)
        rows = found.to_dataframe(dim_order=list(KEYS[:3])).reset_index()
        parts.append(rows.assign(measure=measure))
    return pd.concat(parts, ignore_index=True)[[*KEYS, "mle", "mean", "truth"]]


def arrange_grid(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Arrange one column, for one measure, sampler and prior, as (network, item)."""
    table = rows.pivot(index="network", columns="item", values=column)
    return np.asarray(table[list(dict.fromkeys(rows["item"]))].values, float)


def find_central_prior(dataset: xr.Dataset) -> float:
    """Find the prior variance of the main analysis among those of the dataset."""
    priors = np.asarray(dataset["prior"].values, float)
    wanted = float(dataset.attrs["central_prior"])
    near = priors[np.isclose(priors, wanted)]
    if not len(near):
        raise UserError(
            f"the central prior variance {wanted:g} is not among those that were run, "
            f"{join_names(f'{prior:g}' for prior in priors)}; set inference.central_prior to one."
        )
    return float(near[0])


def _list_measures(dataset: xr.Dataset) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield condition, item, name, probe and units of each measure."""
    tracked, listed = get_tracked(dataset), get_non_relevant(dataset)
    baseline = next(iter(tracked.values()))
    for condition, items in tracked.items():
        for item, indicated in items.items():
            for role, unit in indicated.items():
                yield condition, item, f"indicated {role}", role, [unit]
            for role, unit in baseline[item].items():
                if indicated.get(role, unit) != unit:
                    yield condition, item, f"plausible {role}", role, [unit]
            own = {unit for rows in tracked.values() for unit in rows[item].values()}
            others = [unit for unit in listed if unit not in own]
            if others and indicated:
                role = "agent" if "agent" in indicated else next(iter(indicated))
                yield condition, item, f"non-relevant {role}", role, others


def _check_units(dataset: xr.Dataset) -> None:
    """Refuse a dataset in which something that is to be measured was not asked or has no unit."""
    rows = [units for items in get_tracked(dataset).values() for units in items.values()]
    asked, known = set(dataset["probe"].values), set(dataset["unit"].values)
    if missing := sorted({role for units in rows for role in units} - asked):
        raise UserError(
            f"{join_names(missing)} is tracked but was not asked; add it to stimuli.probes."
        )
    wanted = {unit for units in rows for unit in units.values()} | set(get_non_relevant(dataset))
    if missing := sorted(wanted - known):
        raise UserError(
            f"the activations hold no unit {join_names(missing)}; "
            "correct the tracked units of the stimulus file or stimuli.non_relevant."
        )
