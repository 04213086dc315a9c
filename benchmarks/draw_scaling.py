"""The figure of docs/scaling.md, from recorded results.

    python -m benchmarks.draw_scaling            writes docs/images/scaling.png

Reads results/scaling.json; measures nothing.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from equivocal.figure_style import COLOURS, apply_style

RESULTS = Path(__file__).parent / "results"
OUT = Path(__file__).parents[1] / "docs" / "images" / "scaling.png"


def draw_rows(axes: Axes, memory: Axes, found: dict[str, Any]) -> None:
    """Draw seconds and peak memory against the number of rows."""
    for how, colour, words in (
        ("file", COLOURS[0], "read from a file"),
        ("memory", COLOURS[1], "in memory"),
    ):
        sizes = sorted((rows for rows in found if how in found[rows]), key=int)
        points = [(int(rows), found[rows][how]) for rows in sizes]
        rows = [number for number, _ in points]
        axes.loglog(rows, [one["seconds"] for _, one in points], "o-", color=colour, label=words)
        peaks = [one["peak_bytes"] / 1e9 for _, one in points]
        memory.semilogx(rows, peaks, "o-", color=colour)
    axes.set(xlabel="rows", ylabel="seconds", title="a posterior of 16 outputs")
    memory.axhline(2, color="0.5", linestyle=":", label="the budget, 2 GB")
    memory.set(xlabel="rows", ylabel="GB of the whole process", title="its memory", ylim=(0, 2.4))
    axes.legend()
    memory.legend(loc="lower right")


def main() -> None:
    """Draw two panels."""
    scaling = json.loads((RESULTS / "scaling.json").read_text(encoding="utf-8"))
    with apply_style():
        figure, axes = plt.subplots(1, 2, figsize=(7, 3.2))
        draw_rows(axes[0], axes[1], scaling["streamed"])
        figure.savefig(OUT, dpi=150)


if __name__ == "__main__":
    main()
