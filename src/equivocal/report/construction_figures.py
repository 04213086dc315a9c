"""Figures of constructions: how sentences are read, beliefs beside exact ones, and the curves.

Each function takes tables of `equivocal.suites.construction_tables` or rows of `Reader`s and
returns a figure.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from equivocal.report.style import COLOURS, add_legend, apply_style
from equivocal.suites import Construction
from equivocal.suites.measurement import VARIANCE

__all__ = ["draw_construction", "draw_curves", "draw_readings"]

LOOK = {  # colour and hatch, so that colour is never alone; from the left
    "rival": (COLOURS[1], "////"),
    "neither": ("0.85", ""),
    "answer": (COLOURS[5], ""),
}
NEITHER = "neither (answers that do not fit together)"
INTERVAL = "95 % interval of the hatched share"
KINDS = {
    "trained": ("o", COLOURS[0], -0.2, "trained networks (line: range)"),
    "posterior": ("s", COLOURS[3], 0.2, "simulated comprehenders"),
}
MARKS = ("o", "s", "^", "D")
OPEN = (0.001, 0.999)  # exact beliefs in between are worth a panel of their own


def draw_construction(
    construction: Construction, tables: dict[str, pd.DataFrame]
) -> dict[str, Figure]:
    """Draw the readings and, where there are any, the curves of a construction, by name.

    Parameters
    ----------
    construction : Construction
        What was read.
    tables : dict of str to DataFrame
        `shares`, `items` and perhaps `curves`.
    """
    name = construction.name
    figures = {name: draw_readings(tables["shares"], tables["items"], construction)}
    if "curves" in tables:
        figures[f"{name}_curves"] = draw_curves(tables["curves"], construction)
    return figures


@apply_style()
def draw_readings(shares: pd.DataFrame, items: pd.DataFrame, construction: Construction) -> Figure:
    """Draw shares of readings and, where both readings happen, beliefs beside exact ones.

    For each condition the upper bar is of the trained networks, the lower one of particles; lines
    are 95 % intervals of the share of the rival reading, over networks.

    Parameters
    ----------
    shares, items : DataFrame
        As returned by `tabulate_shares` and `tabulate_items`.
    construction : Construction
        What was read.
    """
    open_ones = items[items["exact"].between(*OPEN)]
    width = 10.5 if len(open_ones) else 7
    figure = Figure(figsize=(width, 2.3 + 0.55 * len(construction.conditions)))
    grid = figure.subplots(1, 2 if len(open_ones) else 1, squeeze=False)[0]
    _draw_bars(grid[0], shares, construction)
    if len(open_ones):
        _draw_beliefs(grid[1], open_ones)
        grid[0].set_title("a  how sentences are read", loc="left", fontsize=9)
        grid[1].set_title("b  beliefs where both readings happen", loc="left", fontsize=9)
    figure.suptitle(construction.title, fontsize=10)
    add_legend(figure, grid[0], columns=2)
    return figure


def _draw_bars(axes: Axes, shares: pd.DataFrame, construction: Construction) -> None:
    conditions = list(construction.conditions)
    called = construction.readings | {"neither": NEITHER}
    if shares.loc[shares["reading"] == "neither", "share"].max() < 0.001:  # nobody would see it
        called["neither"] = "_"  # matplotlib's sign for what is in no legend
    at = np.arange(len(conditions))
    lines = []
    for kind, (_, _, shift, _) in KINDS.items():
        part = shares[shares["beliefs"] == kind]
        left = np.zeros(len(conditions))
        for reading, (colour, hatch) in LOOK.items():
            own = part[part["reading"] == reading].set_index("condition").loc[conditions]
            shown = called[reading] if kind == "trained" else None
            look: dict[str, Any] = {"color": colour, "hatch": hatch, "label": shown}
            axes.barh(at + shift, own["share"], 0.36, left=left, edgecolor="white", **look)
            left += own["share"].to_numpy()
            if reading == "rival":
                lines.append((at + shift, own["share_network_low"], own["share_network_high"]))
    y, low, high = (np.concatenate(ends) for ends in zip(*lines, strict=True))
    axes.hlines(y, low, high, color="black", lw=1.2, label=INTERVAL)
    for condition, share in construction.people.items():
        k, label = conditions.index(condition), _name_people(construction, share)
        axes.vlines(share, k - 0.46, k + 0.46, color="white", lw=5)  # hatches would hide the line
        axes.vlines(share, k - 0.46, k + 0.46, color="black", ls="--", lw=2, label=label)
    examples = (construction.conditions[condition].partition(":")[0] for condition in conditions)
    axes.set_yticks(at, [f"{c}\n“{said}”" for c, said in zip(conditions, examples, strict=True)])
    axes.set(xlim=(0, 1), ylim=(len(conditions) - 0.5, -0.5))
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.set_xlabel("share of trained networks (upper bar)\nand of simulated comprehenders (lower)")


def _name_people(construction: Construction, share: float) -> str:
    source = construction.sources[0].partition("),")[0].replace("(", "")
    return f"people: about {share:.0%} ({source})".replace("%", " %")


def _draw_beliefs(axes: Axes, items: pd.DataFrame) -> None:
    axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0, label="belief = exact probability")
    for kind, (mark, colour, shift, label) in KINDS.items():
        part = items[items["beliefs"] == kind]
        x = part["exact"] + 0.02 * shift
        axes.vlines(x, part["lowest"], part["highest"], color=colour, lw=0.7, alpha=0.5)
        axes.plot(x, part["mean"], mark, color=colour, ms=3.5, ls="", label=label)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    axes.set(xlabel="exact probability of the reading in the world", ylabel="belief in it")
    axes.legend(loc="upper left", fontsize=8, title="a point is a sentence", title_fontsize=8)


@apply_style()
def draw_curves(shares: pd.DataFrame, construction: Construction) -> Figure:
    """Draw the share of the rival reading against prior variance, and against sentences heard.

    Bars are 95 % intervals over networks.

    Parameters
    ----------
    shares : DataFrame
        Shares of particles alone, `curves` of `tabulate_all`.
    construction : Construction
        What was read.
    """
    rival = shares[shares["reading"] == "rival"]
    all_heard = rival[rival["heard"] == rival["heard"].max()]
    usual = rival[rival["variance"] == VARIANCE]
    heard = f"{rival['heard'].max():,}"
    panels = (
        ("variance", all_heard, f"a  after {heard} sentences", "prior variance"),
        ("heard", usual, f"b  at prior variance {VARIANCE:g}", "sentences heard"),
    )
    figure = Figure(figsize=(7.4, 3.6))
    grid = figure.subplots(1, 2, sharey=True)
    for axes, (column, table, title, label) in zip(grid, panels, strict=True):
        _draw_lines(axes, table, column)
        for share in construction.people.values():
            called = _name_people(construction, share)
            axes.axhline(share, color="0.3", ls=":", lw=1.6, label=called)
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xlabel(label)
    grid[0].set_ylabel(f"simulated comprehenders with\n{construction.readings['rival']}")
    grid[0].set_ylim(bottom=0)
    grid[0].yaxis.set_major_formatter(PercentFormatter(1, 0, " %"))
    figure.suptitle(construction.title, fontsize=10)
    add_legend(figure, grid[0], columns=3)
    return figure


def _draw_lines(axes: Axes, table: pd.DataFrame, column: str) -> None:
    """Draw a line for each condition, shifted a little, so that none hides another."""
    for number, (condition, part) in enumerate(table.groupby("condition", sort=False)):
        own = part.sort_values(column)
        share = own["share"].to_numpy()
        ends = own[["share_network_low", "share_network_high"]].to_numpy().T
        bars = np.abs(ends - share)  # NaN, and not drawn, for a single network
        aside, line, colour = own[column] * 1.07**number, f"-{MARKS[number]}", COLOURS[number]
        axes.errorbar(
            aside, share, bars, fmt=line, color=colour, ms=4, capsize=2, label=str(condition)
        )
    axes.set_xscale("log")
    values = sorted(table[column].unique())
    axes.set_xticks(values, [f"{value:,g}" for value in values])
    axes.xaxis.set_minor_locator(NullLocator())
