"""What networks learned: loss and accuracy by epoch, and activations against exact beliefs."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from equivocal.report.style import COLOUR_OF, COLOURS, NAME_OF, apply_style, draw_networks


@apply_style()
def draw_learning(curves: pd.DataFrame, all_zeros: float) -> Figure:
    """Draw loss and unit accuracy per epoch: thin lines are networks, thick ones their mean.

    Parameters
    ----------
    curves : DataFrame
        The `curves` of a run, with means from `equivocal.study.summaries.append_means`.
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
def draw_calibration(table: pd.DataFrame, belief_error: float) -> Figure:
    """Draw activations against exact probabilities, with the middle 90 % as lines.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.study.tabulate_fit`.
    belief_error : float
        Mean absolute error, for the title.
    """
    figure = Figure(figsize=(3.6, 3.4))
    axes = figure.subplots()
    _draw_bins(axes, table, COLOURS[0])
    axes.set(
        xlabel="exact probability in the world",
        ylabel="activation of the networks",
        title=f"points: mean, lines: middle 90 %\nmean absolute error {belief_error:.4f}",
    )
    return figure


@apply_style()
def draw_calibration_panels(table: pd.DataFrame, estimates: list[str]) -> Figure:
    """Draw the calibration of several estimates, a panel for each.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.study.summaries.tabulate_calibration`; may be empty.
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
