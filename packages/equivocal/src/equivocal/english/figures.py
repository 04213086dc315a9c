"""The figures of the registered test."""

import pandas as pd
from matplotlib.figure import Figure

from equivocal.english.comprehenders import EXACT
from equivocal.english.registered_test import Trial
from equivocal.figure_style import COLOURS, apply_style

KINDS = ("impossible", "unlikely", "reversible")


def draw_figures(trial: Trial, names: list[str]) -> dict[str, Figure]:
    """Draw loss (of the comprehenders with these names), constructions and words."""
    with apply_style():
        return {
            "loss": _draw_losses(trial.loss, names),
            "constructions": _draw_constructions(trial.loss),
            "words": _draw_words(trial.words),
        }


def _draw_losses(loss: pd.DataFrame, names: list[str]) -> Figure:
    """A dot for every comprehender in every kind of sentence; a thin one for every seed."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    shown = [name for name in names if name in set(loss["comprehender"])]
    for axes, kind in zip(panels, KINDS, strict=True):
        for version, colour in (("plausible", COLOURS[0]), ("reversed", COLOURS[1])):
            part = loss[loss["kind"] == f"{kind} {version}"]
            means = part.groupby(["comprehender", "seed"])["nll"].mean()
            for row, name in enumerate(shown):
                own = means[name]
                axes.plot(own, [row] * len(own), ".", color=colour, alpha=0.35, ms=5)
                label = version if row == 0 else None
                axes.plot(own.mean(), row, "o", color=colour, ms=7, label=label)
        axes.set(title=kind, xlabel="loss (nats per question)", xlim=(0, None))
        axes.set_yticks(range(len(shown)), shown)
        axes.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _draw_constructions(loss: pd.DataFrame) -> Figure:
    """The probability of the literal reading in every construction."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    part = loss[loss["comprehender"] == EXACT]
    table = part.pivot_table(index="construction", columns="kind", values="literal", sort=False)
    for kind, colour in zip(KINDS, COLOURS, strict=False):
        for version, look in (("plausible", "o:"), ("reversed", "s-")):
            axes.plot(
                table.index,
                table[f"{kind} {version}"],
                look,
                color=colour,
                label=f"{kind} {version}",
            )
    axes.axhline(0.5, color="0.7", lw=0.8, zorder=0)
    axes.set(ylabel="literal reading, exact posterior", ylim=(0.4, 1))
    axes.tick_params(axis="x", rotation=20)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_words(words: pd.DataFrame) -> Figure:
    """Belief in the literal role of the first noun, and doubt about it, after every word."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    names = list(dict.fromkeys(words["construction"]))
    panels = figure.subplots(2, len(names), sharex="col", sharey="row", squeeze=False)
    kinds = ("impossible plausible", "impossible reversed", "reversible reversed")
    for column, name in enumerate(names):
        for kind, colour in zip(kinds, COLOURS, strict=False):
            part = words[(words["construction"] == name) & (words["kind"] == kind)]
            for row, measure in enumerate(("literal", "information")):
                place = part["position"] + 1
                panels[row, column].plot(place, part[measure], "o-", color=colour, label=kind)
        panels[0, column].set(title=name, ylim=(0, 1.02))
        panels[1, column].set(xlabel="after word", ylim=(0, None))
    panels[0, 0].set_ylabel("literal role of noun 1")
    panels[1, 0].set_ylabel("epistemic (nats)")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
