"""Two diagrams: the Sentence Gestalt network, and where in it the posterior sits."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from equivocal.report.style import COLOURS, publication_style

BLUE, ORANGE, GREEN = COLOURS[:3]
UNITS = 9  # circles drawn for a layer; the layers have about a hundred units


def draw_network_diagram() -> Figure:
    """Draw the update network, which keeps a gestalt, and the query network, which answers."""
    with publication_style():
        figure, axes = _make_canvas(7.2, 4.3)
        _draw_zone(axes, (0.05, 0.1, 3.4, 4.1), "update network: listens", BLUE)
        _draw_zone(axes, (3.75, 0.1, 3.4, 4.1), "query network: answers", ORANGE)
        words = _draw_layer(
            axes, 1.95, 0.75, "word and marker tokens", "e.g. “during” + “dinner”", {2, 6}
        )
        heard = _draw_layer(axes, 1.95, 2.0, "hidden", "", range(UNITS))
        gestalt = _draw_layer(axes, 1.95, 3.25, "gestalt", "everything heard so far", range(UNITS))
        probe = _draw_layer(axes, 5.45, 0.75, "probe", "a role or a filler, e.g. “agent?”", {4})
        hidden = _draw_layer(axes, 5.45, 2.0, "hidden ψ", "", range(UNITS))
        output = _draw_layer(axes, 5.45, 3.25, "output units", "e.g. “woman”, “person”", {1, 7})
        for start, end in ((words, heard), (heard, gestalt), (probe, hidden), (hidden, output)):
            _draw_arrow(axes, (start[0], start[1] + 0.3), (end[0], end[1] - 0.3))
        _draw_arrow(axes, (gestalt[0] + 1.15, gestalt[1]), (hidden[0] - 1.15, hidden[1]))
        _draw_arrow(axes, (0.8, gestalt[1]), (0.8, heard[1]), curve=0.3, style="--")
        axes.text(0.12, 2.62, "at the\nnext\nword", fontsize=7.5, va="center")
        return figure


def draw_posterior_diagram() -> Figure:
    """Draw fixed features, an ensemble of last layers, and the spread of their answers."""
    with publication_style():
        figure, axes = _make_canvas(7.2, 3.5)
        _draw_zone(axes, (0.05, 0.1, 2.75, 3.3), "trained once, then fixed", "0.45")
        _draw_zone(axes, (2.95, 0.1, 2.2, 3.3), "ensemble of last layers", ORANGE)
        _draw_zone(axes, (5.3, 0.1, 1.85, 3.3), "degree of belief", GREEN)
        gestalt = _draw_box(axes, 0.7, 2.2, 0.95, 0.5, "gestalt")
        probe = _draw_box(axes, 0.7, 0.95, 0.95, 0.5, "probe")
        psi = _draw_box(axes, 2.15, 1.575, 1.0, 0.62, "features\nψ")
        for start in (gestalt, probe):
            _draw_arrow(axes, (start[0] + 0.48, start[1]), (psi[0] - 0.5, psi[1]))
        rows = {"θ¹": (2.6, "y¹ = 0.12"), "θ²": (1.95, "y² = 0.45"), "θᴶ": (0.6, "yᴶ = 0.20")}
        for name, (height, answer) in rows.items():
            _draw_arrow(axes, (psi[0] + 0.5, psi[1]), (3.35, height), colour=ORANGE)
            _draw_box(axes, 3.55, height, 0.38, 0.4, name, ORANGE)
            _draw_arrow(axes, (3.75, height), (4.1, height), colour=ORANGE)
            axes.text(4.13, height, answer, va="center", fontsize=8.5)
            _draw_arrow(axes, (4.92, height), (5.5, 1.6), colour="0.6")
        axes.text(3.55, 1.27, "⋮", ha="center", va="center", fontsize=13)
        axes.text(4.5, 1.27, "⋮", ha="center", va="center", fontsize=13)
        axes.text(4.05, 0.22, "y = σ(θᵀψ)", ha="center", fontsize=8.5)
        _draw_density(axes)
        return figure


def _draw_density(axes: Axes) -> None:
    """Draw a density over the activation, and its mean."""
    x = np.linspace(0, 1, 200)
    density = x**0.9 * np.exp(-7 * x)
    left, bottom, width, height = 5.62, 1.1, 1.4, 1.1
    curve = bottom + height * density / density.max()
    axes.fill_between(left + width * x, bottom, curve, color=GREEN, alpha=0.35, lw=0)
    axes.plot(left + width * x, curve, color=GREEN, lw=1.3)
    axes.plot([left, left + width], [bottom, bottom], color="black", lw=0.8)
    mean = left + width * float((x * density).sum() / density.sum())
    axes.plot([mean, mean], [bottom, bottom + height], color=GREEN, lw=1.3, ls="--")
    axes.text(mean + 0.06, bottom + height, "mean over\nthe ensemble", fontsize=7.5, va="top")
    for value, label in ((0, "0"), (1, "1")):
        axes.text(left + width * value, bottom - 0.07, label, ha="center", va="top", fontsize=8)
    axes.text(
        left + width / 2,
        bottom - 0.33,
        "activation of one\noutput unit,\ne.g. “pizza” as agent",
        ha="center",
        va="top",
        fontsize=7.5,
    )


def _make_canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Make axes in inches, so that circles are round and sizes are those of the page."""
    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return figure, axes


def _draw_zone(
    axes: Axes, place: tuple[float, float, float, float], title: str, colour: str
) -> None:
    x, y, width, height = place
    axes.add_patch(
        FancyBboxPatch(
            (x + 0.08, y + 0.08),
            width - 0.16,
            height - 0.16,
            boxstyle="round,pad=0.08",
            facecolor=colour,
            edgecolor="none",
            alpha=0.1,
        )
    )
    axes.text(x + width / 2, y + height - 0.08, title, ha="center", va="top", weight="bold")


def _draw_layer(
    axes: Axes, x: float, y: float, name: str, note: str, active: Iterable[int]
) -> tuple[float, float]:
    """Draw a box with a row of units, of which `active` ones are filled; return its centre."""
    _draw_box(axes, x, y, 2.3, 0.6, "")
    on = set(active)
    for number in range(UNITS):
        shade = (0.2 + 0.6 * ((number * 5) % 7) / 7) if len(on) == UNITS else float(number in on)
        face = str(1 - 0.75 * shade)
        axes.add_patch(
            Circle((x - 0.96 + 0.24 * number, y - 0.15), 0.075, fc=face, ec="0.3", lw=0.7)
        )
    axes.text(x, y + 0.2 if note else y + 0.13, name, ha="center", va="center", fontsize=9)
    if note:
        axes.text(x, y + 0.05, note, ha="center", va="center", fontsize=7, color="0.3")
    return x, y


def _draw_box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str = "0.3"
) -> tuple[float, float]:
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2 + 0.05, y - height / 2 + 0.05),
            width - 0.1,
            height - 0.1,
            boxstyle="round,pad=0.05",
            facecolor="white",
            edgecolor=colour,
            lw=1,
        )
    )
    axes.text(x, y, text, ha="center", va="center")
    return x, y


def _draw_arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = "0.2",
    curve: float = 0.0,
    style: str = "-",
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=9,
            lw=1.1,
            color=colour,
            ls=style,
            shrinkA=0,
            shrinkB=0,
            connectionstyle=f"arc3,rad={curve}",
        )
    )
