"""Figures of constructions: how sentences are read, beliefs beside exact ones, and the curves.

Each takes tables of `equivocal.constructions.tables` or rows of `Reader`s and returns a figure.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.report.style import COLOURS, publication_style
from equivocal.suites.posteriors import VARIANCE

__all__ = ["curve_figure", "reading_figure"]

LOOK = {  # colour and hatch, so that colour is never alone
    "answer": (COLOURS[5], "", "the answer"),
    "neither": ("0.85", "", "neither"),
    "rival": (COLOURS[1], "////", "the rival"),
}
KINDS = {"trained": ("o", COLOURS[0], -0.2), "posterior": ("s", COLOURS[3], 0.2)}
OPEN = (0.001, 0.999)  # exact beliefs in between are worth a panel of their own


def reading_figure(
    shares: pd.DataFrame, readings: pd.DataFrame, title: str, people: Mapping[str, float]
) -> Figure:
    """Shares of readings in each condition and, where truth is open, beliefs beside exact ones.

    For each condition the upper bar is of the trained networks, the lower one of particles; lines
    are 95 % intervals of the share of the rival reading, over networks. `people`: published shares.
    """
    open_ones = readings[readings["exact"].between(*OPEN)]
    conditions = list(dict.fromkeys(shares["condition"]))
    with publication_style():
        width = 10 if len(open_ones) else 6.4
        figure = Figure(figsize=(width, 1.5 + 0.42 * len(conditions)))
        grid = figure.subplots(1, 2 if len(open_ones) else 1, squeeze=False)[0]
        _bars(grid[0], shares, conditions, people)
        if len(open_ones):
            _scatter(grid[1], open_ones)
        figure.suptitle(title, fontsize=10)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _bars(
    axes: Axes, shares: pd.DataFrame, conditions: list[str], people: Mapping[str, float]
) -> None:
    for kind, (_, _, shift) in KINDS.items():
        part = shares[shares["beliefs"] == kind]
        y = np.arange(len(conditions)) + shift
        left = np.zeros(len(conditions))
        for reading, (colour, hatch, label) in LOOK.items():
            own = part[part["reading"] == reading].set_index("condition").loc[conditions]
            shown = label if kind == "trained" else None
            drawn = axes.barh(y, own["share"], 0.36, left=left, color=colour, label=shown)
            for bar in drawn:
                bar.set(hatch=hatch, edgecolor="white")
            left += own["share"].to_numpy()
            if reading == "rival":  # it ends at one, so its interval is drawn from there
                low, high = 1 - own["share_network_high"], 1 - own["share_network_low"]
                axes.hlines(y, low, high, color="black", lw=1.2)
    for condition, share in people.items():
        at = conditions.index(condition)
        axes.vlines(1 - share, at - 0.42, at + 0.42, color="black", ls=":", lw=1.6, label="people")
    axes.set_yticks(range(len(conditions)), conditions)
    axes.set_ylim(len(conditions) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of trained networks (upper bar) and of particles (lower)")


def _scatter(axes: Axes, readings: pd.DataFrame) -> None:
    axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
    for kind, (mark, colour, shift) in KINDS.items():
        part = readings[readings["beliefs"] == kind].groupby(["condition", "item"], sort=False)
        exact, belief = part["exact"].first(), part["belief"]
        x = exact + 0.02 * shift
        axes.vlines(x, belief.min(), belief.max(), color=colour, lw=0.7, alpha=0.5)
        axes.plot(x, belief.mean(), mark, color=colour, ms=3.5, ls="", label=kind)
    axes.set(
        xlabel="exact belief in the world",
        ylabel="belief (lines: all networks)",
        xlim=(-0.03, 1.03),
        ylim=(-0.03, 1.03),
    )
    axes.legend(loc="upper left")


def curve_figure(shares: pd.DataFrame, title: str, people: Mapping[str, float]) -> Figure:
    """Share of the rival reading against prior variance, and against sentences heard.

    `shares` are rows of particles alone; bars are 95 % intervals over networks.
    """
    rival = shares[shares["reading"] == "rival"]
    all_heard = rival[rival["heard"] == rival["heard"].max()]
    usual = rival[rival["variance"] == VARIANCE]
    panels = (
        ("variance", all_heard, "prior variance"),
        ("heard", usual, f"sentences heard (prior variance {VARIANCE:g})"),
    )
    with publication_style():
        figure = Figure(figsize=(7.4, 3.2))
        grid = figure.subplots(1, 2, sharey=True)
        for axes, (column, table, label) in zip(grid, panels, strict=True):
            for number, (condition, part) in enumerate(table.groupby("condition", sort=False)):
                _curve(axes, part.sort_values(column), column, COLOURS[number], str(condition))
            for share in people.values():
                axes.axhline(share, color="0.3", ls=":", lw=1.2, label="people")
            axes.set_xscale("log")
            axes.set_xlabel(label)
        grid[0].set_ylabel("particles that read it the other way")
        grid[0].set_ylim(bottom=0)
        figure.suptitle(title, fontsize=10)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _curve(axes: Axes, part: pd.DataFrame, column: str, colour: str, label: str) -> None:
    share = part["share"].to_numpy()
    ends = part[["share_network_low", "share_network_high"]].to_numpy().T
    bars = np.nan_to_num(np.abs(ends - share))  # no interval where all networks agree
    axes.errorbar(part[column], share, bars, fmt="-o", ms=4, color=colour, label=label)
