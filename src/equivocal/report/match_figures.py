"""Which facts of the paper can be had together, and what each choice explains."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from equivocal.report.style import COLOURS, apply_style

__all__ = ["draw_facts_together", "draw_variance_shares"]


@apply_style()
def draw_facts_together(table: pd.DataFrame) -> Figure:
    """Draw for each pair of facts the share of specifications that meet both.

    The diagonal is the share that meets a fact at all. Crosses: each is met somewhere, both nowhere
    at once.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.study.matching.tabulate_together`.
    """
    names = list(dict.fromkeys(table["first"]))
    shape = (len(names), len(names))
    both = table["both"].to_numpy().reshape(shape)
    of = table["of"].to_numpy().reshape(shape)
    share = np.divide(both, of, out=np.full(shape, np.nan), where=of > 0)
    side = 3 + 0.14 * len(names)
    figure = Figure(figsize=(side + 0.8, side))
    axes = figure.subplots()
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    alone = np.diag(both) > 0
    apart = (both == 0) & alone[:, None] & alone[None, :]
    rows, columns = np.nonzero(apart)
    axes.plot(columns, rows, "x", ms=3, mew=0.8, color=COLOURS[1])
    axes.set_title("×: each is met somewhere, both nowhere", fontsize=8, color=COLOURS[1])
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5.5)
    axes.set_yticks(range(len(names)), names, fontsize=5.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.6, label="share of specifications that meet both")
    return figure


@apply_style()
def draw_variance_shares(table: pd.DataFrame) -> Figure:
    """Draw the share of variance that each choice explains, with its interval, by outcome.

    Parameters
    ----------
    table : DataFrame
        Columns outcome, choice, share, low, high, as `compute_variance_shares` returns them.
    """
    outcomes = list(dict.fromkeys(table["outcome"]))
    order = table.groupby("choice", sort=False)["share"].max().sort_values().index.to_list()
    figure = Figure(figsize=(2.2 + 2.1 * len(outcomes), 1.1 + 0.2 * len(order)))
    panels = figure.subplots(1, len(outcomes), sharey=True, squeeze=False)[0]
    for axes, outcome in zip(panels, outcomes, strict=True):
        part = table[table["outcome"] == outcome]
        heights = [order.index(choice) for choice in part["choice"]]
        axes.hlines(heights, part["low"], part["high"], color=COLOURS[0], lw=1.2, alpha=0.6)
        axes.plot(part["share"], heights, "o", ms=4, color=COLOURS[0])
        axes.axvline(0, color="0.5", lw=0.8, zorder=0)
        axes.set_title(str(outcome).replace("_", ", "), fontsize=9)
        axes.set_xlabel("share of variance")
    panels[0].set_yticks(range(len(order)), [name.replace("_", " ") for name in order])
    return figure
