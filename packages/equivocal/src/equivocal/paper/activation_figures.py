"""Figures of activations: bars at the critical word, word by word, and against exact beliefs.

A `tabulate_…` function computes from the answers of a study the tidy table that a `draw_…` function
draws.
"""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.figure_style import COLOUR_OF, COLOURS, NAME_OF, add_legend, apply_style
from equivocal.paper.tables import (
    find_central_prior,
    get_tracked,
    list_non_relevant,
    list_own_units,
)

BINS = 10  # bins of exact probability; zero has another of its own
NON_RELEVANT = "non-relevant (mean)"
WIDTH = 0.36  # of a bar, if two stand side by side
THIN = {"lw": 1, "capsize": 2.5}


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


@apply_style()
def draw_activations(table: pd.DataFrame, condition: str) -> Figure:
    """Draw trained and Bayesian activations at the critical word, a panel for each probe.

    Parameters
    ----------
    table : DataFrame
        From `tabulate_critical`.
    condition : str
        The condition, for the title.
    """
    panels = list(table.groupby("probe", sort=False))
    figure = Figure(figsize=(3.3 * len(panels), 3.4))
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (probe, panel) in zip(grid, panels, strict=True):
        series = panel.groupby("estimate", sort=False)
        for shift, (estimate, part) in zip((-0.5, 0.5), series, strict=True):
            _draw_estimate(axes, part, str(estimate), shift)
        axes.set_title(f"{probe} probe", loc="left")
        names = [f"indicated {r.role}\n({r.units})" for r in part.itertuples()]
        axes.set_xticks(range(len(names)), names)
        axes.set(ylim=(0, 1.5), yticks=np.arange(0, 1.1, 0.25))  # room for the legend
    grid[0].set_ylabel("mean activation")
    figure.suptitle(f"{condition} sentences, at the critical word", fontsize=10)
    grid[0].legend(loc="upper left", fontsize=8)
    return figure


def _draw_estimate(axes: Axes, part: pd.DataFrame, estimate: str, shift: float) -> None:
    look: dict[str, Any] = {"edgecolor": "white", "error_kw": THIN}
    look |= {"color": COLOUR_OF[estimate], "label": NAME_OF[estimate]}
    look["hatch"] = "" if estimate == "mle" else "///"  # distinguishable in grey print too
    x = np.arange(len(part)) + shift * WIDTH
    bars = axes.bar(x, part["mean"], WIDTH, yerr=part["sd"], **look)
    axes.bar_label(bars, [f"{mean:.2g}" for mean in part["mean"]], padding=2, fontsize=8)


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


@apply_style()
def draw_word_grid(table: pd.DataFrame, condition: str, estimate: str) -> Figure:
    """Draw activations word by word: a row for each word heard, a column for each probe.

    Parameters
    ----------
    table : DataFrame
        From `tabulate_words`.
    condition, estimate : str
        For the title; the estimate is `"mle"` or a sampler.
    """
    probes = list(table["probe"].unique())
    places = table.drop_duplicates("position").set_index("position")["place"]
    cells = dict(iter(table.groupby(["position", "probe"])))
    figure = Figure(figsize=(1.75 * len(probes), 1.35 * len(places) + 0.9))
    grid = figure.subplots(len(places), len(probes), sharex=True, sharey=True, squeeze=False)
    for (position, place), row in zip(places.items(), grid, strict=True):
        for axes, probe in zip(row, probes, strict=True):
            _draw_series(axes, cells[position, probe])
        name = "" if place.startswith("word") else f":\n{place}"
        row[0].set_ylabel(f"word {position}{name}")
    for axes, probe in zip(grid[0], probes, strict=True):
        axes.set_title(f"{probe} probe")
    figure.supylabel("activation", fontsize=9)
    figure.suptitle(f"{condition} sentences: {NAME_OF[estimate]}", fontsize=10)
    note = "bars: mean; black lines: standard deviation over networks, items averaged"
    columns = max(1, 90 // (table["series"].str.len().max() + 8))  # as many as fit the width
    add_legend(figure, grid[0, 0], columns=columns, note=note)
    return figure


def _draw_series(axes: Axes, part: pd.DataFrame) -> None:
    bars = zip(part["series"], part["mean"], part["sd"], strict=True)
    for number, (series, mean, sd) in enumerate(bars):
        colour = "0.6" if series == NON_RELEVANT else COLOURS[number % len(COLOURS)]
        axes.bar(number, mean, 0.8, yerr=sd, color=colour, error_kw=THIN, label=series)
    axes.set_xticks([])
    axes.set_ylim(0, 1.05)


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


@apply_style()
def draw_calibration(table: pd.DataFrame, estimates: list[str]) -> Figure:
    """Draw the calibration of several estimates, a panel for each.

    Parameters
    ----------
    table : DataFrame
        From `tabulate_calibration`.
    estimates : list of str
        `"mle"` and the samplers, in order.
    """
    figure = Figure(figsize=(2.5 * len(estimates), 3.1))
    grid = figure.subplots(1, len(estimates), sharey=True, squeeze=False)[0]
    for axes, estimate in zip(grid, estimates, strict=True):
        part, title = table[table["estimate"] == estimate], NAME_OF[estimate]
        _draw_bins(axes, part, COLOUR_OF[estimate])
        title += f"\nmean absolute error {part['error'].iloc[0]:.4f}"
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("exact probability")
    grid[0].set_ylabel("activation (posterior mean)")
    figure.supxlabel("points: mean of a bin, lines: its middle 90 %", fontsize=8)
    return figure


def _draw_bins(axes: Axes, table: pd.DataFrame, colour: str) -> None:
    axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
    axes.vlines(table["truth"], table["low"], table["high"], color=colour, lw=1)
    axes.plot(table["truth"], table["activation"], "o", ms=4, color=colour)
    axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")


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


def select_estimate(dataset: xr.Dataset, estimate: str) -> xr.DataArray:
    """Select activations of the trained network (`"mle"`), or a sampler's at the central prior."""
    if estimate == "mle":
        return dataset["mle"]
    return dataset["mean"].sel(sampler=estimate, prior=find_central_prior(dataset))


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
