"""Figures of measured items: curves, findings, readings.

Each function takes tables of the other modules of `equivocal.measuring` and returns a figure.
Exploratory measures are marked.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from scipy import stats

from equivocal.figure_style import COLOURS, add_legend, apply_style
from equivocal.measuring.measures import MEASURES
from equivocal.measuring.paradigms import Paradigm
from equivocal.statistics.summaries import LEVEL

__all__ = ["draw_overview", "draw_readings", "draw_words"]

OURS, PUBLISHED = COLOURS[0], COLOURS[1]
LOOK = {  # marker and colour: colour alone would not be accessible
    "held": ("o", COLOURS[2]),
    "direction only": ("D", COLOURS[4]),
    "missed": ("X", COLOURS[1]),
    "reversed": ("v", COLOURS[3]),
    "not defined": ("_", "0.6"),
}
READINGS = {  # colour and hatch, from left to right: colour alone would not be accessible
    "rival": (COLOURS[1], "////"),
    "neither": ("0.85", ""),
    "answer": (COLOURS[5], ""),
}
NEITHER = "neither (answers that do not fit together)"
INTERVAL = "95 % interval of the hatched share"
KINDS = {"trained": -0.2, "posterior": 0.2}  # of beliefs, and where their bars are
CURVES = "line: mean, band: 95 % over networks, dot: an item at its critical word"


@apply_style()
def draw_words(words: pd.DataFrame, paradigm: Paradigm) -> Figure:
    """Draw measures word by word: a line and a 95 % band over networks for each condition.

    There is a panel for each measure that is linked with a signal and has values; dots are items at
    their critical words.

    Parameters
    ----------
    words : DataFrame
        The paradigm's rows of `measure_words`.
    paradigm : Paradigm
        The paradigm that was measured.
    """
    names = [n for n, one in MEASURES.items() if one.signal and words[n].notna().any()]
    figure = Figure(figsize=(7.4, 0.8 + 1.8 * len(names)))
    grid = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(grid, names, strict=True):
        for number, condition in enumerate(paradigm.conditions):
            own, colour = words[words["condition"] == condition], COLOURS[number % len(COLOURS)]
            by_network = own.groupby(["position", "network"])[name].mean().groupby("position")
            mean, count = by_network.mean(), by_network.count()
            half = by_network.sem() * stats.t.ppf(0.5 + LEVEL / 2, count - 1)
            axes.plot(mean.index, mean, color=colour, marker="o", ms=3, label=condition)
            axes.fill_between(mean.index, mean - half, mean + half, color=colour, alpha=0.2)
            items = own[own["critical"]].groupby("item")[["position", name]].mean()
            beside = items["position"] + 0.03 * (number - (len(paradigm.conditions) - 1) / 2)
            axes.plot(beside, items[name], ".", color=colour, ms=4, alpha=0.5)
        title = MEASURES[name].title
        if MEASURES[name].exact and words[name].isna().any():
            title += ", of possible beginnings"
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_xticks(sorted(words["position"].unique()))
    axes.set_xlabel("word")
    figure.suptitle(paradigm.title, fontsize=10)
    grid[0].legend(title=CURVES, title_fontsize=8, fontsize=8, ncols=2)
    return figure


def _mark_exploratory(measure: str, before: str = "\n") -> str:
    return f"{before}(exploratory)" if MEASURES[measure].exploratory else ""


@apply_style()
def draw_overview(findings: pd.DataFrame, titles: dict[str, str]) -> Figure:
    """Draw the ratios of all findings beside those of 2018, and the verdict of every measure.

    The ratios are those of the published measure, or else of the first measure that has any.

    Parameters
    ----------
    findings : DataFrame
        As returned by `tabulate_findings`.
    titles : dict of str to str
        The titles of the paradigms, by name.
    """
    measures = list(findings["measure"].unique())
    rows, findings = _place_findings(findings)
    shown = _select_ratios(findings, measures)
    figure = Figure(figsize=(7.0 + 0.9 * len(measures), 1.5 + 0.27 * len(rows)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(4, len(measures) - 0.4))
    _draw_ratio(left, shown, "ratio", OURS, "o", -0.14, "these networks")
    _draw_ratio(left, shown, "published_ratio", PUBLISHED, "s", 0.14, "2018")
    _scale_ratios(left, _mark_exploratory(str(shown["measure"].iloc[0]), " "))
    _draw_verdicts(right, findings, measures)
    _label_findings(left, rows, titles)
    add_legend(figure, left, right, columns=4)
    return figure


def _place_findings(findings: pd.DataFrame) -> tuple[list[tuple[str, str]], pd.DataFrame]:
    """Return paradigm and contrast of each line, and the findings with their line as `height`."""
    by_line = findings.groupby(["paradigm", "contrast"], sort=False)
    rows: list[tuple[str, str]] = by_line.size().index.to_list()
    return rows, findings.assign(height=by_line.ngroup())


def _label_findings(axes: Axes, rows: Sequence[tuple[str, str]], titles: dict[str, str]) -> None:
    labels, last = [], ""
    for paradigm, contrast in rows:
        name = titles.get(paradigm, paradigm)
        labels.append(f"{name}:  {contrast}" if name != last else contrast)
        last = name
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)


def _select_ratios(findings: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    published = findings[findings["published_ratio"].notna()]["measure"].unique()
    rated = findings[findings["ratio"].notna()]["measure"].unique()
    chosen = [*published, *rated, measures[0]][0]
    shown: pd.DataFrame = findings[findings["measure"] == chosen]
    return shown


def _draw_ratio(
    axes: Axes, table: pd.DataFrame, name: str, colour: str, mark: str, shift: float, label: str
) -> None:
    part = table[table[name].notna()]
    if len(part):
        y = part["height"] + shift
        axes.hlines(y, part[f"{name}_low"], part[f"{name}_high"], color=colour, lw=1.4)
        axes.plot(part[name], y, mark, color=colour, ms=4.5, label=label)


def _scale_ratios(axes: Axes, mark: str) -> None:
    axes.axvline(1, color="0.4", lw=0.8, zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_xlim()
    ticks = [t for t in (0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10, 100, 1000) if low <= t <= high]
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"ratio of condition means{mark}, 95 % over networks\n(above 1: as predicted)")


def _draw_verdicts(axes: Axes, findings: pd.DataFrame, measures: Sequence[str]) -> None:
    for verdict, (mark, colour) in LOOK.items():
        part = findings[findings["verdict"] == verdict]
        if len(part):
            x = [list(measures).index(measure) for measure in part["measure"]]
            axes.plot(x, part["height"], mark, color=colour, ms=6.5, ls="", label=verdict)
    names = [measure.replace("_", "\n") + _mark_exploratory(measure) for measure in measures]
    axes.set_xticks(range(len(measures)), names, fontsize=7.5)
    axes.set_xlim(-0.6, len(measures) - 0.4)
    axes.tick_params(axis="y", length=0, labelleft=False)
    axes.spines["left"].set_visible(False)


@apply_style()
def draw_readings(shares: pd.DataFrame, construction: Paradigm) -> Figure:
    """Draw the shares of readings.

    In each condition the upper bar shows the trained networks, the lower one particles; lines are
    95 % intervals over networks of the share of the rival reading.

    Parameters
    ----------
    shares : DataFrame
        The construction's rows of `tabulate_shares`.
    construction : Paradigm
        The construction whose sentences were read.
    """
    figure = Figure(figsize=(7, 2.3 + 0.55 * len(construction.conditions)))
    axes = figure.subplots()
    _draw_bars(axes, shares, construction)
    figure.suptitle(construction.title, fontsize=10)
    add_legend(figure, axes, columns=2)
    return figure


def _draw_bars(axes: Axes, shares: pd.DataFrame, construction: Paradigm) -> None:
    conditions = list(construction.conditions)
    called = construction.readings | {"neither": NEITHER}
    if shares.loc[shares["reading"] == "neither", "share"].max() < 0.001:  # invisible in the bar
        called["neither"] = "_"  # labels with an underscore are left out of legends
    at = np.arange(len(conditions))
    lines = []
    for kind, shift in KINDS.items():
        part = shares[shares["beliefs"] == kind]
        if part.empty:  # only trained networks were asked
            continue
        left = np.zeros(len(conditions))
        for reading, (colour, hatch) in READINGS.items():
            own = part[part["reading"] == reading].set_index("condition").loc[conditions]
            shown = called[reading] if kind == "trained" else None
            look: dict[str, Any] = {"color": colour, "hatch": hatch, "label": shown}
            axes.barh(at + shift, own["share"], 0.36, left=left, edgecolor="white", **look)
            left += own["share"].to_numpy()
            if reading == "rival":
                lines.append((at + shift, own["share_network_low"], own["share_network_high"]))
    y, low, high = (np.concatenate(ends) for ends in zip(*lines, strict=True))
    axes.hlines(y, low, high, color="black", lw=1.2, label=INTERVAL)
    for condition, share in construction.people.items():
        k, label = conditions.index(condition), _name_people(construction, share)
        axes.vlines(
            share, k - 0.46, k + 0.46, color="white", lw=5
        )  # keeps hatches away from the line
        axes.vlines(share, k - 0.46, k + 0.46, color="black", ls="--", lw=2, label=label)
    first = {c: row.utterance for (c, _), row in reversed(construction.rows.items())}
    examples = (" ".join(part.read or part.text for part in first[c]) for c in conditions)
    axes.set_yticks(at, [f"{c}\n“{said}”" for c, said in zip(conditions, examples, strict=True)])
    axes.set(xlim=(0, 1), ylim=(len(conditions) - 0.5, -0.5))
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    axes.set_xlabel("share of trained networks (upper bar)\nand of simulated comprehenders (lower)")


def _name_people(construction: Paradigm, share: float) -> str:
    source = construction.sources[0].partition("),")[0].replace("(", "")
    return f"people: about {share:.0%} ({source})".replace("%", " %")
