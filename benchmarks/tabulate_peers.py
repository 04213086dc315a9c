"""The tables of benchmarks/peers.md, from `benchmarks/results/peers.csv`.

    python -m benchmarks.tabulate_peers

Intervals are over seeds: mean ± t(0.975) · sd/√seeds. To judge which method is better, they are
intervals of the paired difference, since all methods of a seed share its network and rows.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student

__all__ = ["compare", "list_tables", "load", "tabulate"]

RESULTS = Path(__file__).parent / "results"
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
    """Print the tables."""
    table = load()
    for name, text in list_tables(table).items():
        print(f"\n{name}\n{text}")
    for name in OTHER_SCORES:
        print(f"\n{name}\n{tabulate(table.dropna(subset=name), name)}")


if __name__ == "__main__":
    main()
