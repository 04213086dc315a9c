"""Figures of what networks learned. Each function takes tables and returns a figure."""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from equivocal.report.style import COLOURS, publication_style

__all__ = ["belief_figure", "calibration_figure", "learning_figure"]

EXACT = "exact belief"


def learning_figure(curves: pd.DataFrame, all_zeros: float) -> Figure:
    """Loss and unit accuracy per epoch: thin lines are networks, thick ones their mean.

    `all_zeros` is the accuracy of a model that never answers anything.
    """
    with publication_style():
        figure = Figure(figsize=(7, 2.8))
        left, right = figure.subplots(1, 2)
        for axes, measure, label in (
            (left, "loss", "cross-entropy per question (nats)"),
            (right, "accuracy", "units on the right side of ½"),
        ):
            for colour, part, name in (
                (COLOURS[0], "train", "training"),
                (COLOURS[1], "test", "held out"),
            ):
                table = curves.pivot(index="epoch", columns="network", values=f"{part}_{measure}")
                style = "-" if part == "train" else "--"
                axes.plot(table, color=colour, alpha=0.25, lw=0.7, ls=style)
                axes.plot(table.mean(axis=1), color=colour, lw=1.8, ls=style, label=name)
            axes.set(xlabel="epoch", ylabel=label)
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        left.yaxis.set_major_formatter("{x:g}")
        left.minorticks_off()
        left.legend()
        right.axhline(all_zeros, color="0.5", lw=1, ls=":", label="a model that answers nothing")
        right.legend(loc="center right")
        return figure


def calibration_figure(table: pd.DataFrame, belief_error: float) -> Figure:
    """Activation against exact probability, with the middle 90 % of activations as bars."""
    with publication_style():
        figure = Figure(figsize=(3.6, 3.4))
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
        axes.vlines(table["truth"], table["low"], table["high"], color=COLOURS[0], lw=1)
        axes.plot(table["truth"], table["activation"], "o", ms=4, color=COLOURS[0])
        axes.set(
            xlabel="exact probability in the world",
            ylabel="activation of the networks",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
            aspect="equal",
            title=f"points: mean, lines: middle 90 %\nmean absolute error {belief_error:.4f}",
        )
        return figure


def belief_figure(traces: dict[str, xr.DataArray], truths: dict[str, xr.DataArray]) -> Figure:
    """Word by word, a row for each sentence, a column for each probe; ticks are exact beliefs."""
    with publication_style():
        probes = next(iter(traces.values())).coords["probe"].values
        figure = Figure(figsize=(3.6 * len(probes), 2.5 * len(traces)))
        grid = figure.subplots(len(traces), len(probes), sharey=True, squeeze=False)
        for row, (title, trace) in zip(grid, traces.items(), strict=True):
            for axes, probe in zip(row, probes, strict=True):
                _belief_panel(axes, trace.sel(probe=probe), truths[title].sel(probe=probe))
                axes.set_title(f"“{title}”\nwho is the {probe}?", fontsize=9, loc="left")
            row[0].set_ylabel("activation")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda i: labels[i] == EXACT)  # the tick comes last
        handles, labels = [handles[i] for i in order], [labels[i] for i in order]
        note = "bars: mean of the networks, thin lines: standard deviation"
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), title=note)
        return figure


def _belief_panel(axes: Axes, trace: xr.DataArray, truth: xr.DataArray) -> None:
    words = [str(word) for word in trace.coords["word"].values]
    place = np.arange(len(words))
    units = trace.coords["unit"].values
    width = 0.8 / len(units)
    for number, unit in enumerate(units):
        x = place + (number - (len(units) - 1) / 2) * width
        chosen = trace.sel(unit=unit)
        axes.bar(
            x,
            chosen.mean("network"),
            width,
            yerr=chosen.std("network", ddof=0),
            color=COLOURS[number % len(COLOURS)],
            error_kw={"lw": 0.8},
            label=f"{unit}",
        )
        label = EXACT if number == len(units) - 1 else None
        axes.scatter(
            x, truth.sel(unit=unit), marker="_", s=160, color="black", lw=1.5, label=label, zorder=3
        )
    axes.set_xticks(place, words)
    axes.set_ylim(-0.03, 1.05)  # so that an exact belief of zero is seen
