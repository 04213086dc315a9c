"""How sure the answers are, after each word, and how near to the exact beliefs of the world."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import entr

from equivocal.report.nuts_figures import nuts_figure
from equivocal.report.readings import (
    COLOUR_OF,
    NAME_OF,
    answers,
    conditions_of,
    estimate_of,
    position_name,
    roles_of,
    tracked_of,
)
from equivocal.report.style import COLOURS, publication_style

__all__ = ["calibration_panels", "nuts_figure", "uncertainty_figure"]

BINS = 10  # of exact probability; zero has one of its own


def uncertainty_figure(dataset: xr.Dataset) -> Figure:
    """Entropy after each word, split into its two parts; a row for each sampler."""
    samplers, conditions = list(map(str, dataset["sampler"].values)), conditions_of(dataset)
    positions = [int(p) for p in dataset["position"].values]
    with publication_style():
        figure = Figure(figsize=(3.5 * len(conditions), 2.2 * len(samplers) + 0.7))
        grid = figure.subplots(len(samplers), len(conditions), sharey=True, squeeze=False)
        for row, sampler in zip(grid, samplers, strict=True):
            for axes, condition in zip(row, conditions, strict=True):
                _entropy_bars(axes, dataset, sampler, condition)
                names = [position_name(dataset, condition, p) for p in positions]
                axes.set_xticks(
                    positions, [name.replace("critical ", "critical\n") for name in names]
                )
                axes.set_xlim(positions[0] - 0.5, positions[-1] + 0.5)
                axes.set_title(f"{condition}: {NAME_OF.get(sampler, sampler)}", fontsize=9)
            row[0].set_ylabel("entropy per unit (nats)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        note = "error bars: standard deviation of the total over networks; items averaged"
        figure.legend(handles, labels, loc="outside lower center", ncols=3, title=note)
        return figure


def _entropy_bars(axes: Axes, dataset: xr.Dataset, sampler: str, condition: str) -> None:
    trained = _tracked_mean(dataset, _entropy(dataset["mle"]), condition)
    total = _tracked_mean(dataset, _entropy(estimate_of(dataset, sampler)), condition)
    given = estimate_of(dataset, sampler, name="expected")
    expected = _tracked_mean(dataset, given, condition)
    x = dataset["position"].values
    aleatoric, whole = expected.mean("network"), total.mean("network")
    spread = total.std("network", ddof=1) if total.sizes["network"] > 1 else None
    axes.bar(x, aleatoric, 0.6, color=COLOURS[5], label="expected (aleatoric)")
    axes.bar(
        x,
        whole - aleatoric,
        0.6,
        bottom=aleatoric,
        yerr=spread,
        color=COLOURS[1],
        hatch="///",
        edgecolor="white",
        error_kw={"lw": 1, "capsize": 2.5},
        label="epistemic (total − expected)",
    )
    where = trained.mean("network")
    label = "trained network (MLE), total"
    axes.scatter(x, where, marker="_", s=500, color="black", lw=1.8, zorder=3, label=label)


def _entropy(values: xr.DataArray) -> xr.DataArray:
    """Of a yes-or-no unit, in nats."""
    return values.copy(data=entr(values.values) + entr(1 - values.values))


def _tracked_mean(dataset: xr.Dataset, values: xr.DataArray, condition: str) -> xr.DataArray:
    """(network, position): mean over items, tracked roles as probes, and tracked units."""
    tracked, roles = tracked_of(dataset)[condition], roles_of(dataset)
    parts = [
        answers(values, condition, probe, units).mean("item")
        for probe in roles
        for role in roles
        if (units := {item: row[role] for item, row in tracked.items() if role in row})
    ]
    return xr.concat(parts, "part").mean("part").transpose("network", "position")


def calibration_panels(dataset: xr.Dataset) -> Figure:
    """Activation against exact belief, where there is one: points are bins, lines middle 90 %."""
    estimates = ["mle", *map(str, dataset["sampler"].values)]
    shown = _with_truth(dataset)
    with publication_style():
        figure = Figure(figsize=(2.5 * len(estimates), 3.1))
        grid = figure.subplots(1, len(estimates), sharey=True, squeeze=False)[0]
        for axes, estimate in zip(grid, estimates, strict=True):
            values = estimate_of(dataset, estimate).transpose("network", *shown.dims)
            picked = values.values[:, shown.values]
            exact = dataset["truth"].transpose(*shown.dims).values[shown.values]
            axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
            error = _calibration_points(axes, exact, picked, COLOUR_OF.get(estimate, COLOURS[3]))
            axes.set_title(f"{NAME_OF.get(estimate, estimate)}\n{error}", fontsize=9)
            axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal")
            axes.set_xlabel("exact probability")
        grid[0].set_ylabel("activation (posterior mean)")
        figure.supxlabel("points: mean of a bin, lines: its middle 90 %", fontsize=8)
        return figure


def _with_truth(dataset: xr.Dataset) -> xr.DataArray:
    """Where a belief is known and either not zero or about a tracked unit of the item."""
    truth, tracked = dataset["truth"], tracked_of(dataset)
    own = xr.zeros_like(truth, dtype=bool)
    for item in map(str, dataset["item"].values):
        units = {unit for rows in tracked.values() for unit in rows[item].values()}
        own.loc[{"item": item, "unit": list(units)}] = True
    return truth.notnull() & ((truth > 0) | own)


def _calibration_points(axes: Axes, exact: np.ndarray, values: np.ndarray, colour: str) -> str:
    """Draws the bins; returns what to say about them. `values` is (network, question)."""
    if not exact.size:
        axes.text(0.5, 0.5, "no exact beliefs\nfor this study", ha="center", va="center")
        return ""
    group = np.where(exact <= 0, 0, np.ceil(exact * BINS - 1e-6))
    for number in np.unique(group):
        chosen = group == number
        low, high = np.quantile(values[:, chosen], (0.05, 0.95))
        x = exact[chosen].mean()
        axes.vlines(x, low, high, color=colour, lw=1)
        axes.plot(x, values[:, chosen].mean(), "o", ms=4, color=colour)
    return f"mean absolute error {np.abs(values - exact).mean():.4f}"
