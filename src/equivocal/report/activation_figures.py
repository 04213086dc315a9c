"""Bars of activations: at the critical word, word by word, and beside exact beliefs."""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.report.style import COLOUR_OF, COLOURS, NAME_OF, publication_style
from equivocal.study.summaries import NON_RELEVANT

WIDTH = 0.36  # of a bar, where two stand side by side
THIN = {"lw": 1, "capsize": 2.5}
EXACT = "exact belief"


def draw_activations(table: pd.DataFrame, condition: str) -> Figure:
    """Draw trained beside Bayesian activations at the critical word, a panel for each probe.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.study.summaries.tabulate_critical`.
    condition : str
        The condition, for the title.
    """
    panels = list(table.groupby("probe", sort=False))
    with publication_style():
        figure = Figure(figsize=(3.3 * len(panels), 3.4))
        grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axes, (probe, panel) in zip(grid, panels, strict=True):
            series = panel.groupby("estimate", sort=False)
            for shift, (estimate, part) in zip((-0.5, 0.5), series, strict=True):
                _draw_estimate(axes, part, str(estimate), shift)
            axes.set_title(f"{probe} probe", loc="left")
            names = [f"indicated {r.role}\n({r.units})" for r in part.itertuples()]
            axes.set_xticks(range(len(names)), names)
            axes.set_ylim(0, 1.15)
        grid[0].set_ylabel("mean activation")
        figure.suptitle(f"{condition} sentences, at the critical word", fontsize=10)
        handles, labels = grid[0].get_legend_handles_labels()
        note = "black lines: standard deviation over items of the networks' mean"
        figure.legend(handles, labels, loc="outside lower center", ncols=2, title=note)
        return figure


def _draw_estimate(axes: Axes, part: pd.DataFrame, estimate: str, shift: float) -> None:
    bars = axes.bar(
        np.arange(len(part)) + shift * WIDTH,
        part["mean"],
        WIDTH,
        yerr=part["sd"],
        color=COLOUR_OF.get(estimate, COLOURS[1]),
        hatch="" if estimate == "mle" else "///",  # distinguishable in grey print too
        edgecolor="white",
        error_kw=THIN,
        label=NAME_OF.get(estimate, estimate),
    )
    axes.bar_label(bars, [f"{mean:.2g}" for mean in part["mean"]], padding=2, fontsize=7)


def draw_word_grid(table: pd.DataFrame, condition: str, estimate: str) -> Figure:
    """Draw activations word by word: a row for each word heard, a column for each probe.

    Parameters
    ----------
    table : DataFrame
        From `equivocal.study.summaries.tabulate_words`.
    condition, estimate : str
        For the title; the estimate is `"mle"` or a sampler.
    """
    probes = list(table["probe"].unique())
    places = table.drop_duplicates("position").set_index("position")["place"]
    cells = dict(iter(table.groupby(["position", "probe"])))
    with publication_style():
        figure = Figure(figsize=(1.75 * len(probes), 1.35 * len(places) + 0.9))
        grid = figure.subplots(len(places), len(probes), sharex=True, sharey=True, squeeze=False)
        for (position, place), row in zip(places.items(), grid, strict=True):
            for axes, probe in zip(row, probes, strict=True):
                _draw_series(axes, cells[position, probe])
            name = "" if place.startswith("word") else f":\n{place}"
            row[0].set_ylabel(f"word {position}{name}")
        for axes, probe in zip(grid[0], probes, strict=True):
            axes.set_title(f"{probe} probe")
        figure.supylabel("activation", fontsize=9)
        figure.suptitle(f"{condition} sentences: {NAME_OF.get(estimate, estimate)}", fontsize=10)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        note = "bars: mean; black lines: standard deviation over networks, items averaged"
        columns = max(1, 90 // (max(map(len, labels)) + 8))  # as many as the width holds
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=note)
        return figure


def _draw_series(axes: Axes, part: pd.DataFrame) -> None:
    bars = zip(part["series"], part["mean"], part["sd"], strict=True)
    for number, (series, mean, sd) in enumerate(bars):
        colour = "0.6" if series == NON_RELEVANT else COLOURS[number % len(COLOURS)]
        axes.bar(number, mean, 0.8, yerr=sd, color=colour, error_kw=THIN, label=series)
    axes.set_xticks([])
    axes.set_ylim(0, 1.05)


def draw_beliefs(traces: dict[str, xr.DataArray], truths: dict[str, xr.DataArray]) -> Figure:
    """Draw beliefs word by word: a row for each sentence, a column for each probe.

    Parameters
    ----------
    traces : dict of str to DataArray
        Activations (network, word, probe, unit) by sentence, from `trace_beliefs`.
    truths : dict of str to DataArray
        Exact beliefs (word, probe, unit) by sentence, drawn as dashes.
    """
    with publication_style():
        probes = next(iter(traces.values())).coords["probe"].values
        figure = Figure(figsize=(3.6 * len(probes), 2.5 * len(traces)))
        grid = figure.subplots(len(traces), len(probes), sharey=True, squeeze=False)
        for row, (title, trace) in zip(grid, traces.items(), strict=True):
            for axes, probe in zip(row, probes, strict=True):
                _draw_belief(axes, trace.sel(probe=probe), truths[title].sel(probe=probe))
                axes.set_title(f"“{title}”\nwho is the {probe}?", fontsize=9, loc="left")
            row[0].set_ylabel("activation")
        shown = zip(*grid[0, 0].get_legend_handles_labels(), strict=True)
        handles, labels = zip(*sorted(shown, key=lambda pair: pair[1] == EXACT), strict=True)
        note = "bars: mean of the networks, thin lines: standard deviation"
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), title=note)
        return figure


def _draw_belief(axes: Axes, trace: xr.DataArray, truth: xr.DataArray) -> None:
    words = [str(word) for word in trace.coords["word"].values]
    place, units = np.arange(len(words)), trace.coords["unit"].values
    width = 0.8 / len(units)
    for number, unit in enumerate(units):
        x = place + (number - (len(units) - 1) / 2) * width
        chosen, colour = trace.sel(unit=unit), COLOURS[number % len(COLOURS)]
        mean, sd = chosen.mean("network"), chosen.std("network", ddof=0)
        axes.bar(x, mean, width, yerr=sd, color=colour, error_kw={"lw": 0.8}, label=f"{unit}")
        exact, label = truth.sel(unit=unit), EXACT if number == len(units) - 1 else None
        axes.scatter(x, exact, marker="_", s=160, color="black", lw=1.5, zorder=3, label=label)
    axes.set_xticks(place, words)
    axes.set_ylim(-0.03, 1.05)  # so that an exact belief of zero is seen
