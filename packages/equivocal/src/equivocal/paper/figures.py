"""All figures of a study, and how the effect depends on the prior and on the stopping time.

To add a figure, add a line to `draw` and a caption to `record/report.toml`.
"""

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from scipy.stats import gmean

from equivocal.figure_style import (
    COLOUR_OF,
    NAME_OF,
    add_legend,
    apply_style,
    draw_networks,
)
from equivocal.paper.activation_figures import (
    draw_activations,
    draw_calibration,
    draw_word_grid,
    list_conditions,
    tabulate_calibration,
    tabulate_critical,
    tabulate_words,
)
from equivocal.paper.inference import EXAMPLE
from equivocal.paper.settings import read_record
from equivocal.paper.tables import compute_measures, find_central_prior, find_stop_time
from equivocal.progress import progress
from equivocal.result import Figures
from equivocal.statistics.summaries import MEAN, append_means
from equivocal.world.items import Item

if TYPE_CHECKING:
    from equivocal.paper.report import StudyResult

__all__ = ["draw"]

FLOOR = 1e-10  # the end of logit axes
TICKS = (1e-9, 1e-7, 1e-5, 1e-3, 0.05, 0.5, 0.95, 0.999)
N_READ_AS = {"pairs": "pairs", "all": "sentences"}
VISIBLE = read_record("claims")["limits"]["smallest"]  # the least activation that a bar shows
MARKERS = {"paper": "D", "converged": "o", "nuts": "x"}


def draw(result: "StudyResult") -> Figures:
    """Draw every figure of a study, by name and in the order of the report."""
    study, beliefs, tables = result.study, result.beliefs, result.tables
    dataset, exact = beliefs.answers, beliefs.comparison
    conditions, estimates = list_conditions(dataset), ["mle", *map(str, dataset["sampler"].values)]
    with progress("drawing"):
        figures = {
            f"activations_{name}": draw_activations(tabulate_critical(dataset, name), name)
            for name in conditions
        }
        path = add_reference_levels(beliefs.path, dataset)
        figures["tau"] = draw_sampler_path(tabulate_path(path))
        figures["prior"] = draw_prior_effects(tabulate_prior_effects(dataset))
        if len(calibration := tabulate_calibration(dataset)):
            figures["calibration"] = draw_calibration(calibration, estimates)
        if exact is not None:
            figures["exact"] = draw_exact_comparison(exact)
        if result.truth is not None:
            figures["truth"] = draw_known_truth(result.truth)
        if "effects" in tables:
            figures["effect"] = draw_effect(tables["effects"])
            levels, example = tables["rational_levels"], study.example
            figures["rational"] = draw_rational_map(tables["rational"], levels, example)
        for name, estimate in product(conditions, estimates):
            table = tabulate_words(dataset, name, estimate)
            figures[f"words_{name}_{estimate}"] = draw_word_grid(table, name, estimate)
    return figures


@apply_style()
def draw_effect(effects: pd.DataFrame) -> Figure:
    """Draw what posteriors do to each network's activations, under both readings of N.

    Parameters
    ----------
    effects : DataFrame
        From `tables.tabulate_effects`.
    """
    panels = list(effects.groupby("measure", sort=False))
    rows = list(effects.drop_duplicates(["reading", "estimate"])[["reading", "estimate"]].values)
    figure = Figure(figsize=(3.4 * len(panels) + 1.8, 3.2))
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (measure, panel) in zip(grid, panels, strict=True):
        for place, (reading, estimate) in enumerate(rows):
            here = (panel["reading"] == reading) & (panel["estimate"] == estimate)
            values, colour = panel.loc[here, "activation"], COLOUR_OF[estimate]
            axes.plot(values, [place] * len(values), "o", ms=4, alpha=0.5, color=colour)
            axes.plot(gmean(values), place, "|", ms=18, mew=2.5, color=colour)
        axes.axvline(VISIBLE, color="0.4", lw=1, ls=":", zorder=0)
        axes.set(xscale="log", title=str(measure), xlabel="activation")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
    names = [
        NAME_OF[estimate] + (f"\nN = 10,000 {N_READ_AS[reading]}" if reading else "")
        for reading, estimate in rows
    ]
    grid[0].set_yticks(range(len(rows)), names)
    grid[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure


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


@apply_style()
def draw_prior_effects(table: pd.DataFrame) -> Figure:
    """Draw Bayesian minus trained activation against prior variance: dots are networks.

    Parameters
    ----------
    table : DataFrame
        From `tabulate_prior_effects`.
    """
    conditions, measures = table["condition"].unique(), table["measure"].unique()
    panels = dict(iter(table.groupby(["condition", "measure"])))
    figure = Figure(figsize=(2.5 * len(measures), 2.7 * len(conditions) + 0.3))
    grid = figure.subplots(len(conditions), len(measures), squeeze=False)
    for row, condition in zip(grid, conditions, strict=True):
        for axes, measure in zip(row, measures, strict=True):
            panel = panels[condition, measure].groupby("sampler", sort=False)
            for number, (sampler, part) in enumerate(panel):
                _draw_prior_line(axes, part, str(sampler), (-1) ** number * 0.03)
            kind, _, probe = str(measure).partition(" ")
            other = f"{kind} units,\n{probe} probe"
            axes.set_title(other if kind == "non-relevant" else str(measure), fontsize=9)
            axes.axhline(0, color="0.5", lw=0.8, zorder=0)
            axes.set_xlabel("prior variance")
        row[0].set_ylabel(f"{condition}: activation,\nBayesian − trained (MLE)")
    note = "dots: networks, lines: their mean; items averaged"
    add_legend(figure, grid[0, 0], columns=2, note=note)
    return figure


def _draw_prior_line(axes: Axes, part: pd.DataFrame, sampler: str, shift: float) -> None:
    """Draw one sampler, shifted by `shift` decades so that dots do not hide each other."""
    colour, style = COLOUR_OF[sampler], "-" if sampler == "paper" else "--"
    for network, own in part.groupby("network", sort=False):
        x, name = own["prior"] * 10**shift, NAME_OF[sampler]
        if network == MEAN:
            axes.plot(x, own["effect"], style, marker="D", ms=4, color=colour, label=name)
        else:
            axes.plot(x, own["effect"], "o", color=colour, ms=3, alpha=0.35, mew=0)
    axes.set_xscale("log")
    axes.set_xticks(own["prior"], [f"{variance:g}" for variance in own["prior"]])
    axes.minorticks_off()


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


def add_reference_levels(path: xr.Dataset, dataset: xr.Dataset) -> xr.Dataset:
    """Add to a path's attributes the mean levels of trained networks and converged posterior.

    And `stop_time`, the τ at which the paper's sampler stopped.
    """
    rows = compute_measures(dataset)
    rows = rows[
        (rows["sampler"] == "converged")
        & (rows["prior"] == find_central_prior(dataset))
        & (rows["condition"] == path.attrs["condition"])
        & rows["network"].isin(path["network"].values)
    ]
    levels = {"stop_time": find_stop_time(dataset)}
    for name in (str(variable) for variable in path.data_vars if variable != "time"):
        chosen = rows[rows["measure"] == name.replace("_", " ")]
        levels[f"mle_{name}"] = float(chosen["mle"].mean())
        levels[f"converged_{name}"] = float(chosen["mean"].mean())
    return path.assign_attrs(levels)


@apply_style()
def draw_sampler_path(path: pd.DataFrame) -> Figure:
    """Draw activations of indicated units along sampler time: thin lines are networks.

    Parameters
    ----------
    path : DataFrame
        From `tabulate_path`; its attributes hold the paper's number
        of steps, the τ at which its sampler stopped (`stop_time`), and the levels of trained
        network and converged posterior.
    """
    shown = [name for name in path.columns if name.startswith("indicated_")]
    figure = Figure(figsize=(3.5 * len(shown), 3.3))
    grid = figure.subplots(1, len(shown), sharex=True, squeeze=False)[0]
    for axes, name in zip(grid, shown, strict=True):
        _draw_path(axes, path, name)
        axes.set_title(f"{path.attrs['condition']}: {name.replace('_', ' ')}", fontsize=9)
        axes.set(xlabel="sampler time τ", xscale="log", yscale="log")
        low, high = axes.get_ylim()
        axes.set_ylim(low * (low / high) ** 0.6, high)  # room for the legend below all lines
    grid[0].set_ylabel("mean activation, items averaged")
    grid[0].legend(loc="lower left", fontsize=8)
    return figure


def _draw_path(axes: Axes, path: pd.DataFrame, name: str) -> None:
    moved = path[path["time"] > 0]  # a logarithmic axis cannot show time 0
    label, colour = "along the paper's sampler", COLOUR_OF["paper"]
    draw_networks(axes, moved, "time", name, color=colour, label=label)
    steps = int(path.attrs["paper_steps"])
    stop = moved[(moved["step"] == steps) & (moved["network"] != MEAN)]
    if len(stop):
        x, y = stop["time"], stop[name]
        # the τ of all networks, of which the path has a few
        label = f"stopped after {steps} steps (τ = {path.attrs['stop_time']:.2g})"
        axes.plot(x, y, "D", ms=5, mfc="white", mec="black", label=label)
    for start in path.loc[(path["time"] <= 0) & (path["network"] == MEAN), name]:
        axes.axhline(start, color="0.5", lw=1, ls=":", label="before the first step")
    for estimate, style in (("mle", "--"), ("converged", "-.")):
        level, colour = path.attrs[f"{estimate}_{name}"], COLOUR_OF[estimate]
        axes.axhline(level, color=colour, lw=1.3, ls=style, label=NAME_OF[estimate])


@apply_style()
def draw_exact_comparison(exact: xr.Dataset) -> Figure:
    """Draw means and widths of 90 % intervals against exact ones, a mark for each question.

    Parameters
    ----------
    exact : xarray.Dataset
        The file `exact.nc` of a study, with or without NUTS: `NAME_mean`, `NAME_low` and
        `NAME_high` for each sampler, by network and question.
    """
    figure = Figure(figsize=(7, 4.4))
    means, widths = figure.subplots(1, 2)
    for name in (name for name in MARKERS if f"{name}_mean" in exact):
        _draw_against_exact(means, widths, exact, name)
    means.set(xscale="logit", yscale="logit", title="posterior mean")
    widths.set(xscale="log", yscale="log", title="width of 90 % interval")
    for axes, here in ((means, 0.5), (widths, 0.1)):
        axes.set(xlabel=NAME_OF["exact"], ylabel="sampler", box_aspect=1)
        axes.axline((here, here), (here + 0.1, here + 0.1), color="0.6", lw=0.8, zorder=0)
    for axis in (means.xaxis, means.yaxis):
        axis.set_ticks(TICKS, [f"{tick:g}" for tick in TICKS], fontsize=8)
        axis.set_minor_locator(NullLocator())
    means.tick_params(axis="x", labelrotation=45)
    networks = f"{exact.sizes['network']} network{'s' * (exact.sizes['network'] != 1)}"
    means.legend(loc="lower right", fontsize=8, title=networks)
    return figure


def _draw_against_exact(means: Axes, widths: Axes, exact: xr.Dataset, name: str) -> None:
    look: dict[str, Any] = {"color": COLOUR_OF[name], "label": NAME_OF[name], "ms": 3.5}
    look["alpha"] = 1.0 if name == "nuts" else 0.6  # few marks, on top of many
    marker, pair = MARKERS[name], ("exact", name)
    # neither axis can show 0
    mean = (exact[f"{which}_mean"].values.clip(FLOOR, 1 - FLOOR) for which in pair)
    means.plot(*(values.ravel() for values in mean), marker, **look)
    width = (exact[f"{which}_high"] - exact[f"{which}_low"] for which in pair)
    widths.plot(*(np.maximum(values.values, FLOOR).ravel() for values in width), marker, **look)


@apply_style()
def draw_known_truth(truth: pd.DataFrame) -> Figure:
    """Draw every network's belief about one sentence and its reversal, beside the truth.

    Parameters
    ----------
    truth : DataFrame
        From `equivocal.paper.inference.compare_with_truth`.
    """
    kinds = {"trained": "mle", "paper": "paper", "converged": "converged"}
    figure = Figure(figsize=(8.2, 2.6))
    grid = figure.subplots(1, 2, sharey=True)
    example = truth[truth["item"] == EXAMPLE]
    for axes, (condition, part) in zip(grid, example.groupby("condition"), strict=True):
        for place, (kind, name) in enumerate(kinds.items()):
            beliefs = part.loc[part["kind"] == kind, "belief"]
            axes.plot(beliefs, [place] * len(beliefs), "o", alpha=0.6, color=COLOUR_OF[name])
            axes.plot(beliefs.mean(), place, "|", ms=16, mew=2, color=COLOUR_OF[name])
        exact = float(part["truth"].iloc[0])
        axes.axvline(exact, color="black", lw=1.2, zorder=0)
        axes.set(title=f"{condition}, exact: {exact:.3f}", xlim=(-0.03, 1.03))
    grid[0].set_yticks(range(len(kinds)), [NAME_OF[name] for name in kinds.values()])
    grid[0].set_ylim(len(kinds) - 0.4, -0.6)
    figure.supxlabel("belief that the pizza is the one who eats", fontsize=9)
    return figure


@apply_style()
def draw_rational_map(table: pd.DataFrame, levels: pd.DataFrame, example: Item) -> Figure:
    """Draw what rational listeners believe, with contours at beliefs of networks and posteriors.

    Parameters
    ----------
    table, levels : DataFrame
        From `inference.map_rational` and `tables.find_rational_levels`.
    example : Item
        The sentence that the beliefs are about.
    """
    beliefs = table.pivot(index="slip", columns="pseudo_count", values="belief")
    # in decades, since contours are interpolated linearly whatever the scale of the axes is
    place = [np.log10(part.to_numpy(float)) for part in (beliefs.columns, beliefs.index, beliefs)]
    figure = Figure(figsize=(7, 5))
    axes = figure.subplots()
    shades: dict[str, Any] = {"cmap": "Greys", "vmin": -12, "vmax": 6}  # darker ones hide lines
    filled = axes.contourf(*place, np.arange(-12, 0.1), extend="min", **shades)
    for reading, estimate, belief in levels.itertuples(index=False):
        style, colour = "--" if reading == "pairs" else "-", COLOUR_OF[estimate]
        level = [np.log10(belief)]
        axes.contour(*place, level, colors=colour, linestyles=style, linewidths=2)
        name = NAME_OF[estimate] + (f", N = {N_READ_AS[reading]}" if reading else "")
        axes.plot([], [], style, color=colour, lw=2, label=f"{name}: {belief:.2g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda decade, _: f"$10^{{{decade:g}}}$"))
    axes.set_title(f"“{example.utterance}”")
    axes.set_xlabel("α: sentences that the expectation is worth that anything may act")
    axes.set_ylabel("ε: expected rate of slips")
    unit = next(iter(example.tracked.values()))
    ticks = range(-12, 1, 3)
    bar = figure.colorbar(filled, ax=axes, ticks=ticks, label=f"belief that the {unit} acts")
    bar.set_ticklabels([f"$10^{{{tick}}}$" for tick in ticks])
    axes.legend(loc="lower right", frameon=True, fontsize=8)
    return figure
