"""Selections from the dataset of a study (`activations.nc`): whose activation, asked how, and when.

    indicated ROLE     unit that the syntax of the sentence puts into ROLE
    plausible ROLE     unit that has ROLE in the baseline sentence, where it is another one
    non-relevant       mean over the units listed for it, without those of the item itself

`equivocal.study.summaries` makes tables of them; `equivocal.study.activations`, the dataset.
"""

import xarray as xr

from equivocal.errors import UserError, join_names
from equivocal.study.activations import get_non_relevant, get_tracked


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


def select_estimate(
    dataset: xr.Dataset, estimate: str, prior: float | None = None, name: str = "mean"
) -> xr.DataArray:
    """Return activations of the trained network (`"mle"`), or `name` of a sampler's posterior.

    The prior variance is that of the main analysis unless another is given.
    """
    if estimate == "mle":
        return dataset["mle"]
    samplers = [str(sampler) for sampler in dataset["sampler"].values]
    if estimate not in samplers:
        known = join_names(["mle", *samplers])
        raise UserError(f"unknown estimate {estimate!r}; the dataset has {known}.")
    variance = float(dataset.attrs["central_prior"]) if prior is None else prior
    return dataset[name].sel(sampler=estimate).sel(prior=variance, method="nearest")


def list_series(dataset: xr.Dataset, condition: str) -> dict[str, dict[str, str]]:
    """Return the unit of each item by the name of its reading: indicated, then plausible roles.

    In a reversal the indicated agent is the plausible patient: both names stand in one label.
    """
    tracked, baseline = get_tracked(dataset), list_conditions(dataset)[0]
    labels: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for kind, where in (("indicated", condition), ("plausible", baseline)):
        for role in list_roles(dataset):
            units = select_units(dataset, where, role)
            if kind == "plausible":
                before = tracked[condition]
                units = {item: unit for item, unit in units.items() if unit != before[item][role]}
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
    listed_units, tracked = get_non_relevant(dataset), get_tracked(dataset)
    parts = []
    for item in dataset["item"].values:
        own = {unit for rows in tracked.values() for unit in rows[str(item)].values()}
        others = [unit for unit in listed_units if unit not in own]
        if others:
            chosen = values.sel(condition=condition, probe=probe, item=[item], unit=others)
            parts.append(chosen.mean("unit"))
    return xr.concat(parts, "item") if parts else None


def select_critical(dataset: xr.Dataset, values: xr.DataArray, condition: str) -> xr.DataArray:
    """Return `values` of one condition at the critical word of each item."""
    items = values["item"].values
    where = dataset["critical"].sel(condition=condition, item=items)
    place = xr.DataArray(where.values, dims="item")
    return values.sel(item=xr.DataArray(items, dims="item"), position=place)


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
