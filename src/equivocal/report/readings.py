"""Picks out of the dataset of a study what a figure shows: who is taken for agent, and when.

    indicated ROLE     unit that the syntax of the sentence puts into ROLE
    plausible ROLE     unit that has ROLE in the baseline sentence, where it is another one
    non-relevant       mean over the units listed for it, without those of the item itself

The dataset is the one written as `activations.nc`; see `equivocal.study.activations`.
"""

import xarray as xr

from equivocal.errors import UserError, join_names
from equivocal.report.style import COLOURS
from equivocal.study.activations import get_non_relevant, get_tracked

__all__ = [
    "COLOUR_OF",
    "NAME_OF",
    "answers",
    "at_critical",
    "central_prior",
    "conditions_of",
    "estimate_of",
    "non_relevant",
    "position_name",
    "roles_of",
    "series_of",
    "tracked_of",
]

NAME_OF = {
    "mle": "trained network (MLE)",
    "paper": "Bayesian, paper's sampler",
    "converged": "Bayesian, converged",
    "nuts": "NUTS",
}
COLOUR_OF = {
    "mle": COLOURS[0],
    "paper": COLOURS[1],
    "converged": COLOURS[2],
    "nuts": COLOURS[6],
}


def central_prior(dataset: xr.Dataset) -> float:
    """The prior variance of the main analysis."""
    return float(dataset.attrs["central_prior"])


def conditions_of(dataset: xr.Dataset) -> list[str]:
    """In order; the first is the baseline."""
    return [str(name) for name in dataset["condition"].values]


def tracked_of(dataset: xr.Dataset) -> dict[str, dict[str, dict[str, str]]]:
    """Unit by condition, item and role, for the items that the dataset holds."""
    return get_tracked(dataset)


def roles_of(dataset: xr.Dataset) -> list[str]:
    """Roles that are tracked and asked for, in the order in which they are tracked."""
    tracked = tracked_of(dataset)[conditions_of(dataset)[0]]
    roles = dict.fromkeys(role for units in tracked.values() for role in units)
    return [role for role in roles if role in dataset["probe"].values]


def estimate_of(
    dataset: xr.Dataset, estimate: str, prior: float | None = None, name: str = "mean"
) -> xr.DataArray:
    """Activations of the trained network (`"mle"`) or `name` of a sampler's posterior."""
    if estimate == "mle":
        return dataset["mle"]
    samplers = [str(sampler) for sampler in dataset["sampler"].values]
    if estimate not in samplers:
        known = join_names(["mle", *samplers])
        raise UserError(f"unknown estimate {estimate!r}; the dataset has {known}.")
    variance = central_prior(dataset) if prior is None else prior
    return dataset[name].sel(sampler=estimate).sel(prior=variance, method="nearest")


def series_of(dataset: xr.Dataset, condition: str) -> dict[str, dict[str, str]]:
    """Unit by item for each tracked role: indicated, then plausible; one series where they agree.

    In a reversal the indicated agent is the plausible patient: both names stand in one label.
    """
    tracked, baseline = tracked_of(dataset), conditions_of(dataset)[0]
    labels: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for kind, where in (("indicated", condition), ("plausible", baseline)):
        for role in roles_of(dataset):
            units = {item: row[role] for item, row in tracked[where].items() if role in row}
            if kind == "plausible":
                before = tracked[condition]
                units = {item: unit for item, unit in units.items() if unit != before[item][role]}
            if units:
                labels.setdefault(tuple(units.items()), []).append(f"{kind} {role}")
    return {" = ".join(names): dict(units) for units, names in labels.items()}


def answers(
    values: xr.DataArray, condition: str, probe: str, units: dict[str, str]
) -> xr.DataArray:
    """Activation of each item's own unit: `values` without condition, probe and unit."""
    chosen = values.sel(condition=condition, probe=probe)
    items = xr.DataArray(list(units), dims="item")
    return chosen.sel(item=items, unit=xr.DataArray(list(units.values()), dims="item"))


def non_relevant(
    dataset: xr.Dataset, values: xr.DataArray, condition: str, probe: str
) -> xr.DataArray | None:
    """Mean activation over the non-relevant units of each item that has some."""
    listed_units, tracked = get_non_relevant(dataset), get_tracked(dataset)
    parts = []
    for item in dataset["item"].values:
        own = {unit for rows in tracked.values() for unit in rows[str(item)].values()}
        others = [unit for unit in listed_units if unit not in own]
        if others:
            chosen = values.sel(condition=condition, probe=probe, item=[item], unit=others)
            parts.append(chosen.mean("unit"))
    return xr.concat(parts, "item") if parts else None


def at_critical(dataset: xr.Dataset, values: xr.DataArray, condition: str) -> xr.DataArray:
    """`values` of one condition at the critical word of each item."""
    items = values["item"].values
    where = dataset["critical"].sel(condition=condition, item=items)
    place = xr.DataArray(where.values, dims="item")
    return values.sel(item=xr.DataArray(items, dims="item"), position=place)


def position_name(dataset: xr.Dataset, condition: str, position: int) -> str:
    """What stands there in every sentence: a role's filler, the critical word, or just word 3.

    Sentences that are over by then do not count; where all are, the name is empty.
    """
    critical = dataset["critical"].sel(condition=condition)
    words = dataset["word"].sel(condition=condition, position=position)
    heard = {str(i): str(w) for i, w in zip(words["item"].values, words.values, strict=True) if w}
    if not heard:
        return ""
    tracked = tracked_of(dataset)[condition]
    for role in roles_of(dataset):
        if all(tracked[item].get(role) == word for item, word in heard.items()):
            return role
    if all(int(critical.sel(item=item)) == position for item in heard):
        return "critical word"
    return f"word {position}" if len(set(heard.values())) > 1 else next(iter(heard.values()))
