"""The tables behind the figures of a study: means, spreads, effects, entropies and calibration.

Each function takes the dataset of a study and returns one tidy table, which a function of
`equivocal.paper` draws.

A new figure needs a `tabulate_…` function here and a function of `equivocal.paper` that draws it.
"""

from itertools import product

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import entr
from scipy.stats import gmean

from equivocal.paper.tables import (
    compute_measures,
    find_central_prior,
    get_tracked,
    list_non_relevant,
    list_own_units,
)
from equivocal.statistics.summaries import LEVEL, MEAN, append_means
from lastlayer.errors import check_known

__all__ = [
    "NON_RELEVANT",
    "add_reference_levels",
    "find_stop_time",
    "list_conditions",
]

BINS = 10  # bins of exact probability; zero has another of its own
NON_RELEVANT = "non-relevant (mean)"
ALPHA = 1 - LEVEL


def select_clear_changes(paired: pd.DataFrame, estimate: str) -> pd.DataFrame:
    """Select measures that change significantly and alike on activations and on logits.

    Parameters
    ----------
    paired : DataFrame
        `tables/paired_models.csv`.
    estimate : str
        "paper" or "converged".
    """
    rows = paired[paired["estimate"] == estimate]
    same = np.sign(rows["mean"]) == np.sign(rows["logit_mean"])
    clear = (rows["p_holm"] < ALPHA) & (rows["logit_p_holm"] < ALPHA) & same
    return pd.DataFrame(rows[clear])


def select_largest_change(priors: pd.DataFrame) -> pd.DataFrame:
    """Select, under every prior, the indicated unit that the paper's sampler changes most.

    Parameters
    ----------
    priors : DataFrame
        `tables/priors_models.csv`.
    """
    rows = priors[(priors["estimate"] == "paper") & priors["measure"].str.startswith("indicated")]
    if rows.empty:
        return rows
    largest = rows.iloc[int(np.argmax(rows["mean"].abs().to_numpy()))]
    same = (rows["condition"] == largest["condition"]) & (rows["measure"] == largest["measure"])
    return pd.DataFrame(rows[same])


def tabulate_critical(dataset: xr.Dataset, condition: str, sampler: str = "paper") -> pd.DataFrame:
    """Tabulate trained and Bayesian activations at the critical word.

    Parameters
    ----------
    dataset : xarray.Dataset
        The activations of a study.
    condition, sampler : str
        One of its conditions, and one of its samplers.

    Returns
    -------
    DataFrame
        A row for each estimate ("mle" or the sampler), probe and role: the units that are
        indicated for the role, their mean over networks and items, and the standard deviation over
        items of the networks' mean.
    """
    rows, roles = [], list_roles(dataset)
    for probe, estimate, role in product(roles, ("mle", sampler), roles):
        units = select_units(dataset, condition, role)
        values = select_estimate(dataset, estimate)
        chosen = select_answers(values, condition, probe, units)
        place = dataset["critical"].sel(condition=condition, item=chosen["item"].values)
        by_item = chosen.sel(position=place).mean("network")
        named = list(dict.fromkeys(units.values()))
        example = named[0] if len(named) == 1 else f"{named[0]}, …"
        mean, sd = float(by_item.mean()), _compute_sd(by_item, "item")
        rows.append((estimate, probe, role, example, mean, float(sd)))
    return pd.DataFrame(rows, columns=["estimate", "probe", "role", "units", "mean", "sd"])


def tabulate_words(dataset: xr.Dataset, condition: str, estimate: str) -> pd.DataFrame:
    """Tabulate activations word by word.

    Parameters
    ----------
    dataset : xarray.Dataset
        The activations of a study.
    condition, estimate : str
        One of its conditions, and `"mle"` or one of its samplers.

    Returns
    -------
    DataFrame
        A row for each probe, position and series (`list_series`, and the non-relevant units):
        mean and standard deviation over networks of the items' mean.
    """
    values = select_estimate(dataset, estimate)
    positions = [int(position) for position in dataset["position"].values]
    places = [name_position(dataset, condition, p) for p in positions]
    parts = []
    for probe in map(str, dataset["probe"].values):
        shown = {
            label: select_answers(values, condition, probe, units)
            for label, units in list_series(dataset, condition).items()
        }
        others = average_non_relevant(dataset, values, condition, probe)
        if others is not None:
            shown[NON_RELEVANT] = others
        for label, answers in shown.items():
            by_network = answers.mean("item")
            part = pd.DataFrame(
                {
                    "probe": probe,
                    "position": positions,
                    "place": places,
                    "series": label,
                    "mean": by_network.mean("network").values,
                    "sd": _compute_sd(by_network, "network").values,
                }
            )
            parts.append(part[part["place"] != ""])  # words that no sentence of the condition has
    return pd.concat(parts, ignore_index=True)


def _compute_sd(values: xr.DataArray, over: str) -> xr.DataArray:
    """Return the sample standard deviation; for a single value NaN, so that no bar is drawn."""
    return values.std(over, ddof=1) if values.sizes[over] > 1 else values.isel({over: 0}) * np.nan


def tabulate_prior_effects(dataset: xr.Dataset) -> pd.DataFrame:
    """Tabulate Bayesian minus trained activation at the critical word for each prior variance.

    Returns
    -------
    DataFrame
        A row for each condition except the baseline, measure, sampler, prior and network, averaged
        over items; then the means over networks, whose network is `MEAN`.
    """
    table = compute_measures(dataset)
    others = list_conditions(dataset)[1:] or list_conditions(dataset)
    chosen = table["condition"].isin(others) & ~table["measure"].str.startswith("plausible")
    table = table[chosen].assign(effect=lambda rows: rows["mean"] - rows["mle"])
    keys = ["condition", "measure", "probe", "sampler", "prior", "network"]
    effects = table.groupby(keys, sort=False)["effect"].mean().reset_index()
    return append_means(effects, *keys[:-1])


def tabulate_path(path: xr.Dataset) -> pd.DataFrame:
    """Tabulate activations along sampler time, averaged over items.

    Parameters
    ----------
    path : xarray.Dataset
        The file `path.nc` of a study.

    Returns
    -------
    DataFrame
        A row for each network and step: the time τ and the activation of each measure; then the
        means over networks (the geometric mean of time). The attributes are those of the path.
    """
    table = path.mean("item").to_dataframe().reset_index()
    measures = dict.fromkeys(map(str, path.data_vars), "mean")
    means = table.groupby("step", as_index=False).agg({**measures, "time": gmean})
    table = pd.concat([table, means.assign(network=MEAN)], ignore_index=True)
    table.attrs = dict(path.attrs)
    return table


def find_stop_time(dataset: xr.Dataset) -> float:
    """Find the τ at which the paper's sampler stopped: the median over units and networks."""
    times = dataset["time"].sel(sampler="paper", prior=find_central_prior(dataset))
    return float(np.nanmedian(times))


def add_reference_levels(path: xr.Dataset, dataset: xr.Dataset) -> xr.Dataset:
    """Add to a path's attributes the mean levels of trained networks and converged posterior.

    And `stop_time`, the τ at which the paper's sampler stopped.
    """
    rows = compute_measures(dataset)
    rows = rows[
        (rows["sampler"] == "converged")
        & np.isclose(rows["prior"], find_central_prior(dataset))
        & (rows["condition"] == path.attrs["condition"])
        & rows["network"].isin(path["network"].values)
    ]
    levels = {"stop_time": find_stop_time(dataset)}
    for name in (str(variable) for variable in path.data_vars if variable != "time"):
        chosen = rows[rows["measure"] == name.replace("_", " ")]
        levels[f"mle_{name}"] = float(chosen["mle"].mean())
        levels[f"converged_{name}"] = float(chosen["mean"].mean())
    return path.assign_attrs(levels)


def tabulate_entropies(dataset: xr.Dataset) -> pd.DataFrame:
    """Tabulate entropies after each word, averaged over items, tracked roles and tracked units.

    Returns
    -------
    DataFrame
        A row for each sampler, condition and position: total entropy of the posterior's mean
        answer with its standard deviation over networks, the part expected once the weights are
        known (aleatoric), and the entropy of the trained network's answer.
    """
    parts, positions = [], [int(position) for position in dataset["position"].values]
    samplers = map(str, dataset["sampler"].values)
    for sampler, condition in product(samplers, list_conditions(dataset)):
        total, expected, trained = (
            _average_tracked(dataset, values, condition)
            for values in (
                _compute_entropy(select_estimate(dataset, sampler)),
                select_estimate(dataset, sampler, name="expected"),
                _compute_entropy(dataset["mle"]),
            )
        )
        columns = {
            "sampler": sampler,
            "condition": condition,
            "position": positions,
            "place": [name_position(dataset, condition, p) for p in positions],
            "total": total.mean("network").values,
            "sd": _compute_sd(total, "network").values,
            "expected": expected.mean("network").values,
            "trained": trained.mean("network").values,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _compute_entropy(values: xr.DataArray) -> xr.DataArray:
    """Return the entropy of a yes-or-no unit, in nats."""
    return values.copy(data=entr(values.values) + entr(1 - values.values))


def _average_tracked(dataset: xr.Dataset, values: xr.DataArray, condition: str) -> xr.DataArray:
    """Return (network, position): mean over items, tracked roles as probes, and tracked units."""
    roles = list_roles(dataset)
    parts = [
        select_answers(values, condition, probe, units).mean("item")
        for probe in roles
        for role in roles
        if (units := select_units(dataset, condition, role))
    ]
    return xr.concat(parts, "part").mean("part").transpose("network", "position")


def tabulate_calibration(dataset: xr.Dataset) -> pd.DataFrame:
    """Tabulate activations by exact probability, wherever that is defined.

    Returns
    -------
    DataFrame
        A row for each estimate and bin of exact probability (zero has its own): mean exact
        probability `truth`, mean `activation` and its 5 % and 95 % quantile, and the estimate's
        mean absolute `error` over all bins. Empty where no exact belief is defined.
    """
    chosen = _mark_known(dataset)
    exact = dataset["truth"].transpose(*chosen.dims).values[chosen.values]
    group = np.where(exact <= 0, 0, np.ceil(exact * BINS - 1e-6))
    rows = []
    for estimate in ["mle", *map(str, dataset["sampler"].values)]:
        values = select_estimate(dataset, estimate).transpose("network", *chosen.dims)
        answers = values.values[:, chosen.values]
        for number in np.unique(group):
            in_bin = group == number
            low, high = np.quantile(answers[:, in_bin], (0.05, 0.95))
            mean, error = answers[:, in_bin].mean(), np.abs(answers - exact).mean()
            rows.append((estimate, exact[in_bin].mean(), mean, low, high, error))
    return pd.DataFrame(rows, columns=["estimate", "truth", "activation", "low", "high", "error"])


def _mark_known(dataset: xr.Dataset) -> xr.DataArray:
    """Mark the defined exact beliefs that are above zero or about a tracked unit of the item."""
    truth = dataset["truth"]
    own = xr.zeros_like(truth, dtype=bool)
    for item in map(str, dataset["item"].values):
        own.loc[{"item": item, "unit": list(list_own_units(dataset, item))}] = True
    return truth.notnull() & ((truth > 0) | own)


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
    """Select activations of the trained network (`"mle"`), or a sampler's variable called `name`.

    The prior variance is that of the main analysis.
    """
    if estimate == "mle":
        return dataset["mle"]
    check_known(estimate, ["mle", *map(str, dataset["sampler"].values)], "estimate")
    return dataset[name].sel(sampler=estimate, prior=find_central_prior(dataset))


def list_series(dataset: xr.Dataset, condition: str) -> dict[str, dict[str, str]]:
    """List the series of a figure: by label, the unit that each item shows.

    Indicated roles come before plausible ones. In a reversal the indicated agent is the plausible
    patient, so that both names stand in one label.
    """
    baseline, roles = list_conditions(dataset)[0], list_roles(dataset)
    indicated = {role: select_units(dataset, condition, role) for role in roles}
    labels: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for role, units in indicated.items():
        labels.setdefault(tuple(units.items()), []).append(f"indicated {role}")
    for role, units in indicated.items():
        plausible = select_units(dataset, baseline, role).items()
        changed = tuple((item, unit) for item, unit in plausible if unit != units.get(item, unit))
        labels.setdefault(changed, []).append(f"plausible {role}")
    labels.pop((), None)  # roles that no item tracks, or whose units are all as in the baseline
    return {" = ".join(names): dict(units) for units, names in labels.items()}


def select_answers(
    values: xr.DataArray, condition: str, probe: str, units: dict[str, str]
) -> xr.DataArray:
    """Select the activation of each item's own unit for one condition and probe."""
    chosen = values.sel(condition=condition, probe=probe)
    items = xr.DataArray(list(units), dims="item")
    return chosen.sel(item=items, unit=xr.DataArray(list(units.values()), dims="item"))


def average_non_relevant(
    dataset: xr.Dataset, values: xr.DataArray, condition: str, probe: str
) -> xr.DataArray | None:
    """Return the mean activation of each item's non-relevant units, or None if no item has any."""
    chosen = values.sel(condition=condition, probe=probe)
    parts = [
        chosen.sel(item=[item], unit=others).mean("unit")
        for item in dataset["item"].values
        if (others := list_non_relevant(dataset, item))
    ]
    return xr.concat(parts, "item") if parts else None


def name_position(dataset: xr.Dataset, condition: str, position: int) -> str:
    """Name a position: the role or word that all sentences have there, "critical word" or "word 3".

    Shorter sentences do not count; where all are shorter, the name is empty.
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
