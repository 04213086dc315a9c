"""Figures about human data: measures compared, statistical power, comprehenders beside people.

The tables are defined in `equivocal.people.published` and `equivocal.people.trial_tables`.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from equivocal.figure_style import COLOURS, apply_style

MODELS = {"alone": ("o", COLOURS[0], "added alone"), "together": ("s", COLOURS[1], "beyond others")}
MARKERS = "osD^vP*X"
PEOPLE: dict[str, Any] = {"color": COLOURS[6], "marker": "*", "ms": 11, "ls": "none"}
LOOKS = {  # colour, marker and shift within a row
    "ideal": ("0.45", "P", -0.24),
    "trained": (COLOURS[4], "v", -0.08),
    "paper's sampler": (COLOURS[1], "D", 0.08),
    "posterior": (COLOURS[2], "o", 0.24),
}
SHARES = ("not literal", "reversed")


@apply_style()
def draw_comparison(table: pd.DataFrame) -> Figure:
    """Draw coefficients with 95 % intervals, and how much each measure lowers the AIC."""
    names = list(dict.fromkeys(table["measure"]))
    kinds = list(dict.fromkeys(table["model"]))
    figure = Figure(figsize=(7, 1.5 + 0.42 * len(names)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.25, 1))
    for number, kind in enumerate(kinds):
        marker, colour, label = MODELS[kind]
        part = table[table["model"] == kind]
        shift = (number - (len(kinds) - 1) / 2) * 0.28
        y = np.array([names.index(name) for name in part["measure"]]) + shift
        filled = [colour if fine else "white" for fine in part["converged"]]
        left.hlines(y, part["std_low"], part["std_high"], color=colour, lw=1.4)
        right.hlines(y, 0, part["delta_aic"], color=colour, lw=1.4)
        for axes, x in ((left, part["std_estimate"]), (right, part["delta_aic"])):
            axes.scatter(x, y, marker=marker, s=26, c=filled, edgecolors=colour, zorder=3)
        left.plot([], [], marker, color=colour, label=label)
    for axes in (left, right):
        axes.axvline(0, color="0.5", lw=0.8, zorder=0)
    left.set_yticks(range(len(names)), names)
    left.set_ylim(len(names) - 0.5, -0.5)
    unit = "log odds" if (table["family"] == "binomial").all() else "sd of response"
    left.set_xlabel(f"coefficient, {unit} per sd of measure")
    right.set_xlabel("AIC without − AIC with")
    right.tick_params(axis="y", length=0)
    if table["delta_aic"].abs().max() > 100:  # or small ones would be drawn at zero
        right.set_xscale("symlog", linthresh=10)
    if not table["converged"].all():
        left.plot([], [], "o", mfc="white", mec="0.3", label="did not converge")
    if len(left.get_legend_handles_labels()[0]) > 1:
        figure.legend(loc="outside lower center", ncols=3)
    return figure


@apply_style()
def draw_power(table: pd.DataFrame) -> Figure:
    """Draw power against participants, a line for each number of items, with 95 % intervals."""
    figure = Figure(figsize=(4.8, 3.4))
    axes = figure.subplots()
    counts = sorted(table["items"].unique())
    widest = float(table["participants"].max())
    for number, items in enumerate(counts):
        part = table[table["items"] == items].sort_values("participants")
        # shifted a little, so that bars do not hide each other
        x = part["participants"] + (number - (len(counts) - 1) / 2) * widest / 150
        bars = _find_bars(part["power"], part["low"], part["high"])
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.errorbar(
            x, part["power"], bars, fmt=f"-{marker}", ms=4, color=colour, label=str(items)
        )
    axes.axhline(0.8, color="0.6", lw=0.8, ls=":", zorder=0)
    axes.set(xlabel="participants", ylabel="share of experiments with p < 0.05")
    axes.set_ylim(-0.03, 1.03)
    axes.set_xticks(sorted(table["participants"].unique()))
    axes.legend(title="items")
    return figure


@apply_style()
def draw_people(people: pd.DataFrame) -> Figure:
    """Draw each human share as a star in a row of its own, with comprehenders as points.

    Parameters
    ----------
    people : DataFrame
        The table of `compare_with_people`.
    """
    shown = people[people["measure"].isin(SHARES) & (people["comparable"] != "no")]
    keys = ["measure", "construction", "plausibility"]
    shown = shown.assign(place=shown.groupby(keys, sort=False, dropna=False).ngroup())
    rows = shown.drop_duplicates("place")
    names = [f"{r['measure']}\n{r['plausibility']} {r['construction']}" for _, r in rows.iterrows()]
    figure = Figure(figsize=(7.2, 3.6))
    axes = figure.subplots()
    for name, group in shown.groupby("comprehender", sort=False):
        drawn, (colour, marker, shift) = group[group["found"].notna()], LOOKS[str(name)]
        bars = _find_bars(drawn["found"], drawn["found_low"], drawn["found_high"])
        look: dict[str, Any] = {"color": colour, "marker": marker, "ms": 5, "ls": "none"}
        axes.errorbar(drawn["found"], drawn["place"] + shift, xerr=bars, label=name, **look)
    axes.plot(rows["value"], rows["place"], label="people", **PEOPLE)
    axes.hlines(rows["place"], rows["low"], rows["high"], color=COLOURS[6], lw=1.5)
    axes.set_yticks(rows["place"], names, fontsize=7.5)
    axes.set(xlim=(0, None), xlabel="share of readings", ylim=(len(rows) - 0.5, -0.5))
    title = "whiskers: 95 % over networks and items\n(ideal: over items)"
    figure.legend(loc="outside right center", title=title, title_fontsize=7.5)
    return figure


def _find_bars(value: pd.Series, low: pd.Series, high: pd.Series) -> np.ndarray:
    """Return the lengths of intervals below and above their values, (2, rows); 0 if missing."""
    reach = np.maximum(np.array([value - low, high - value], float), 0)
    return np.asarray(np.nan_to_num(reach))
