"""The figure of many specifications: their effects, and the choices behind each."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.figure_style import COLOURS, apply_style

__all__ = ["draw_specification_curve"]

INTERVAL = ("effect", "low", "high")  # the columns of a specification table besides choices


@apply_style()
def draw_specification_curve(table: pd.DataFrame) -> Figure:
    """Draw the effects of all analyses in order of size, and below them the choices behind each.

    Parameters
    ----------
    table : DataFrame
        A row for each analysis: `effect`, `low`, `high`, and a column for each choice.
    """
    ordered = table.sort_values("effect", kind="stable", ignore_index=True)
    choices = [str(name) for name in table.columns if name not in INTERVAL]
    rows = [
        (name, value) for name in choices for value in sorted(table[name].unique(), key=_rank_value)
    ]
    figure = Figure(figsize=(7, 2.4 + 0.19 * len(rows)))
    ratios = (2.2, 0.19 * len(rows) + 0.1)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
    _draw_curve(top, ordered)
    x = np.arange(len(ordered))
    for height, (name, value) in enumerate(rows):
        chosen = x[(ordered[name] == value).to_numpy()]
        bottom.plot(chosen, np.full(len(chosen), height), "|", ms=5, mew=1.1, color="0.15")
        if choices.index(name) % 2 == 0:
            bottom.axhspan(height - 0.5, height + 0.5, color="0.93", lw=0, zorder=0)
    bottom.set_yticks(range(len(rows)), [f"{name}: {_format(value)}" for name, value in rows])
    bottom.tick_params(axis="y", length=0, labelsize=7.5)
    bottom.set(ylim=(len(rows) - 0.5, -0.5), xlabel=f"{len(ordered)} analyses, by effect")
    bottom.set_xticks([])
    bottom.spines[:].set_visible(False)
    return figure


def _draw_curve(axes: Axes, ordered: pd.DataFrame) -> None:
    size = float(np.clip(250 / len(ordered), 1.5, 5))
    groups = (
        (ordered["low"] > 0, COLOURS[0], "o", "interval above zero"),
        (ordered["high"] < 0, COLOURS[1], "s", "interval below zero"),
        ((ordered["low"] <= 0) & (ordered["high"] >= 0), "0.55", "D", "interval includes zero"),
        (ordered["low"].isna(), "0.55", "D", "no interval, one network"),
    )
    for chosen, colour, marker, label in groups:
        part = ordered[chosen]
        if len(part):
            axes.vlines(part.index, part["low"], part["high"], color=colour, lw=0.9, alpha=0.6)
            axes.plot(part.index, part["effect"], marker, ms=size, color=colour, label=label)
    axes.axhline(0, color="0.3", lw=0.8, zorder=0)
    sizes = ordered["effect"].abs()
    typical = float(sizes.median())
    if (
        typical > 0 and sizes.max() > 100 * typical
    ):  # on a linear axis most effects would lie on zero
        axes.set_yscale("symlog", linthresh=typical / 10)
    axes.set_ylabel("effect: activation,\nBayesian − trained (MLE)")
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper left")


def _rank_value(value: object) -> tuple[bool, float, str]:
    """Return a sorting key: numbers by size, then words in alphabetical order."""
    size = float(value) if isinstance(value, int | float | np.number) else None
    return size is None, size or 0.0, str(value)


def _format(value: object) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
