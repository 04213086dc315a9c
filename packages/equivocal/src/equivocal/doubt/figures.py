"""Figures of kinds of uncertainty: scores, the frontier, errors against properties of the corpus.

The tables and their columns are defined in `comparison`, `frontier` and `usefulness` of
`equivocal.doubt`.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from equivocal.figure_style import COLOURS, add_legend, apply_style

__all__ = ["draw_example", "draw_frontier", "draw_kinds", "draw_learning", "draw_words"]

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
    "query": ("0.5", "P", (5, 5)),
    "all": ("0.5", "X", (5, 5)),
}
NAMES = {"query": "posterior, query network", "all": "posterior, every weight"}  # in the legend
LABELS = {
    "sentences": "training sentences",
    "truth": "probability that the reversal is meant as it is said",
    "heard": "how often the reversal occurs in training",
}
SHOWN = {  # the index of the setting of each kind that is drawn word by word
    "trained": 0,
    "paper's sampler": -1,
    "posterior": 0,
    "deep ensemble": -1,
    "ensemble of posteriors": 0,
}
CENTRAL = 1.0  # prior variance of solid lines; others are dashed, and drawn for posteriors only
LEAST = 0.001  # smaller exact probabilities are given as a bound
PANELS = {
    "nll_excess": "nats above the truth",
    "calibration_error": "calibration error",
    "auroc": "AUROC of reversals",
    "seconds": "seconds beyond one network",
}
TICKS = [factor * 10.0**power for power in range(-5, 2) for factor in (1, 2, 5)]


@apply_style()
def draw_frontier(summary: pd.DataFrame) -> Figure:
    """Draw a curve for each kind along its strength, and the Pareto frontier behind them.

    Parameters
    ----------
    summary : DataFrame
        As `summarise_frontier` returns it.
    """
    figure = Figure(figsize=(8.2, 6.2))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", ylabel="reversals: nats from the truth")
    axes.set_xlabel("congruent sentences: nats from the truth")
    variances = summary["prior_variance"].fillna(CENTRAL)
    drawn = summary[(variances == CENTRAL) | (summary["kind"] == "posterior")]
    for kind, look in LOOKS.items():
        own = drawn[drawn["kind"] == kind]
        for variance in variances[own.index].unique():
            _draw_curve(axes, kind, own[variances[own.index] == variance], variance, look)
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
    note = "grey: the Pareto frontier; whiskers: 95 % over networks; b: weight of the evidence, "
    note += "v: prior variance (1 unless named)"
    figure.legend(loc="outside lower center", ncols=4, title=note, title_fontsize=8)
    return figure


def _draw_curve(
    axes: Axes, kind: str, own: pd.DataFrame, variance: float, look: tuple[Any, ...]
) -> None:
    """Draw one kind under one prior variance, with labels at its ends and at `sentence`."""
    colour, marker, way = look
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
    x, y = own["kl_congruent"], own["kl_reversal"]
    up, across = _find_bars(own, "kl_reversal"), _find_bars(own, "kl_congruent")
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
        _draw_whiskers(axes, own, LOOKS.get(str(kind), LOOKS["all"])[0])
    (low, high), (floor, ceiling) = axes.get_xlim(), axes.get_ylim()
    x = [best["kl_congruent"].iloc[0], *best["kl_congruent"], high]
    y = [ceiling, *best["kl_reversal"], best["kl_reversal"].iloc[-1]]
    axes.plot(x, y, drawstyle="steps-post", color="0.85", lw=6, zorder=0)
    for _, row in others.iterrows():
        colour, marker, way = LOOKS.get(row["kind"], LOOKS["all"])
        point = (row["kl_congruent"], row["kl_reversal"])
        axes.scatter(*point, 26, marker=marker, fc="white", ec=colour, zorder=3)
        text = f"v = {row['prior_variance']:g}"
        axes.annotate(text, point, way, textcoords="offset points", fontsize=6.5, color=colour)
    axes.set(xlim=(low, high), ylim=(floor, ceiling))


@apply_style()
def draw_words(table: pd.DataFrame) -> Figure:
    """Draw the errors of the main kinds at every word.

    Parameters
    ----------
    table : DataFrame
        As `summarise_words` returns it.
    """
    figure = Figure(figsize=(7.6, 3.4))
    panels = figure.subplots(1, 2, sharey=True)
    places = sorted(table["words_left"].unique(), reverse=True)
    for axes, name in zip(panels, ("kl_reversal", "kl_congruent"), strict=True):
        for number, (kind, which) in enumerate(SHOWN.items()):
            every = table[table["kind"] == kind]
            if every.empty:
                continue
            setting = every["setting"].unique()[which]
            own = every[every["setting"] == setting]
            x = [places.index(left) + 0.05 * (number - 2) for left in own["words_left"]]
            bars, (colour, marker, _) = _find_bars(own, name), LOOKS[kind]
            label = f"{kind} ({setting})"
            axes.errorbar(x, own[name], bars, fmt=f"{marker}-", ms=5, color=colour, label=label)
        words = ["last word" if left == 0 else f"{left} before" for left in places]
        axes.set_xticks(range(len(places)), words)
        axes.set_title("reversals" if name == "kl_reversal" else "congruent sentences", fontsize=9)
        axes.set(yscale="log")
    panels[0].set_ylabel("nats from the truth")
    add_legend(figure, panels[0], columns=3, fontsize=8)
    return figure


@apply_style()
def draw_example(
    table: pd.DataFrame, spread: pd.DataFrame, sentences: dict[str, str], noun: str
) -> Figure:
    """Draw every network's beliefs about one sentence and its reversal, beside the truth.

    Parameters
    ----------
    table, spread : DataFrame
        As `tabulate_example` and `summarise_example` return them.
    sentences : dict of str to str
        The sentence of each condition, in words.
    noun : str
        The noun that may be the agent.
    """
    kinds = list(table["kind"].unique())
    first = table.drop_duplicates("kind").itertuples()
    names = [row.kind if row.kind == "trained" else f"{row.kind}\n({row.setting})" for row in first]
    figure = Figure(figsize=(8.2, 2.9))
    grid = figure.subplots(1, 2, sharey=True)
    for axes, (condition, sentence) in zip(grid, sentences.items(), strict=True):
        own = table[table["condition"] == condition]
        for place, kind in enumerate(kinds):
            beliefs = own.loc[own["kind"] == kind, "belief"]
            colour, marker, _ = LOOKS[kind]
            look = {"color": colour, "marker": "o" if kind == "trained" else marker, "alpha": 0.6}
            if len(beliefs) > 1:
                _draw_spread(axes, spread.loc[condition, kind], place, colour)
            axes.scatter(beliefs, [place] * len(beliefs), 26 if len(beliefs) > 1 else 60, **look)
        truth = float(own["truth"].iloc[0])
        axes.axvline(truth, color="black", lw=1.2, zorder=0)
        side = {"ha": "left" if truth < 0.5 else "right", "va": "bottom", "fontsize": 8}
        shown = f"{truth:.3f}" if truth >= LEAST else f"< {LEAST}"
        axes.text(truth + 0.015, -0.42, f"exact: {shown}", **side)
        axes.set(title=f"“{sentence}”", xlim=(-0.03, 1.03))
        axes.title.set_fontsize(9)
    grid[0].set_yticks(range(len(kinds)), names)
    grid[0].set_ylim(len(kinds) - 0.4, -0.6)
    what = "a dot for each network; bar: 90 % of them; line: their mean"
    figure.supxlabel(f"belief that the {noun} is the one who acts ({what})", fontsize=9)
    return figure


def _draw_spread(axes: Axes, spread: pd.Series, place: int, colour: str) -> None:
    """Draw the interval that holds 90 % of the networks, and their mean."""
    ends = [spread["low"], spread["high"]]
    axes.plot(ends, [place] * 2, lw=13, color=colour, alpha=0.3, solid_capstyle="butt")
    mean, across = [spread["mean"]] * 2, [place - 0.2, place + 0.2]
    axes.plot(mean, across, lw=2.4, color="white", zorder=4)
    axes.plot(mean, across, lw=1, color=colour, zorder=4)


@apply_style()
def draw_learning(table: pd.DataFrame, along: str) -> Figure:
    """Draw the errors of each kind against a property of the training corpus.

    One panel for reversals, one for congruent sentences, one for the gain over trained networks.

    Parameters
    ----------
    table : DataFrame
        As `summarise_learning` returns it.
    along : str
        The column with that property.
    """
    figure = Figure(figsize=(9.4, 3.6))
    grid = figure.subplots(1, 3)
    titles = {
        "kl_reversal": "reversals: nats from the truth",
        "kl_congruent": "congruent sentences: nats",
        "gain": "reversals: gain over the trained network",
    }
    places = {value: place for place, value in enumerate(table[along].unique())}
    kinds = list(table["kind"].unique())
    for axes, (name, title) in zip(grid, titles.items(), strict=True):
        for number, kind in enumerate(kinds):
            own = table[table["kind"] == kind]
            x = own[along].map(places) + 0.06 * (number - len(kinds) / 2)
            bars = _find_bars(own, name)
            look: dict[str, Any] = {"color": COLOURS[(6, 1, 2, 5, 4, 0)[number % 6]], "ms": 4}
            axes.errorbar(x, own[name], bars, fmt="o-", lw=1.3, elinewidth=0.8, label=kind, **look)
        names = [f"{value:,}" if isinstance(value, int) else f"{value}" for value in places]
        axes.set_xticks(list(places.values()), names, rotation=30)
        axes.set_title(title, fontsize=9)
        axes.set(yscale="linear" if name == "gain" else "log")
    grid[1].set_xlabel(LABELS[along], fontsize=9)
    grid[2].axhline(0, color="0.5", lw=0.8, ls=":")
    add_legend(figure, grid[0], columns=3, fontsize=8)
    return figure


@apply_style()
def draw_kinds(table: pd.DataFrame, summary: pd.DataFrame) -> Figure:
    """Draw a row for each kind: ticks are networks (deep ensembles: all but one), bars intervals.

    Parameters
    ----------
    table, summary : DataFrame
        As `score_kinds` and `summarise_scores` return them.
    """
    kinds = list(summary["kind"])
    figure = Figure(figsize=(9.2, 0.9 + 0.34 * len(kinds)))
    grid = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (name, title) in zip(grid, PANELS.items(), strict=True):
        for place, kind in enumerate(kinds):
            own = table.loc[(table["kind"] == kind) & (table["network"] != "all"), name]
            _draw_row(axes, place, own.to_numpy(float), summary.iloc[place], name)
        axes.set_xlabel(title)
        axes.grid(axis="x", lw=0.4, color="0.85")
    grid[0].set_yticks(range(len(kinds)), kinds)
    grid[0].set_ylim(len(kinds) - 0.5, -0.5)
    for axes in grid[:2]:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(3))
    grid[2].plot(summary["auroc_entropy"], range(len(kinds)), "d", ms=5, mfc="white", mec="0.4")
    grid[2].set_xlabel("AUROC of reversals\n(diamonds: by entropy)")
    grid[2].axvline(0.5, color="0.5", lw=0.8, ls=":")
    grid[3].set_xscale("symlog", linthresh=1)
    grid[3].set_xlim(-0.1, 3 * summary["seconds"].max() + 1)
    return figure


def _draw_row(axes: Axes, place: int, own: np.ndarray, kind: pd.Series, name: str) -> None:
    """Draw the scores of one kind in one panel."""
    colour = COLOURS[place % len(COLOURS)]
    if f"{name}_low" in kind:
        axes.plot(own, np.full(len(own), place + 0.18), "|", color=colour, ms=5, alpha=0.5)
        ends = [kind[f"{name}_low"], kind[f"{name}_high"]]
        axes.plot(ends, [place, place], color=colour, lw=1.6)
    axes.plot(kind[name], place, "o", color=colour, ms=5)
