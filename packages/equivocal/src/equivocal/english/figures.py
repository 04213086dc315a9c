"""The figures of the registered test."""

import pandas as pd
from matplotlib.figure import Figure

from equivocal.english.comprehenders import EXACT, TRAINED
from equivocal.english.registered_test import Trial
from equivocal.figure_style import COLOURS, apply_style

__all__ = ["draw_figures"]

KINDS = ("impossible", "unlikely", "reversible")
SHOWN = (
    TRAINED,
    "temperature",
    "label smoothing",
    "ridge",
    "bagged ridge",
    "paper's sampler, 17 steps",
    "Laplace",
    "Gaussian posterior",
    EXACT,
    "ensemble of networks",
    "ensemble of posteriors",
)


def draw_figures(trial: Trial) -> dict[str, Figure]:
    """Draw loss, constructions, words and shares."""
    with apply_style():
        return {
            "loss": _draw_losses(trial.loss),
            "constructions": _draw_constructions(trial.loss),
            "words": _draw_words(trial.words),
            "shares": _draw_shares(trial.shares),
        }


def _draw_losses(loss: pd.DataFrame) -> Figure:
    """A dot for every comprehender in every kind of sentence; a thin one for every seed."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    shown = [name for name in SHOWN if name in set(loss["comprehender"])]
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
    panels[0].legend(loc="lower left")
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


def _draw_shares(shares: pd.DataFrame) -> Figure:
    """The literal reading of reversals, by the share of implausible sentences in training."""
    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    axes = figure.subplots()
    looks = ((TRAINED, "o--"), (EXACT, "s-"))
    for kind, colour in zip(("impossible reversed", "unlikely reversed"), COLOURS, strict=False):
        for name, look in looks:
            part = shares[(shares["kind"] == kind) & (shares["comprehender"] == name)]
            means = part.groupby("share")["literal"].mean()
            axes.plot(means.index * 100, means, look, color=colour, label=f"{kind}, {name}")
    axes.set(xlabel="implausible training sentences (%)", ylabel="literal reading")
    axes.legend(fontsize="small")
    return figure
