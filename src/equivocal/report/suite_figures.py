"""Figures of paradigms: one for each suite, an overview of which findings held, and two signals.

Each function takes tables of `equivocal.suites.findings` or `equivocal.suites.noisy_channel` and
returns a figure. Exploratory measures are marked.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from equivocal.report.style import COLOURS, add_legend, apply_style, draw_networks
from equivocal.study.word_measures import MEASURES
from equivocal.suites import Suite

__all__ = ["draw_comparison", "draw_overview", "draw_signals", "draw_suite", "draw_suites"]

OURS, PUBLISHED = COLOURS[0], COLOURS[1]
LOOK = {  # mark and colour, so that colour is never alone
    "held": ("o", COLOURS[2]),
    "direction only": ("D", COLOURS[4]),
    "missed": ("X", COLOURS[1]),
    "reversed": ("v", COLOURS[3]),
    "not defined": ("_", "0.6"),
}
STYLES = {"ideal": "-", "networks": "--"}
LABELS = {"N400": "N400-like: surprise (nats)", "P600": "P600-like: divergence (nats)"}


def draw_suites(
    findings: pd.DataFrame, means: pd.DataFrame, suites: Sequence[Suite]
) -> dict[str, Figure]:
    """Draw the overview and each suite, by name.

    Parameters
    ----------
    findings, means : DataFrame
        As returned by `tabulate_findings` and `tabulate_networks`, the latter with the means over
        networks from `equivocal.study.figure_tables.append_means`.
    suites : sequence of Suite
        Those that were measured.
    """
    figures = {"overview": draw_overview(findings, {suite.name: suite.title for suite in suites})}
    for suite in suites:
        own = means[means["suite"] == suite.name]
        figures[suite.name] = draw_suite(own, list(suite.conditions), suite.title)
    return figures


@apply_style()
def draw_suite(means: pd.DataFrame, conditions: Sequence[str], title: str) -> Figure:
    """Draw condition means of one suite: thin lines are networks, the thick one their mean.

    There is a panel for each measure and, where there are any, one for the networks of 2018.

    Parameters
    ----------
    means : DataFrame
        The suite's rows of `tabulate_networks`, with their means over networks.
    conditions : sequence of str
        From left to right.
    title : str
        The title of the suite.
    """
    panels = [
        (str(measure), own)
        for (measure, _), own in means.groupby(["measure", "published"], sort=False)
    ]
    width = 1.1 + 0.62 * len(conditions)
    figure = Figure(figsize=(max(width * len(panels), 3.4), 3.1))
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (measure, own) in zip(grid, panels, strict=True):
        published = own["published"].all()
        _draw_means(axes, own, conditions, PUBLISHED if published else OURS)
        count = f"{own['network'].nunique() - 1} networks"
        axes.set_title(f"2018, {count}" if published else count, fontsize=9)
        axes.set_ylabel(MEASURES[measure].title + _mark_exploratory(measure))
    figure.suptitle(title, fontsize=10)
    return figure


def _mark_exploratory(measure: str, before: str = "\n") -> str:
    return f"{before}(exploratory)" if MEASURES[measure].exploratory else ""


def _draw_means(axes: Axes, table: pd.DataFrame, conditions: Sequence[str], colour: str) -> None:
    table = table.assign(x=[conditions.index(name) for name in table["condition"]]).sort_values("x")
    draw_networks(axes, table, "x", "mean", color=colour, marker="o", ms=5)
    ticks, names = range(len(conditions)), list(conditions)
    axes.set_xticks(ticks, names, rotation=25, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.35, len(names) - 0.65)
    if table["mean"].min() >= 0:  # the size of an effect needs the zero
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5))


@apply_style()
def draw_overview(findings: pd.DataFrame, titles: dict[str, str]) -> Figure:
    """Draw the ratios of all findings beside those of 2018, and the verdict of every measure.

    The ratios are those of the measure that was published, or else of the first that has any.

    Parameters
    ----------
    findings : DataFrame
        As returned by `tabulate_findings`.
    titles : dict of str to str
        The titles of the suites, by name.
    """
    measures = list(findings["measure"].unique())
    rows, findings = _place_findings(findings)
    shown = _select_ratios(findings, measures)
    figure = Figure(figsize=(7.0 + 0.9 * len(measures), 1.5 + 0.27 * len(rows)))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(4, len(measures) - 0.4))
    _draw_ratios(left, shown)
    _draw_verdicts(right, findings, measures)
    _label_findings(left, rows, titles)
    add_legend(figure, left, right, columns=4)
    return figure


@apply_style()
def draw_comparison(findings: pd.DataFrame, titles: dict[str, str]) -> Figure:
    """Draw the ratios of several runs and of 2018, a line for each published finding.

    Parameters
    ----------
    findings : DataFrame
        As returned by `tabulate_findings`, for several runs, named in a column `run`.
    titles : dict of str to str
        The titles of the suites, by name.
    """
    rows, findings = _place_findings(findings)
    runs = list(findings["run"].unique())
    figure = Figure(figsize=(7.0, 1.5 + (0.2 + 0.1 * len(runs)) * len(rows)))
    axes = figure.subplots()
    step = 0.7 / (len(runs) + 1)
    for number, run in enumerate(runs):
        colour, mark = COLOURS[(0, 2, 4, 5)[number % 4]], "oD^v"[number % 4]
        part = findings[findings["run"] == run]
        _draw_ratio(axes, part, "ratio", colour, mark, step * (number - len(runs) / 2), run)
    shift = step * len(runs) / 2
    part = findings[findings["run"] == runs[0]]
    _draw_ratio(axes, part, "published_ratio", PUBLISHED, "s", shift, "2018")
    _scale_ratios(axes, "")
    _label_findings(axes, rows, titles)
    add_legend(figure, axes, columns=4)
    return figure


def _place_findings(findings: pd.DataFrame) -> tuple[list[tuple[str, str]], pd.DataFrame]:
    """List suite and contrast of each line, and say on which line (`height`) findings are."""
    by_line = findings.groupby(["suite", "contrast"], sort=False)
    rows: list[tuple[str, str]] = by_line.size().index.to_list()
    return rows, findings.assign(height=by_line.ngroup())


def _label_findings(axes: Axes, rows: Sequence[tuple[str, str]], titles: dict[str, str]) -> None:
    labels, last = [], ""
    for suite, contrast in rows:
        name = titles.get(suite, suite)
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


def _draw_ratios(axes: Axes, table: pd.DataFrame) -> None:
    _draw_ratio(axes, table, "ratio", OURS, "o", -0.14, "these networks")
    _draw_ratio(axes, table, "published_ratio", PUBLISHED, "s", 0.14, "2018")
    _scale_ratios(axes, _mark_exploratory(str(table["measure"].iloc[0]), " "))


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
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
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
def draw_signals(words: pd.DataFrame) -> Figure:
    """Draw both signals at every word, a line for each condition and comprehender.

    Parameters
    ----------
    words : DataFrame
        From `equivocal.suites.noisy_channel.average_signals`.
    """
    suites = list(dict.fromkeys(words["suite"]))
    figure = Figure(figsize=(4.2 * len(suites), 5.4))
    grid = figure.subplots(2, len(suites), squeeze=False)
    conditions = list(dict.fromkeys(words["condition"]))
    for column, suite in enumerate(suites):
        for row, (signal, title) in enumerate(LABELS.items()):
            axes = grid[row, column]
            own = words[(words["suite"] == suite) & (words["signal"] == signal)]
            lines = own.groupby(["comprehender", "condition"], sort=False)
            for (comprehender, condition), part in lines:
                colour = COLOURS[conditions.index(condition) % len(COLOURS)]
                look = {"color": colour, "ls": STYLES[comprehender], "marker": "o", "ms": 3}
                axes.plot(
                    part["position"], part["value"], label=f"{condition}, {comprehender}", **look
                )
            axes.set_ylabel(title)
            axes.set_xticks(sorted(own["position"].unique()))
            if row == 0:
                axes.set_title(f"{suite.replace('_', ' ')} (exploratory)", fontsize=9)
            else:
                axes.set_xlabel("word")
    every = [grid[0, column] for column in range(len(suites))]
    add_legend(figure, *every, columns=3)
    return figure
