"""Bars of what networks and posteriors answer: at the critical word, and word by word."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.report.readings import (
    COLOUR_OF,
    NAME_OF,
    answers,
    at_critical,
    estimate_of,
    non_relevant,
    position_name,
    roles_of,
    series_of,
    tracked_of,
)
from equivocal.report.style import COLOURS, publication_style

__all__ = ["mean_activation_figure", "word_grid_figure"]

WIDTH = 0.36  # of a bar, where two stand side by side
NON_RELEVANT = "non-relevant (mean)"


def mean_activation_figure(
    dataset: xr.Dataset, condition: str, sampler: str = "paper", prior: float | None = None
) -> Figure:
    """A panel for each probe: trained against Bayesian activations at the critical word.

    Bars are means over networks and items; `prior` is the central one unless told.
    """
    roles = roles_of(dataset)
    with publication_style():
        figure = Figure(figsize=(3.3 * len(roles), 3.4))
        grid = figure.subplots(1, len(roles), sharey=True, squeeze=False)[0]
        for axes, probe in zip(grid, roles, strict=True):
            for shift, estimate in ((-0.5, "mle"), (0.5, sampler)):
                values = estimate_of(dataset, estimate, prior)
                _critical_bars(axes, dataset, values, condition, probe, shift, estimate)
            axes.set_title(f"{probe} probe", loc="left")
            axes.set_xticks(range(len(roles)), [_named(dataset, condition, r) for r in roles])
            axes.set_ylim(0, 1.15)
        grid[0].set_ylabel("mean activation")
        figure.suptitle(f"{condition} sentences, at the critical word", fontsize=10)
        handles, labels = grid[0].get_legend_handles_labels()
        note = "black lines: standard deviation over items of the networks' mean"
        figure.legend(handles, labels, loc="outside lower center", ncols=2, title=note)
        return figure


def _critical_bars(
    axes: Axes,
    dataset: xr.Dataset,
    values: xr.DataArray,
    condition: str,
    probe: str,
    shift: float,
    estimate: str,
) -> None:
    tracked = tracked_of(dataset)[condition]
    means, spreads = [], []
    for role in roles_of(dataset):
        units = {item: row[role] for item, row in tracked.items() if role in row}
        chosen = at_critical(dataset, answers(values, condition, probe, units), condition)
        by_item = chosen.mean("network")
        means.append(float(by_item.mean()))
        spreads.append(_spread(by_item, "item"))
    bars = axes.bar(
        np.arange(len(means)) + shift * WIDTH,
        means,
        WIDTH,
        yerr=spreads,
        color=COLOUR_OF.get(estimate, COLOURS[1]),
        hatch="" if estimate == "mle" else "///",  # told apart in grey print too
        edgecolor="white",
        error_kw={"lw": 1, "capsize": 2.5},
        label=NAME_OF.get(estimate, estimate),
    )
    axes.bar_label(bars, [f"{mean:.2g}" for mean in means], padding=2, fontsize=7)


def _named(dataset: xr.Dataset, condition: str, role: str) -> str:
    """What a group of bars is called, with an example, since items differ."""
    units = [row[role] for row in tracked_of(dataset)[condition].values() if role in row]
    example = units[0] if len(set(units)) == 1 else f"{units[0]}, …"
    return f"indicated {role}\n({example})"


def _spread(values: xr.DataArray, over: str) -> xr.DataArray | float:
    """Sample standard deviation; NaN, which draws no bar, where there is only one value."""
    return values.std(over, ddof=1) if values.sizes[over] > 1 else values.isel({over: 0}) * np.nan


def word_grid_figure(dataset: xr.Dataset, condition: str, estimate: str) -> Figure:
    """A row for each word heard, a column for each probe; `estimate` is `"mle"` or a sampler."""
    values = estimate_of(dataset, estimate)
    probes = [str(probe) for probe in dataset["probe"].values]
    named = {int(p): position_name(dataset, condition, int(p)) for p in dataset["position"].values}
    positions = [position for position, name in named.items() if name]
    with publication_style():
        figure = Figure(figsize=(1.75 * len(probes), 1.35 * len(positions) + 0.9))
        grid = figure.subplots(len(positions), len(probes), sharex=True, sharey=True, squeeze=False)
        for column, probe in enumerate(probes):
            shown = _shown(dataset, values, condition, probe)
            for row, position in enumerate(positions):
                _word_bars(grid[row, column], shown, position)
            grid[0, column].set_title(f"{probe} probe")
        for row, position in zip(grid, positions, strict=True):
            name = named[position]
            row[0].set_ylabel(
                f"word {position}" + ("" if name.startswith("word") else f":\n{name}")
            )
        figure.supylabel("activation", fontsize=9)
        figure.suptitle(f"{condition} sentences: {NAME_OF.get(estimate, estimate)}", fontsize=10)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        note = "bars: mean; black lines: standard deviation over networks, items averaged"
        columns = max(1, 90 // (max(map(len, labels)) + 8))  # as many as the width holds
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=note)
        return figure


def _shown(
    dataset: xr.Dataset, values: xr.DataArray, condition: str, probe: str
) -> dict[str, xr.DataArray]:
    """(network, position) for each series, averaged over items."""
    shown = {
        label: answers(values, condition, probe, units).mean("item")
        for label, units in series_of(dataset, condition).items()
    }
    others = non_relevant(dataset, values, condition, probe)
    if others is not None:
        shown[NON_RELEVANT] = others.mean("item")
    return shown


def _word_bars(axes: Axes, shown: dict[str, xr.DataArray], position: int) -> None:
    for number, (label, values) in enumerate(shown.items()):
        chosen = values.sel(position=position)
        colour = "0.6" if label == NON_RELEVANT else COLOURS[number % len(COLOURS)]
        axes.bar(
            number,
            float(chosen.mean("network")),
            0.8,
            yerr=float(_spread(chosen, "network")),
            color=colour,
            error_kw={"lw": 1, "capsize": 2.5},
            label=label,
        )
    axes.set_xticks([])
    axes.set_ylim(0, 1.05)
