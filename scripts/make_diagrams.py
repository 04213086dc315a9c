"""Draw the two diagrams of every report: the Sentence Gestalt network, and the posterior in it.

    python -m scripts.make_diagrams src/equivocal/report/diagrams        writes them as SVG and PNG

The diagrams do not depend on results, so the package ships them as files. Coordinates are in
inches. Wording, places and colours may be changed; then run this again.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from equivocal.figure_style import COLOURS, apply_style, save_figure

__all__ = ["DIAGRAMS", "draw_network_diagram", "draw_posterior_diagram"]

BLUE, ORANGE, GREEN = COLOURS[:3]
UNITS = 9  # circles drawn for a layer, which has about a hundred units
ALL = range(UNITS)
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
LAYERS = (  # x, y, name, note, active units
    (1.95, 0.75, "word and marker tokens", "e.g. “during” + “dinner”", {2, 6}),
    (1.95, 2.0, "hidden", "", ALL),
    (1.95, 3.25, "gestalt", "everything heard so far", ALL),
    (5.45, 0.75, "probe", "a role or a filler, e.g. “agent?”", {4}),
    (5.45, 2.0, "hidden ψ", "", ALL),
    (5.45, 3.25, "output units", "one for each word or feature", {1, 7}),
)


@apply_style()
def draw_network_diagram() -> Figure:
    """Draw the update network, which keeps the gestalt, and the query network, which answers."""
    figure, axes = _make_canvas(7.2, 4.3)
    _draw_zone(axes, (0.05, 0.1, 3.4, 4.1), "update network: listens", BLUE)
    _draw_zone(axes, (3.75, 0.1, 3.4, 4.1), "query network: answers", ORANGE)
    for layer in LAYERS:
        _draw_layer(axes, *layer)
    for x in (1.95, 5.45):
        _draw_arrow(axes, (x, 1.05), (x, 1.7))
        _draw_arrow(axes, (x, 2.3), (x, 2.95))
    _draw_arrow(axes, (3.1, 3.25), (4.3, 2.0))
    _draw_arrow(axes, (0.8, 3.25), (0.8, 2.0), ls="--", connectionstyle="arc3,rad=0.3")
    axes.text(0.12, 2.62, "at the\nnext\nword", fontsize=7.5, va="center")
    return figure


@apply_style()
def draw_posterior_diagram() -> Figure:
    """Draw fixed features, an ensemble of last layers, and the spread of their answers."""
    figure, axes = _make_canvas(7.2, 3.5)
    _draw_zone(axes, (0.05, 0.1, 2.75, 3.3), "trained once, then fixed", "0.45")
    _draw_zone(axes, (2.95, 0.1, 2.2, 3.3), "ensemble of last layers", ORANGE)
    _draw_zone(axes, (5.3, 0.1, 1.85, 3.3), "degree of belief", GREEN)
    _draw_box(axes, (2.15, 1.575), (1.0, 0.62), "features\nψ")
    for height, name in ((2.2, "gestalt"), (0.95, "probe")):
        _draw_box(axes, (0.7, height), (0.95, 0.5), name)
        _draw_arrow(axes, (1.18, height), (1.65, 1.575))
    rows = {"θ¹": (2.6, "y¹ = 0.12"), "θ²": (1.95, "y² = 0.45"), "θᴶ": (0.6, "yᴶ = 0.20")}
    for name, (height, answer) in rows.items():
        _draw_arrow(axes, (2.65, 1.575), (3.35, height), color=ORANGE)
        _draw_box(axes, (3.55, height), (0.38, 0.4), name, ORANGE)
        _draw_arrow(axes, (3.75, height), (4.1, height), color=ORANGE)
        axes.text(4.13, height, answer, va="center", fontsize=8.5)
        _draw_arrow(axes, (4.92, height), (5.5, 1.6), color="0.6")
    for x in (3.55, 4.5):
        axes.text(x, 1.27, "⋮", fontsize=13, **CENTRED)
    axes.text(4.05, 0.22, "y = σ(θᵀψ)", ha="center", fontsize=8.5)
    _draw_density(axes)
    return figure


def _draw_density(axes: Axes) -> None:
    """Draw a density over the activation, and its mean."""
    x = np.linspace(0, 1, 200)
    density = x**0.9 * np.exp(-7 * x)
    inset = axes.inset_axes((5.62, 1.1, 1.4, 1.1), transform=axes.transData)
    inset.fill_between(x, density, color=GREEN, alpha=0.35, lw=0)
    inset.plot(x, density, color=GREEN, lw=1.3)
    mean = np.average(x, weights=density)
    inset.axvline(mean, color=GREEN, lw=1.3, ls="--")
    inset.text(mean + 0.04, density.max(), "mean over\nthe ensemble", fontsize=7.5, va="top")
    inset.set(xlim=(0, 1), ylim=(0, density.max()), xticks=(0, 1), yticks=(), facecolor="none")
    inset.spines["left"].set_visible(False)
    inset.set_xlabel("activation of one\noutput unit", fontsize=7.5)


def _make_canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Make axes in inches, so that circles are round and sizes are those on the page."""
    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return figure, axes


def _draw_zone(
    axes: Axes, place: tuple[float, float, float, float], title: str, colour: str
) -> None:
    x, y, width, height = place
    corner, size = (x + 0.08, y + 0.08), (width - 0.16, height - 0.16)
    style = "round,pad=0.08"
    axes.add_patch(FancyBboxPatch(corner, *size, style, fc=colour, ec="none", alpha=0.1))
    axes.text(x + width / 2, y + height - 0.08, title, ha="center", va="top", weight="bold")


def _draw_layer(
    axes: Axes, x: float, y: float, name: str, note: str, active: Iterable[int]
) -> None:
    """Draw a box with a row of units, with the `active` ones filled."""
    _draw_box(axes, (x, y), (2.3, 0.6), "")
    units = np.arange(UNITS)
    graded = 0.2 + 0.6 * (units * 5 % 7) / 7
    shade = graded if active == ALL else np.isin(units, list(active))
    across, colours = x - 0.96 + 0.24 * units, [str(1 - 0.75 * value) for value in shade]
    axes.scatter(across, np.full(UNITS, y - 0.15), 100, c=colours, ec="0.3", lw=0.7)
    axes.text(x, y + (0.2 if note else 0.13), name, fontsize=9, **CENTRED)
    axes.text(x, y + 0.05, note, fontsize=7, color="0.3", **CENTRED)


def _draw_box(
    axes: Axes,
    centre: tuple[float, float],
    size: tuple[float, float],
    text: str,
    colour: str = "0.3",
) -> None:
    corner = (centre[0] - size[0] / 2 + 0.05, centre[1] - size[1] / 2 + 0.05)
    inner, style = (size[0] - 0.1, size[1] - 0.1), "round,pad=0.05"
    axes.add_patch(FancyBboxPatch(corner, *inner, style, fc="white", ec=colour, lw=1))
    axes.text(*centre, text, **CENTRED)


def _draw_arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], **look: object
) -> None:
    usual = {"arrowstyle": "-|>", "mutation_scale": 9, "lw": 1.1, "color": "0.2"}
    whole = {"shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=usual | whole | look)


DIAGRAMS: dict[str, Callable[[], Figure]] = {
    "network": draw_network_diagram,
    "posterior": draw_posterior_diagram,
}


if __name__ == "__main__":
    for diagram, draw in DIAGRAMS.items():
        save_figure(draw(), Path(sys.argv[1]), diagram)
