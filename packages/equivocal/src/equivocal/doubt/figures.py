"""Figures of kinds of uncertainty: the frontier, the ladder up to learners, and all in rows."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from equivocal.figure_style import COLOURS, apply_style

__all__ = ["draw_frontier", "draw_kinds", "draw_ladder"]

# colour, marker and the offset of labels from their points, for each kind
LOOKS = {
    "trained": (COLOURS[6], "*", (9, 3)),
    "paper's sampler": (COLOURS[1], "D", (4, 6)),
    "posterior": (COLOURS[2], "o", (5, 5)),
    "MC dropout": (COLOURS[3], "v", (6, 3)),
    "deep ensemble": (COLOURS[0], "s", (6, -9)),
    "ensemble of samplers": (COLOURS[4], "D", (4, -11)),
    "ensemble of posteriors": (COLOURS[5], "o", (-4, -13)),
    "temperature": ("0.35", "^", (5, 5)),
    "prior": ("0.55", "<", (5, 5)),
    "label smoothing": ("0.35", ">", (5, -9)),
    "word noise": ("0.35", "p", (5, 5)),
    "half": ("black", "d", (-22, -11)),
    "query": ("0.5", "P", (5, 5)),
    "all": ("0.5", "X", (5, 5)),
}
YARDSTICKS = {  # kinds that are lines: they know what no network does
    "constant": "best constant",
    "learner-counts": "counting learner",
    "learner-pooled": "pooled learner",
}
OTHER = ("0.6", "h", (5, 5))  # of a kind that is not listed
NAMES = {"query": "posterior, query network", "all": "posterior, every weight"}  # in the legend
CENTRAL = 1.0  # prior variance of solid lines; others are dashed, and drawn for posteriors only
PANELS = {
    "nll_excess": "nats above the truth",
    "calibration_error": "calibration error",
    "auroc": "AUROC of reversals",
    "seconds": "seconds beyond one network",
}
LADDER = (  # kinds, a part of the name of a setting (the last of those is taken), and what they are
    ("constant", "", "best constant"),
    ("trained", "", "network, as trained"),
    ("temperature", "held-out", "its temperature"),
    ("temperature", "logits / 1.5", "its logits / 1.5"),
    ("prior", "v = 0.1", "prior without data"),
    ("paper's sampler", "", "paper's sampler, {setting}"),
    ("posterior", "b = 1, v = 1", "posterior"),
    ("posterior", "sentence", "posterior, sentences count once"),
    ("deep ensemble", "", "{number} networks"),
    ("ensemble of posteriors", "b = 1, v = 1", "{number} posteriors"),
    ("ensemble of posteriors", "sentence", "{number} posteriors, sentences once"),
    ("learner-counts", "", "listener who counts"),
    ("learner-pooled", "", "listener who pools verbs"),
    ("learner-form", "", "listener who knows the form"),
)
RUNGS = {
    "kl_reversal": "error on reversed\nsentences, nats",
    "kl_congruent": "error on plausible\nsentences, nats",
    "spread_ratio": "spread, relative to the\nlistener who counts",
}
TICKS = [factor * 10.0**power for power in range(-5, 2) for factor in (1, 2, 5)]


@apply_style()
def draw_frontier(summary: pd.DataFrame) -> Figure:
    """Draw a curve for each kind along its strength, the Pareto frontier behind them, and learners.

    Parameters
    ----------
    summary : DataFrame
        As `summarise_frontier` returns it.
    """
    figure = Figure(figsize=(8.2, 6.2))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", ylabel="reversals: nats from the truth")
    axes.set_xlabel("congruent sentences: nats from the truth")
    summary = summary.sort_values(["kind", "value"], kind="stable")
    variances = summary["prior_variance"].where(summary["kind"] != "prior").fillna(CENTRAL)
    shown = (variances == CENTRAL) | (summary["kind"] == "posterior")
    shown &= summary["setting"] != "oracle"
    drawn = summary[shown & ~summary["kind"].str.startswith(("learner", "constant"))]
    for kind, own in drawn.groupby("kind", sort=False):
        for variance in variances[own.index].unique():
            _draw_curve(axes, str(kind), own[variances[own.index] == variance], variance)
    for kind, text in YARDSTICKS.items():
        for height in summary.loc[summary["kind"] == kind, "kl_reversal"]:
            axes.axhline(height, color="black", lw=0.8, ls=":", zorder=1)
            side: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 7}
            axes.text(0.99, height, text, transform=axes.get_yaxis_transform(), **side)
    _draw_pareto(axes, summary[summary["on_frontier"]])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(TICKS))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")
    axes.grid(lw=0.4, color="0.92")
    arrow = {"arrowstyle": "->", "color": "0.35"}
    place: dict[str, Any] = {"xytext": (0.09, 0.07), "xycoords": "axes fraction", "fontsize": 8}
    text = "nearer to the truth on both"
    axes.annotate(text, (0.01, 0.012), **place, color="0.35", arrowprops=arrow)
    note = "grey: the Pareto frontier; whiskers: 95 % intervals; b: weight of the evidence, "
    note += "v: prior variance (1 unless named)"
    figure.legend(loc="outside lower center", ncols=4, title=note, title_fontsize=8)
    return figure


def _draw_curve(axes: Axes, kind: str, own: pd.DataFrame, variance: float) -> None:
    """Draw one kind under one prior variance, with labels at its ends and at `sentence`."""
    colour, marker, way = LOOKS.get(kind, OTHER)
    central = variance == CENTRAL
    x, y = own["kl_congruent"], own["kl_reversal"]
    axes.plot(x, y, "-" if central else "--", lw=1.5 if central else 0.8, color=colour, zorder=2)
    _draw_whiskers(axes, own, colour)
    size = 170 if kind == "trained" else 26 if central else 12
    fill, label = (colour, NAMES.get(kind, kind)) if central else ("white", None)
    axes.scatter(x, y, size, marker=marker, fc=fill, ec=colour, zorder=3, label=label)
    for place in _choose_labelled(own, kind) if central else [len(own) - 1]:
        text = _shorten(str(own["setting"].iloc[place])) if central else f"v = {variance:g}"
        point = (x.iloc[place], y.iloc[place])
        axes.annotate(text, point, way, textcoords="offset points", fontsize=7, color=colour)


def _draw_whiskers(axes: Axes, own: pd.DataFrame, colour: Any) -> None:
    """Draw the intervals of both errors."""
    up, across = _find_bars(own, "kl_reversal"), _find_bars(own, "kl_congruent")
    x, y = own["kl_congruent"], own["kl_reversal"]
    axes.errorbar(x, y, up, across, fmt="none", lw=0.8, color=colour, alpha=0.4)


def _find_bars(own: pd.DataFrame, name: str) -> tuple[pd.Series, pd.Series]:
    """Return the lengths of an error's interval below and above its value."""
    return own[name] - own[f"{name}_low"], own[f"{name}_high"] - own[name]


def _choose_labelled(own: pd.DataFrame, kind: str) -> list[int]:
    """Return the indices of the labelled settings: both ends and, for posteriors, `sentence`."""
    named = [i for i, setting in enumerate(own["setting"]) if "sentence" in setting]
    return sorted({0, len(own) - 1, *(named if kind == "posterior" else [])})


def _shorten(setting: str) -> str:
    """Shorten the name of a setting to what the legend does not say.

    >>> _shorten("10 × b = 1/35, v = 1 (sentence)"), _shorten("10 networks")
    ('b = 1/35 (sentence)', '10 networks')
    """
    setting = setting.partition(" × ")[2] or setting
    named = " (sentence)" if "sentence" in setting else ""
    return "" if setting in ("as trained", "v = 1") else setting.partition(", v = ")[0] + named


def _draw_pareto(axes: Axes, best: pd.DataFrame) -> None:
    """Draw the Pareto frontier as steps, and its points under other prior variances."""
    best = best.sort_values("kl_congruent")
    others = best[best["prior_variance"].fillna(CENTRAL) != CENTRAL]
    for kind, own in others.groupby("kind"):
        _draw_whiskers(axes, own, LOOKS.get(str(kind), OTHER)[0])
    (low, high), (floor, ceiling) = axes.get_xlim(), axes.get_ylim()
    x = [best["kl_congruent"].iloc[0], *best["kl_congruent"], high]
    y = [ceiling, *best["kl_reversal"], best["kl_reversal"].iloc[-1]]
    axes.plot(x, y, drawstyle="steps-post", color="0.85", lw=6, zorder=0)
    for _, row in others.iterrows():
        colour, marker, way = LOOKS.get(row["kind"], OTHER)
        point = (row["kl_congruent"], row["kl_reversal"])
        axes.scatter(*point, 26, marker=marker, fc="white", ec=colour, zorder=3)
        text = f"v = {row['prior_variance']:g}"
        axes.annotate(text, point, way, textcoords="offset points", fontsize=6.5, color=colour)
    axes.set(xlim=(low, high), ylim=(floor, ceiling))


@apply_style()
def draw_ladder(summary: pd.DataFrame) -> Figure:
    """Draw errors and spreads of the kinds that matter, between the constant and the learners.

    Parameters
    ----------
    summary : DataFrame
        As `summarise_frontier` returns it.
    """
    kept = [
        own.iloc[-1].to_dict() | {"label": label}
        for kind, part, label in LADDER
        if len(own := summary[(summary["kind"] == kind) & _contains(summary["setting"], part)])
    ]
    figure = Figure(figsize=(7.4, 1 + 0.25 * len(kept)))
    grid = figure.subplots(1, len(RUNGS), sharey=True)
    for axes, (name, title) in zip(grid, RUNGS.items(), strict=True):
        for place, row in enumerate(kept):
            colour = LOOKS.get(row["kind"], ("black",))[0]
            ends = [row[f"{name}_low"], row[f"{name}_high"]]
            axes.plot(ends, [place, place], color=colour, lw=1.6)
            axes.plot(row[name], place, "o", color=colour, ms=5)
        axes.set_title(title, fontsize="medium")
        axes.grid(axis="x", lw=0.4, color="0.85")
    labels = [
        row["label"].format(number=row["setting"].split()[0], setting=row["setting"])
        for row in kept
    ]
    grid[0].set_yticks(range(len(kept)), labels)
    grid[0].set_ylim(len(kept) - 0.5, -0.5)
    grid[2].axvline(1, color="0.5", lw=0.8, ls=":")
    grid[2].set(xscale="log", xlim=(0.15, 15), xticks=[0.2, 0.5, 1, 2, 5, 10])
    for axes in grid[1:]:
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
    return figure


def _contains(settings: pd.Series, part: str) -> pd.Series:
    return settings.str.contains(part, regex=False)


@apply_style()
def draw_kinds(table: pd.DataFrame, summary: pd.DataFrame) -> Figure:
    """Draw a row for each kind: ticks are networks (ensembles: all but one), bars intervals.

    Parameters
    ----------
    table, summary : DataFrame
        As `tabulate_frontier` and `summarise_frontier` return them.
    """
    names = [f"{row.kind} ({row.setting})" for row in summary.itertuples()]
    figure = Figure(figsize=(9.6, 0.9 + 0.3 * len(names)))
    grid = figure.subplots(1, len(PANELS), sharey=True)
    keys = table["kind"] + table["setting"]
    for axes, (name, title) in zip(grid, PANELS.items(), strict=True):
        for place, (_, row) in enumerate(summary.iterrows()):
            own = (keys == row["kind"] + row["setting"]) & (table["network"] != "all")
            _draw_row(axes, place, table.loc[own, name].to_numpy(float), row, name)
        axes.set_xlabel(title)
        axes.grid(axis="x", lw=0.4, color="0.85")
    grid[0].set_yticks(range(len(names)), names)
    grid[0].set_ylim(len(names) - 0.5, -0.5)
    grid[0].set_xscale("log")
    grid[1].set_xlim(left=0)
    grid[1].xaxis.set_major_locator(MaxNLocator(3))
    grid[2].plot(summary["auroc_entropy"], range(len(names)), "d", ms=5, mfc="white", mec="0.4")
    grid[2].set_xlabel("AUROC of reversals\n(diamonds: by entropy)")
    grid[2].axvline(0.5, color="0.5", lw=0.8, ls=":")
    grid[3].set_xscale("symlog", linthresh=1)
    grid[3].set_xlim(-0.1, 3 * summary["seconds"].max() + 1)
    return figure


def _draw_row(axes: Axes, place: int, own: np.ndarray, row: pd.Series, name: str) -> None:
    """Draw one score of one kind in one panel."""
    colour = LOOKS.get(row["kind"], OTHER)[0]
    if f"{name}_low" in row:
        axes.plot(own, np.full(len(own), place + 0.18), "|", color=colour, ms=5, alpha=0.5)
        axes.plot([row[f"{name}_low"], row[f"{name}_high"]], [place, place], color=colour, lw=1.6)
    axes.plot(row[name], place, "o", color=colour, ms=5)
