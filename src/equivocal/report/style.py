"""The look of every figure: colours that colour-blind readers can tell apart, sizes for print.

Names and colours of estimates are here too, so that they are the same in all figures.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cycler import cycler
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from equivocal.store.files import write_atomically

__all__ = ["COLOURS", "COLOUR_OF", "KINDS", "NAME_OF", "publication_style", "save_figure"]

KINDS = ("svg", "png")

# Okabe & Ito (2008), in the order in which series take them
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

NAME_OF = {
    "mle": "trained network (MLE)",
    "paper": "Bayesian, paper's sampler",
    "converged": "Bayesian, converged",
    "nuts": "NUTS",
}
COLOUR_OF = {"mle": COLOURS[0], "paper": COLOURS[1], "converged": COLOURS[2], "nuts": COLOURS[6]}


@contextmanager
def publication_style() -> Iterator[None]:
    """Apply the settings of our figures inside the block, and nowhere else."""
    settings: dict[RcKeyType, object] = {
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "figure.constrained_layout.use": True,
        "figure.dpi": 150,
        "font.size": 9,
        "legend.frameon": False,
        "svg.hashsalt": "equivocal",  # the same figure gives the same file
    }
    with rc_context(settings):
        yield


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write FOLDER/NAME.svg and .png, and return their paths."""
    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    for path, kind in zip(paths, KINDS, strict=True):
        with write_atomically(path) as temporary, publication_style():
            meta = {"Date": None} if kind == "svg" else {}
            figure.savefig(temporary, format=kind, metadata=meta)
    return paths
