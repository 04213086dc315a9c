"""The paper's central effect at every point of a grid: its table, its figure, and words.

A multiverse asks whether the effect depends on choices that the paper leaves open:

    effect of ROLE = activation of the indicated ROLE, Bayesian − trained (MLE)

at the critical word of the last condition (reversals), averaged over networks and items. `low` and
`high` are the 95 % interval by Student's t over the networks' means, since the cells of one network
are not independent; with a single network there is none. Points share networks, so how many
intervals lie above zero is a description of the grid and not a test.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.figure_style import COLOURS, apply_style
from equivocal.multiverse.grid import CHOICES, Point
from equivocal.multiverse.tasks import MAIN, STATE
from equivocal.statistics.summaries import compare_pairs

INTERVAL = ("effect", "low", "high")  # the columns of a specification table besides choices


def tabulate_points(points: Sequence[Point], records: Mapping[str, Any]) -> pd.DataFrame:
    """Tabulate each point's choices, the effect of each role, and the state of the sampler."""
    rows = []
    for point, (key, record) in zip(points, records.items(), strict=True):
        row: dict[str, Any] = {"key": key, **point.varied}
        for cell in record["cells"]:
            trained, bayes = (np.array(cell[name]) for name in ("mle", MAIN))
            row |= dict(zip(("networks", "num_items"), trained.shape, strict=True))
            role = cell["measure"].removeprefix("indicated ")
            found = average_cells(trained, bayes).items()
            row |= {f"{name}_{role}": value for name, value in found}
        rows.append(row | {name: record[name] for name in STATE})
    return pd.DataFrame(rows)


def average_cells(trained: np.ndarray, bayes: np.ndarray) -> dict[str, float]:
    """Average activations (network, item) of one role, with an interval over networks."""
    test = compare_pairs(bayes.mean(axis=1), trained.mean(axis=1))
    ends = {"effect": test.mean, "low": test.ci_low, "high": test.ci_high}
    return {"mle": float(trained.mean()), "bayes": float(bayes.mean()), **ends}


def list_roles(table: pd.DataFrame) -> list[str]:
    """List the roles whose effect is in a table."""
    names = (str(name) for name in table.columns)
    return [name.removeprefix("effect_") for name in names if name.startswith("effect_")]


def make_curve_table(table: pd.DataFrame, role: str) -> pd.DataFrame:
    """Make the input of `draw_specification_curve`: effect, interval and varying choices."""
    columns = {name: table[f"{name}_{role}"] for name in ("effect", "low", "high")}
    columns |= {
        name.replace("_", " "): table[name] for name in CHOICES if table[name].nunique() > 1
    }
    return pd.DataFrame(columns)


def tabulate_effects(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the distribution of each role's effect over specifications.

    Returns
    -------
    DataFrame
        A row for each role: shares of positive effects and of intervals above zero; smallest,
        median, largest.
    """
    rows = []
    for role in list_roles(table):
        effect, low = table[f"effect_{role}"], table[f"low_{role}"]
        above = low.dropna() > 0  # a single network has no interval
        shares = {"share_positive": (effect > 0).mean(), "share_interval_above": above.mean()}
        ends = {"smallest": effect.min(), "median": effect.median(), "largest": effect.max()}
        rows.append({"role": role, **shares, **ends})
    return pd.DataFrame(rows)


def describe_effects(table: pd.DataFrame) -> tuple[str, ...]:
    """Say how the effect is distributed over specifications, a sentence for each role."""
    said = [
        f"Indicated {row['role']}: the effect is positive in {row['share_positive']:.0%} of "
        f"{len(table)} specifications, from {row['smallest']:.2g} to {row['largest']:.2g}, median "
        f"{row['median']:.2g} (activation, Bayesian − trained)."
        for row in tabulate_effects(table).to_dict("records")
    ]
    diverged = (table["diverged"] > 0).sum()
    counts = f"{table['networks'].iloc[0]} networks; {table['converged'].sum()} specifications"
    return (*said, f"{counts} converged and {diverged} diverged in some unit.")


@apply_style()
def draw_specification_curve(table: pd.DataFrame) -> Figure:
    """Draw the effects of all analyses in order of size, and below them the choices behind each.

    Parameters
    ----------
    table : DataFrame
        A row for each analysis: `effect`, `low`, `high`, and a column for each choice.
    """
    ordered = table.sort_values("effect", kind="stable", ignore_index=True)
    choices = [str(name) for name in table.columns if name not in INTERVAL]
    rows = [
        (name, value) for name in choices for value in sorted(table[name].unique(), key=_rank_value)
    ]
    figure = Figure(figsize=(7, 2.4 + 0.19 * len(rows)))
    ratios = (2.2, 0.19 * len(rows) + 0.1)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
    _draw_curve(top, ordered)
    x = np.arange(len(ordered))
    for height, (name, value) in enumerate(rows):
        chosen = x[(ordered[name] == value).to_numpy()]
        bottom.plot(chosen, np.full(len(chosen), height), "|", ms=5, mew=1.1, color="0.15")
        if choices.index(name) % 2 == 0:
            bottom.axhspan(height - 0.5, height + 0.5, color="0.93", lw=0, zorder=0)
    bottom.set_yticks(range(len(rows)), [f"{name}: {_format(value)}" for name, value in rows])
    bottom.tick_params(axis="y", length=0, labelsize=7.5)
    bottom.set(ylim=(len(rows) - 0.5, -0.5), xlabel=f"{len(ordered)} analyses, by effect")
    bottom.set_xticks([])
    bottom.spines[:].set_visible(False)
    return figure


def _draw_curve(axes: Axes, ordered: pd.DataFrame) -> None:
    size = float(np.clip(250 / len(ordered), 1.5, 5))
    groups = (
        (ordered["low"] > 0, COLOURS[0], "o", "interval above zero"),
        (ordered["high"] < 0, COLOURS[1], "s", "interval below zero"),
        ((ordered["low"] <= 0) & (ordered["high"] >= 0), "0.55", "D", "interval includes zero"),
        (ordered["low"].isna(), "0.55", "D", "no interval, one network"),
    )
    for chosen, colour, marker, label in groups:
        part = ordered[chosen]
        if len(part):
            axes.vlines(part.index, part["low"], part["high"], color=colour, lw=0.9, alpha=0.6)
            axes.plot(part.index, part["effect"], marker, ms=size, color=colour, label=label)
    axes.axhline(0, color="0.3", lw=0.8, zorder=0)
    sizes = ordered["effect"].abs()
    typical = float(sizes.median())
    if (
        typical > 0 and sizes.max() > 100 * typical
    ):  # on a linear axis most effects would lie on zero
        axes.set_yscale("symlog", linthresh=typical / 10)
    axes.set_ylabel("effect: activation,\nBayesian − trained (MLE)")
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper left")


def _rank_value(value: object) -> tuple[bool, float, str]:
    """Return a sorting key: numbers by size, then words in alphabetical order."""
    size = float(value) if isinstance(value, int | float | np.number) else None
    return size is None, size or 0.0, str(value)


def _format(value: object) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
