"""Selections from the dataset of a study (`activations.nc`), and the paper's measures from it.

Measures are activations of a few units at the critical word of each sentence.

- "indicated ROLE": what the sentence's syntax makes the ROLE (reversal: pizza as agent)
- "plausible ROLE": the ROLE in the baseline condition, where it is another unit (woman as agent)
- "non-relevant agent": average over the units that belong to neither (chess, novel, … as agent)

A new measure is one more `yield` in `list_measures`; `equivocal.study.figure_tables` makes tables
of the other selections.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.errors import UserError, check_known, join_names

__all__ = ["list_conditions"]

Tracked = dict[str, dict[str, dict[str, str]]]  # units by condition, item and role
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
    listed = list_measures(get_tracked(dataset), list_non_relevant(dataset))
    parts = []
    for condition, item, measure, probe, units in listed:
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


def list_measures(
    tracked: Tracked, non_relevant: Sequence[str]
) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield condition, item, name, probe and units of each measure.

    Parameters
    ----------
    tracked : dict
        Units by condition, item and role; the first condition is the baseline.
    non_relevant : sequence of str
        Units that should stay off; those of an item itself are left out there.
    """
    baseline = next(iter(tracked.values()))
    for condition, items in tracked.items():
        for item, indicated in items.items():
            for role, unit in indicated.items():
                yield condition, item, f"indicated {role}", role, [unit]
            for role, unit in baseline[item].items():
                if indicated.get(role, unit) != unit:
                    yield condition, item, f"plausible {role}", role, [unit]
            own = {unit for rows in tracked.values() for unit in rows[item].values()}
            others = [unit for unit in non_relevant if unit not in own]
            if indicated and others:
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
    wanted = {unit for units in rows for unit in units.values()} | set(list_non_relevant(dataset))
    if missing := sorted(wanted - known):
        raise UserError(
            f"the activations hold no unit {join_names(missing)}; "
            "correct the tracked units of the stimulus file or stimuli.non_relevant."
        )


def get_tracked(dataset: xr.Dataset) -> Tracked:
    """Return the tracked units of a dataset by condition, item and role."""
    tracked: Tracked = {}
    listed = dataset["tracked"].to_series()
    for (condition, item, role), unit in zip(listed.index.to_list(), listed, strict=True):
        units = tracked.setdefault(condition, {}).setdefault(item, {})
        if unit:
            units[role] = unit
    return tracked


def list_own_units(dataset: xr.Dataset, item: str) -> set[str]:
    """Return the units that an item tracks in any condition."""
    return {unit for rows in get_tracked(dataset).values() for unit in rows[item].values()}


def list_non_relevant(dataset: xr.Dataset, item: str | None = None) -> list[str]:
    """Return the units that should stay off, without those of an item itself."""
    if "non_relevant" not in dataset.coords:
        return []
    own = list_own_units(dataset, item) if item is not None else set()
    return [unit for unit in map(str, dataset["non_relevant"].values) if unit not in own]


def list_conditions(dataset: xr.Dataset) -> list[str]:
    """Return the conditions in order; the first is the baseline."""
    return [str(name) for name in dataset["condition"].values]


def list_roles(dataset: xr.Dataset) -> list[str]:
    """Return the roles that are tracked and asked for, in the order in which they are tracked."""
    tracked = get_tracked(dataset)[list_conditions(dataset)[0]]
    roles = dict.fromkeys(role for units in tracked.values() for role in units)
    return [role for role in roles if role in dataset["probe"].values]


def select_units(dataset: xr.Dataset, condition: str, role: str) -> dict[str, str]:
    """Return the unit that each item tracks for a role."""
    tracked = get_tracked(dataset)[condition]
    return {item: row[role] for item, row in tracked.items() if role in row}


def select_estimate(dataset: xr.Dataset, estimate: str, name: str = "mean") -> xr.DataArray:
    """Return activations of the trained network (`"mle"`), or `name` of a sampler's posterior.

    The prior variance is that of the main analysis.
    """
    if estimate == "mle":
        return dataset["mle"]
    check_known(estimate, ["mle", *map(str, dataset["sampler"].values)], "estimate")
    return dataset[name].sel(sampler=estimate, prior=find_central_prior(dataset))


def list_series(dataset: xr.Dataset, condition: str) -> dict[str, dict[str, str]]:
    """Return the unit of each item by the name of its reading: indicated, then plausible roles.

    In a reversal the indicated agent is the plausible patient: both names stand in one label.
    """
    baseline, roles = list_conditions(dataset)[0], list_roles(dataset)
    labels: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for kind, where in (("indicated", condition), ("plausible", baseline)):
        for role in roles:
            units, indicated = (select_units(dataset, c, role) for c in (where, condition))
            if kind == "plausible":
                units = {
                    item: unit for item, unit in units.items() if unit != indicated.get(item, unit)
                }
            if units:
                labels.setdefault(tuple(units.items()), []).append(f"{kind} {role}")
    return {" = ".join(names): dict(units) for units, names in labels.items()}


def select_answers(
    values: xr.DataArray, condition: str, probe: str, units: dict[str, str]
) -> xr.DataArray:
    """Return the activation of each item's own unit, without condition, probe and unit."""
    chosen = values.sel(condition=condition, probe=probe)
    items = xr.DataArray(list(units), dims="item")
    return chosen.sel(item=items, unit=xr.DataArray(list(units.values()), dims="item"))


def average_non_relevant(
    dataset: xr.Dataset, values: xr.DataArray, condition: str, probe: str
) -> xr.DataArray | None:
    """Return the mean activation over the non-relevant units of each item that has some."""
    chosen = values.sel(condition=condition, probe=probe)
    parts = [
        chosen.sel(item=[item], unit=others).mean("unit")
        for item in dataset["item"].values
        if (others := list_non_relevant(dataset, item))
    ]
    return xr.concat(parts, "item") if parts else None


def name_position(dataset: xr.Dataset, condition: str, position: int) -> str:
    """Name what stands there in every sentence: a role, the critical word, or just "word 3".

    Sentences that are over by then do not count; where all are, the name is empty.
    """
    critical = dataset["critical"].sel(condition=condition)
    words = dataset["word"].sel(condition=condition, position=position)
    heard = {str(i): str(w) for i, w in zip(words["item"].values, words.values, strict=True) if w}
    if not heard:
        return ""
    tracked = get_tracked(dataset)[condition]
    for role in list_roles(dataset):
        if all(tracked[item].get(role) == word for item, word in heard.items()):
            return role
    if all(int(critical.sel(item=item)) == position for item in heard):
        return "critical word"
    return f"word {position}" if len(set(heard.values())) > 1 else next(iter(heard.values()))
