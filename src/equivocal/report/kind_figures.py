"""Kinds of uncertainty side by side: distance from the truth, calibration, detection, cost.

Tables in, figure out; `equivocal.uncertainty.comparison` says what the columns hold.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from equivocal.report.style import COLOURS, apply_style

__all__ = ["draw_kinds"]

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
