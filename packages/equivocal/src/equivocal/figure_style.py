"""The style of all figures: colours that colour-blind readers can distinguish, sizes for print.

It also has the names and colours of estimates, which are the same in all figures.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure

from equivocal.statistics.summaries import MEAN
from lastlayer.files import write_atomically

__all__ = ["COLOURS", "KINDS", "add_legend", "apply_style", "save_figure"]

KINDS = ("svg", "png")

# Okabe & Ito (2008), in the order in which series use them
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

NAME_OF = {
    "mle": "trained network (MLE)",
    "paper": "Bayesian, paper's sampler",
    "converged": "Bayesian, converged",
    "exact": "HMC, exact",
    "nuts": "NUTS",
}
COLOUR_OF = {name: COLOURS[i] for name, i in zip(NAME_OF, (0, 1, 2, 6, 3), strict=True)}


@contextmanager
def apply_style() -> Iterator[None]:
    """Apply the style inside a `with` block or a decorated function only."""
    look = resources.files("equivocal") / "equivocal.mplstyle"
    with rc_context({"axes.prop_cycle": cycler(color=COLOURS)}, fname=str(look)):
        yield


def draw_networks(
    axes: Axes, table: pd.DataFrame, x: str, y: str, *, label: str | None = None, **look: Any
) -> None:
    """Draw a thin line for each network and a thick one, with the label, for their mean.

    Parameters
    ----------
    axes : Axes
        The axes to draw on.
    table : DataFrame
        With a column `network`, as `equivocal.statistics.summaries.append_means` returns it.
    x, y : str
        The columns that are drawn.
    label : str, optional
        The label in the legend.
    **look
        Keyword arguments of `Axes.plot`; a marker is drawn for the mean only.
    """
    thin, thick = {"lw": 0.7, "alpha": 0.35, "marker": ""}, {"lw": 2, "label": label}
    for network, part in table.groupby("network", sort=False):
        axes.plot(part[x], part[y], **(look | (thick if network == MEAN else thin)))


def add_legend(
    figure: Figure, *panels: Axes, columns: int, note: str | None = None, **look: Any
) -> None:
    """Put the legend of some panels below the whole figure, bars first."""
    shown = [
        pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    shown.sort(key=lambda pair: not isinstance(pair[0], Container))
    handles, labels = zip(*shown, strict=True)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=note, **look)


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write FOLDER/NAME.svg and FOLDER/NAME.png."""
    for kind in KINDS:
        with write_atomically(folder / f"{name}.{kind}") as temporary, apply_style():
            meta = {"Date": None} if kind == "svg" else {}  # the same figure, the same bytes
            figure.savefig(temporary, format=kind, metadata=meta)
