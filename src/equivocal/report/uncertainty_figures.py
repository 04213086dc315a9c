"""How sure answers are: after each word, beside the exact posterior, and by kind of uncertainty.

Tables in, figures out; `equivocal.uncertainty.comparison` says what the columns of kinds hold.
"""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from equivocal.report.style import COLOUR_OF, COLOURS, NAME_OF, add_legend, apply_style

__all__ = ["draw_kinds"]

FLOOR = 1e-10  # logit axes end here
TICKS = (1e-9, 1e-7, 1e-5, 1e-3, 0.05, 0.5, 0.95, 0.999)
MARKERS = {"exact": "s", "paper": "D", "converged": "o", "nuts": "x"}


@apply_style()
def draw_uncertainty(table: pd.DataFrame) -> Figure:
    """Draw entropies after each word, split into two parts: rows are samplers.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.study.summaries.tabulate_entropies`.
    """
    samplers, conditions = table["sampler"].unique(), table["condition"].unique()
    panels = dict(iter(table.groupby(["sampler", "condition"])))
    figure = Figure(figsize=(3.5 * len(conditions), 2.2 * len(samplers) + 0.7))
    grid = figure.subplots(len(samplers), len(conditions), sharey=True, squeeze=False)
    for row, sampler in zip(grid, samplers, strict=True):
        for axes, condition in zip(row, conditions, strict=True):
            _draw_entropies(axes, panels[sampler, condition])
            axes.set_title(f"{condition}: {NAME_OF.get(sampler, sampler)}", fontsize=9)
        row[0].set_ylabel("entropy per unit (nats)")
    note = "error bars: standard deviation of the total over networks; items averaged"
    add_legend(figure, grid[0, 0], columns=3, note=note)
    return figure


def _draw_entropies(axes: Axes, part: pd.DataFrame) -> None:
    x, aleatoric = part["position"], part["expected"]
    axes.bar(x, aleatoric, 0.6, color=COLOURS[5], label="expected (aleatoric)")
    look: dict[str, Any] = {"color": COLOURS[1], "hatch": "///", "edgecolor": "white"}
    look |= {"error_kw": {"lw": 1, "capsize": 2.5}, "label": "epistemic (total − expected)"}
    spread = None if part["sd"].isna().all() else part["sd"]
    axes.bar(x, part["total"] - aleatoric, 0.6, bottom=aleatoric, yerr=spread, **look)
    label = "trained network (MLE), total"
    axes.scatter(x, part["trained"], 500, "black", marker="_", lw=1.8, zorder=3, label=label)
    axes.set_xticks(x, [place.replace("critical ", "critical\n") for place in part["place"]])
    axes.set_xlim(x.min() - 0.5, x.max() + 0.5)


@apply_style()
def draw_exact_comparison(exact: xr.Dataset) -> Figure:
    """Draw means and widths of 90 % intervals against exact ones; below, those of one network.

    Parameters
    ----------
    exact : xarray.Dataset
        The file `exact.nc` of a study, with NUTS or without: `NAME_mean`, `NAME_low` and
        `NAME_high` for each sampler, by network and question.
    """
    labels = [str(label) for label in exact["question"].values]
    names = [str(v).removesuffix("_mean") for v in exact.data_vars if str(v).endswith("_mean")]
    rows = 0.22 * len(labels) + 0.5
    figure = Figure(figsize=(7, 4 + rows))
    grid = figure.add_gridspec(2, 2, height_ratios=(3, rows))
    means, widths = (figure.add_subplot(grid[0, i]) for i in range(2))
    each = figure.add_subplot(grid[1, :])
    for number, name in enumerate(names):
        if name != "exact":
            _draw_against_exact(means, widths, exact, name)
        shift = (number - (len(names) - 1) / 2) * 0.72 / len(names)
        _draw_intervals(each, exact.isel(network=0), name, shift)
    means.set(xscale="logit", yscale="logit", title="posterior mean")
    widths.set(xscale="log", yscale="log", title="width of 90 % interval")
    for axes, here in ((means, 0.5), (widths, 0.1)):
        axes.set(xlabel=NAME_OF["exact"], ylabel="sampler", box_aspect=1)
        axes.axline((here, here), (here + 0.1, here + 0.1), color="0.6", lw=0.8, zorder=0)
    each.set(xscale="logit", xlabel="activation", ylim=(len(labels) - 0.5, -0.5))
    each.set_yticks(range(len(labels)), labels, fontsize=7.5)
    for axis in (means.xaxis, means.yaxis, each.xaxis):
        _set_plain_ticks(axis)
    means.tick_params(axis="x", labelrotation=45)
    networks = f"{exact.sizes['network']} network{'s' * (exact.sizes['network'] != 1)}"
    note = f"above: {networks}; below: the first, points are posterior means, lines 90 % intervals"
    add_legend(figure, each, columns=len(names), note=note)
    return figure


def _draw_against_exact(means: Axes, widths: Axes, exact: xr.Dataset, name: str) -> None:
    look: dict[str, Any] = {"color": COLOUR_OF.get(name, COLOURS[3]), "ms": 3.5}
    look["alpha"] = 1.0 if name == "nuts" else 0.6  # few marks, on top of many
    marker, pair = MARKERS.get(name, "^"), ("exact", name)
    means.plot(*(_clip(exact[f"{which}_mean"]).ravel() for which in pair), marker, **look)
    width = (exact[f"{which}_high"] - exact[f"{which}_low"] for which in pair)
    widths.plot(*(np.maximum(values.values, FLOOR).ravel() for values in width), marker, **look)


def _draw_intervals(axes: Axes, exact: xr.Dataset, name: str, shift: float) -> None:
    mean, low, high = (_clip(exact[f"{name}_{what}"]) for what in ("mean", "low", "high"))
    place, colour = np.arange(len(mean)) + shift, COLOUR_OF.get(name, COLOURS[3])
    axes.hlines(place, low, high, color=colour, lw=1.2)
    marker = MARKERS.get(name, "^")
    axes.plot(mean, place, marker, ms=3, color=colour, label=NAME_OF.get(name, name))


def _clip(values: xr.DataArray) -> np.ndarray:
    """Keep values away from 0 and 1, which a logit axis cannot show."""
    return np.asarray(np.clip(values.values, FLOOR, 1 - FLOOR))


def _set_plain_ticks(axis: Axis) -> None:
    axis.set_major_locator(FixedLocator(TICKS))
    axis.set_minor_locator(FixedLocator([]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_tick_params(labelsize=7.5)


PANELS = {
    "nll_excess": "nats above the truth",
    "calibration_error": "calibration error",
    "auroc": "AUROC of reversals",
    "seconds": "seconds beyond one network",
}


@apply_style()
def draw_kinds(table: pd.DataFrame, summary: pd.DataFrame) -> Figure:
    """Draw a row for each kind: ticks are networks (or all but one), bars 95 % intervals.

    Parameters
    ----------
    table, summary : DataFrame
        As `score_kinds` and `summarise_scores` return them.
    """
    kinds = list(summary["kind"])
    figure = Figure(figsize=(9.2, 0.9 + 0.34 * len(kinds)))
    grid = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (name, title) in zip(grid, PANELS.items(), strict=True):
        for place, kind in enumerate(kinds):
            own = table.loc[(table["kind"] == kind) & (table["network"] != "all"), name]
            _draw_row(axes, place, own.to_numpy(float), summary.iloc[place], name)
        axes.set_xlabel(title)
        axes.grid(axis="x", lw=0.4, color="0.85")
    grid[0].set_yticks(range(len(kinds)), kinds)
    grid[0].set_ylim(len(kinds) - 0.5, -0.5)
    for axes in grid[:2]:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(3))
    grid[2].plot(summary["auroc_entropy"], range(len(kinds)), "d", ms=5, mfc="white", mec="0.4")
    grid[2].set_xlabel("AUROC of reversals\n(diamonds: by entropy)")
    grid[2].axvline(0.5, color="0.5", lw=0.8, ls=":")
    grid[3].set_xscale("symlog", linthresh=1)
    grid[3].set_xlim(-0.1, 3 * summary["seconds"].max() + 1)
    return figure


def _draw_row(axes: Axes, place: int, own: np.ndarray, kind: pd.Series, name: str) -> None:
    """Draw one kind in one panel."""
    colour = COLOURS[place % len(COLOURS)]
    if f"{name}_low" in kind:
        axes.plot(own, np.full(len(own), place + 0.18), "|", color=colour, ms=5, alpha=0.5)
        ends = [kind[f"{name}_low"], kind[f"{name}_high"]]
        axes.plot(ends, [place, place], color=colour, lw=1.6)
    axes.plot(kind[name], place, "o", color=colour, ms=5)
