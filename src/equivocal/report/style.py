"""How every figure looks: colours that colour-blind readers can tell apart, sizes for print."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cycler import cycler
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from equivocal.store.files import write_atomically

__all__ = ["COLOURS", "KINDS", "publication_style", "save_figure"]

KINDS = ("svg", "png")

# Okabe & Ito (2008), in the order in which series take them
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@contextmanager
def publication_style() -> Iterator[None]:
    """Settings for the figures drawn inside the block, and for no others."""
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
    """Write SVG and PNG; returns their paths."""
    paths = [folder / f"{name}.{kind}" for kind in KINDS]
    for path, kind in zip(paths, KINDS, strict=True):
        with write_atomically(path) as temporary, publication_style():
            meta = {"Date": None} if kind == "svg" else {}
            figure.savefig(temporary, format=kind, metadata=meta)
    return paths
