"""Figures of training and of activations: learning curves, bars of activations, entropies.

Activations are drawn at the critical word, word by word, and against exact beliefs. The tables and
their columns are defined in `figure_tables`.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from equivocal.figure_style import (
    COLOUR_OF,
    COLOURS,
    NAME_OF,
    add_legend,
    apply_style,
    draw_networks,
)
from equivocal.paper.figure_tables import NON_RELEVANT

WIDTH = 0.36  # of a bar, if two stand side by side
THIN = {"lw": 1, "capsize": 2.5}


@apply_style()
def draw_activations(table: pd.DataFrame, condition: str) -> Figure:
    """Draw trained and Bayesian activations at the critical word, a panel for each probe.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.paper.figure_tables.tabulate_critical`.
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
        axes.set_ylim(0, 1.15)
    grid[0].set_ylabel("mean activation")
    figure.suptitle(f"{condition} sentences, at the critical word", fontsize=10)
    note = "black lines: standard deviation over items of the networks' mean"
    add_legend(figure, grid[0], columns=2, note=note)
    return figure


def _draw_estimate(axes: Axes, part: pd.DataFrame, estimate: str, shift: float) -> None:
    look: dict[str, Any] = {"edgecolor": "white", "error_kw": THIN}
    look["color"] = COLOUR_OF.get(estimate, COLOURS[1])
    look["hatch"] = "" if estimate == "mle" else "///"  # distinguishable in grey print too
    x, label = np.arange(len(part)) + shift * WIDTH, NAME_OF.get(estimate, estimate)
    bars = axes.bar(x, part["mean"], WIDTH, yerr=part["sd"], label=label, **look)
    axes.bar_label(bars, [f"{mean:.2g}" for mean in part["mean"]], padding=2, fontsize=7)


@apply_style()
def draw_word_grid(table: pd.DataFrame, condition: str, estimate: str) -> Figure:
    """Draw activations word by word: a row for each word heard, a column for each probe.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.paper.figure_tables.tabulate_words`.
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
    figure.suptitle(f"{condition} sentences: {NAME_OF.get(estimate, estimate)}", fontsize=10)
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


@apply_style()
def draw_learning(curves: pd.DataFrame, all_zeros: float) -> Figure:
    """Draw loss and unit accuracy per epoch: thin lines are networks, thick ones their mean.

    Parameters
    ----------
    curves : DataFrame
        The `curves` of a run, with means from `equivocal.statistics.summaries.append_means`.
    all_zeros : float
        The accuracy of a model that leaves every output unit off.
    """
    figure = Figure(figsize=(7, 2.8))
    left, right = figure.subplots(1, 2)
    for axes, measure, label in (
        (left, "loss", "cross-entropy per question (nats)"),
        (right, "accuracy", "units on the right side of ½"),
    ):
        for colour, style, part, name in (
            (COLOURS[0], "-", "train", "training"),
            (COLOURS[1], "--", "test", "held out"),
        ):
            look = {"color": colour, "ls": style, "label": name}
            draw_networks(axes, curves, "epoch", f"{part}_{measure}", **look)
        axes.set(xlabel="epoch", ylabel=label)
    left.set_yscale("log")
    left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.yaxis.set_major_formatter("{x:g}")
    left.minorticks_off()
    left.legend()
    right.axhline(all_zeros, color="0.5", lw=1, ls=":", label="all units off")
    right.legend(loc="center right")
    return figure


@apply_style()
def draw_calibration(table: pd.DataFrame, estimates: list[str]) -> Figure:
    """Draw the calibration of several estimates, a panel for each.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.paper.figure_tables.tabulate_calibration`; may be empty.
    estimates : list of str
        `"mle"` and the samplers, in order.
    """
    figure = Figure(figsize=(2.5 * len(estimates), 3.1))
    grid = figure.subplots(1, len(estimates), sharey=True, squeeze=False)[0]
    for axes, estimate in zip(grid, estimates, strict=True):
        part, title = table[table["estimate"] == estimate], NAME_OF.get(estimate, estimate)
        _draw_bins(axes, part, COLOUR_OF.get(estimate, COLOURS[3]))
        if part.empty:
            axes.text(0.5, 0.5, "no exact beliefs\nfor this study", ha="center", va="center")
        else:
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


@apply_style()
def draw_uncertainty(table: pd.DataFrame) -> Figure:
    """Draw entropies after each word, split into aleatoric and epistemic: rows are samplers.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.paper.figure_tables.tabulate_entropies`.
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
    look |= {"error_kw": THIN, "label": "epistemic (total − expected)"}
    spread = None if part["sd"].isna().all() else part["sd"]
    axes.bar(x, part["total"] - aleatoric, 0.6, bottom=aleatoric, yerr=spread, **look)
    label = "trained network (MLE), total"
    axes.scatter(x, part["trained"], 500, "black", marker="_", lw=1.8, zorder=3, label=label)
    axes.set_xticks(x, [place.replace("critical ", "critical\n") for place in part["place"]])
    axes.set_xlim(x.min() - 0.5, x.max() + 0.5)
