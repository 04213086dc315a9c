"""The table and the figure of docs/peers.md, from `benchmarks/results/peers.csv`.

    python -m benchmarks.draw_peers            print the tables, draw docs/images/peers.png

Intervals are over seeds: mean ± t(0.975) · sd/√seeds, of the difference from the network where they
judge who is better, since all methods of a seed share its network and rows.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import t as student

from benchmarks.machine import RESULTS

__all__ = ["compare", "draw", "tabulate"]

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "peers.png"
OURS = "ours"


def compare(table: pd.DataFrame, score: str, reference: str) -> pd.DataFrame:
    """Compare every method with one, seed by seed: mean difference and half its 95 % interval."""
    rows = []
    for (dataset, method), own in table.groupby(["dataset", "method"], sort=False):
        other = table[(table["dataset"] == dataset) & (table["method"] == reference)]
        both = own.merge(other, on="seed", suffixes=("", "_reference"))
        difference = both[score] - both[f"{score}_reference"]
        rows.append((dataset, method, own[score].mean(), difference.mean(), _find_half(difference)))
    return pd.DataFrame(rows, columns=["dataset", "method", "mean", "difference", "half"])


def _find_half(values: "pd.Series[float]") -> float:
    n = len(values)
    return float(student.ppf(0.975, n - 1) * values.std() / np.sqrt(n)) if n > 1 else float("nan")


def tabulate(table: pd.DataFrame, score: str, digits: int = 4) -> str:
    """Return a Markdown table: methods by data sets; bold where level with the best of each."""
    found = compare(table, score, OURS)
    data, methods = list(found["dataset"].unique()), list(found["method"].unique())
    lines = ["| | " + " | ".join(data) + " |", "|---|" + "---|" * len(data)]
    for method in methods:
        cells = [_format_cell(found, table, score, name, method, digits) for name in data]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _format_cell(
    found: pd.DataFrame, table: pd.DataFrame, score: str, dataset: str, method: str, digits: int
) -> str:
    here = found[(found["dataset"] == dataset) & (found["method"] == method)]
    if here.empty or not np.isfinite(here["mean"].iloc[0]):
        return ""
    own = found[found["dataset"] == dataset].dropna(subset="mean")
    best = str(own["method"].iloc[int(own["mean"].argmin())])
    against = compare(table[table["dataset"] == dataset], score, best)
    line = against[against["method"] == method].iloc[0]
    text = f"{here['mean'].iloc[0]:.{digits}f}"
    level = method == best or line["difference"] <= line["half"]
    return f"**{text}**" if level else text


def draw(table: pd.DataFrame) -> Figure:
    """Draw how far each method is from ours in NLL, in percent of ours, with 95 % intervals."""
    data = list(table["dataset"].unique())
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    axes: Any = figure.subplots(1, len(data), sharey=True)
    methods = [name for name in table["method"].unique() if name != OURS]
    for panel, dataset in zip(np.atleast_1d(axes), data, strict=True):
        found = compare(table[table["dataset"] == dataset], "nll", OURS).set_index("method")
        found = found.reindex(methods)
        scale = 100 / table[(table["dataset"] == dataset) & (table["method"] == OURS)]["nll"].mean()
        y = np.arange(len(methods))[::-1]
        x, half = found["difference"] * scale, found["half"] * scale
        colour = np.where(x - half > 0, "#b2182b", np.where(x + half < 0, "#2166ac", "0.45"))
        panel.axvline(0, color="0.7", lw=1)
        for place, centre, reach, shade in zip(y, x, half, colour, strict=True):
            panel.errorbar(centre, place, xerr=reach, fmt="o", ms=4, color=shade, lw=1.3)
        panel.set_title(dataset, fontsize=8)
        panel.set_xscale("symlog", linthresh=1)
        panel.set_xticks([-10, -1, 0, 1, 10, 100], ["−10", "", "0", "", "10", "100"], fontsize=7)
        panel.set_yticks(y, methods, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(
        "test NLL above ours, % (95 % over seeds)   blue: better than ours, red: worse"
    )
    return figure


def main() -> None:
    """Print the tables and write the picture."""
    table = pd.read_csv(RESULTS / "peers.csv")
    for score, digits in (("nll", 4), ("ece", 4), ("fit_cpu_s", 2)):
        print(f"\n{score}\n{tabulate(table, score, digits)}")
    draw(table).savefig(PICTURE, dpi=140)


if __name__ == "__main__":
    main()
