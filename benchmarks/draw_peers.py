"""The table and the figure of benchmarks/peers.md, from `benchmarks/results/peers.csv`.

    python -m benchmarks.draw_peers            print the tables, draw docs/images/peers.png

Intervals are over seeds: mean ± t(0.975) · sd/√seeds. To judge which method is better, they are
intervals of the paired difference, since all methods of a seed share its network and rows.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import t as student

__all__ = ["compare", "draw", "list_tables", "load", "tabulate"]

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "peers.png"
OURS = "ours"
OWN_NETWORKS = {"mc-dropout", "deep-ensemble"}  # train networks of their own
SCORES = ("nll", "ece", "ece_label", "brier")  # the scores that the page shows
LATER = "timed later"  # marks rows whose seconds are not comparable, in their notes
OTHER_SCORES = ("selective_risk", "nll_excess")
STRANGE = [
    f"auroc_{kind}_{by}"
    for kind in ("noise", "shifted")
    for by in ("entropy", "information", "disagreement")
]


def compare(table: pd.DataFrame, score: str, reference: str) -> pd.DataFrame:
    """Compare every method with a reference, seed by seed.

    Returns each mean, its difference from the reference and half the 95 % interval of that.
    """
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
    """Return a Markdown table of a score: methods by data sets.

    Bold: the best method that starts from the one trained network, and all that are not
    significantly worse.
    """
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
    own = own[~own["method"].isin(OWN_NETWORKS)]
    best = str(own["method"].iloc[int(own["mean"].argmin())])
    both = table[(table["dataset"] == dataset) & table["method"].isin([method, best])]
    against = compare(both, score, best)
    line = against[against["method"] == method].iloc[0]
    text = f"{here['mean'].iloc[0]:.{digits}f}"
    level = method == best or line["difference"] <= line["half"]
    return f"**{text}**" if level else text


def tabulate_strange(table: pd.DataFrame) -> str:
    """Return a Markdown table of how well strange inputs are separated from test rows (AUROC)."""
    means = (
        table[table["dataset"] == "digits-classes"].groupby("method", sort=False)[STRANGE].mean()
    )
    heads = [name.removeprefix("auroc_").replace("_", ", by ") for name in STRANGE]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for method, row in means.iterrows():
        cells = ["" if np.isnan(value) else f"{value:.3f}" for value in row]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tabulate_cost(table: pd.DataFrame) -> str:
    """Return a Markdown table of processor seconds to fit, once compiled, and MB, by data set.

    A star marks seconds that were measured later than the others.
    """
    later = table[~table["first_call"]]
    data = list(table["dataset"].unique())
    lines = ["| | " + " | ".join(data) + " | lines |", "|---|" + "---|" * (len(data) + 1)]
    for method in table["method"].unique():
        if method == "network":  # it is not fitted
            continue
        cells = []
        for dataset in data:
            own = later[(later["dataset"] == dataset) & (later["method"] == method)]
            seconds, peak = own["fit_cpu_s"].median(), own["peak_mb"].max()
            mark = "\\*" if own["note"].str.contains(LATER, na=False).any() else ""
            cells.append("" if own.empty else f"{seconds:.2g} s{mark}, {peak:.0f} MB")
        code = table[table["method"] == method]["lines"].iloc[0]
        lines.append(f"| {method} | " + " | ".join(cells) + f" | {code} |")
    return "\n".join(lines)


def draw(table: pd.DataFrame) -> Figure:
    """Draw each method's difference from ours in NLL, in percent of ours, with 95 % intervals."""
    data = list(table[table["method"] == OURS]["dataset"].unique())
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
        panel.set_xlim(-30, 600)
        panel.set_xticks([-10, -1, 0, 1, 10, 100], ["−10", "", "0", "", "10", "100"], fontsize=7)
        panel.set_yticks(y, methods, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    axis = "test NLL above ours, % (95 % interval over seeds); blue: better than ours, red: worse"
    figure.supxlabel(axis, fontsize=9)
    return figure


def drop_incomplete(table: pd.DataFrame) -> pd.DataFrame:
    """Drop methods that lack some seeds of a data set, and data sets with a single seed.

    Their means could not be compared.
    """
    seeds = table.groupby(["dataset", "method"])["seed"].transform("size")
    return table[(seeds == seeds.groupby(table["dataset"]).transform("max")) & (seeds > 1)]


def load() -> pd.DataFrame:
    """Load the recorded results of methods that ran with all seeds.

    Rows without scores say in their note why a method was stopped or not run.
    """
    table = pd.read_csv(RESULTS / "peers.csv").dropna(subset="nll")
    return drop_incomplete(table.astype({"first_call": bool, "lines": int}))


def list_tables(table: pd.DataFrame) -> dict[str, str]:
    """Return every table of the page, by name."""
    found = {name: tabulate(table.dropna(subset=name), name) for name in SCORES}
    return found | {"strange inputs": tabulate_strange(table), "cost": tabulate_cost(table)}


def main() -> None:
    """Print the tables and write the picture."""
    table = load()
    for name, text in list_tables(table).items():
        print(f"\n{name}\n{text}")
    for name in OTHER_SCORES:
        print(f"\n{name}\n{tabulate(table.dropna(subset=name), name)}")
    draw(table).savefig(PICTURE, dpi=140)


if __name__ == "__main__":
    main()
