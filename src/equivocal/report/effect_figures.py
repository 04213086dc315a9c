"""How the effect depends on choices: the prior, the time the sampler is given, and all others."""

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.report.readings import (
    COLOUR_OF,
    NAME_OF,
    answers,
    at_critical,
    conditions_of,
    estimate_of,
    non_relevant,
    roles_of,
    tracked_of,
)
from equivocal.report.style import COLOURS, publication_style

__all__ = ["prior_figure", "specification_curve", "tau_figure"]

INTERVAL = ("effect", "low", "high")  # columns of a specification table that are not choices


def prior_figure(dataset: xr.Dataset) -> Figure:
    """Bayesian minus trained activation against prior variance: dots are networks, lines means.

    A row for each condition but the baseline.
    """
    conditions = conditions_of(dataset)[1:] or conditions_of(dataset)
    roles = roles_of(dataset)
    measures = [(f"indicated {role}", role) for role in roles]
    probe = "agent" if "agent" in roles else roles[0]  # as `equivocal.study.measures` has it
    if non_relevant(dataset, dataset["mle"], conditions[0], probe) is not None:
        measures.append(("non-relevant", probe))
    with publication_style():
        figure = Figure(figsize=(2.5 * len(measures), 2.7 * len(conditions) + 0.3))
        grid = figure.subplots(len(conditions), len(measures), squeeze=False)
        for row, condition in zip(grid, conditions, strict=True):
            for axes, (label, probe) in zip(row, measures, strict=True):
                for number, sampler in enumerate(map(str, dataset["sampler"].values)):
                    effect = _effect(dataset, sampler, condition, label, probe)
                    _prior_line(axes, effect, sampler, (-1) ** number * 0.03)
                title = f"{label} units,\n{probe} probe" if label == "non-relevant" else label
                axes.set_title(title, fontsize=9)
                axes.axhline(0, color="0.5", lw=0.8, zorder=0)
                axes.set_xlabel("prior variance")
            row[0].set_ylabel(f"{condition}: activation,\nBayesian − trained (MLE)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        note = "dots: networks, lines: their mean; items averaged"
        figure.legend(handles, labels, loc="outside lower center", ncols=2, title=note)
        return figure


def _effect(
    dataset: xr.Dataset, sampler: str, condition: str, label: str, probe: str
) -> xr.DataArray:
    """(prior, network), averaged over items, at the critical word."""

    def shown(values: xr.DataArray) -> xr.DataArray:
        chosen = non_relevant(dataset, values, condition, probe)
        if label != "non-relevant" or chosen is None:
            tracked = tracked_of(dataset)[condition]
            units = {item: row[probe] for item, row in tracked.items() if probe in row}
            chosen = answers(values, condition, probe, units)
        return at_critical(dataset, chosen, condition).mean("item")

    trained = shown(estimate_of(dataset, "mle"))
    return shown(dataset["mean"].sel(sampler=sampler)) - trained


def _prior_line(axes: Axes, effect: xr.DataArray, sampler: str, shift: float) -> None:
    """Samplers are moved apart by `shift` decades, so that dots do not hide each other."""
    colour = COLOUR_OF.get(sampler, COLOURS[3])
    x = effect["prior"].values * 10**shift
    effect = effect.transpose("prior", "network")
    axes.plot(x, effect, "o", color=colour, ms=3, alpha=0.35, mew=0)
    style = "-" if sampler == "paper" else "--"
    name = NAME_OF.get(sampler, sampler)
    axes.plot(x, effect.mean("network"), style, marker="D", ms=4, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_xticks(effect["prior"].values, [f"{v:g}" for v in effect["prior"].values])
    axes.minorticks_off()


def tau_figure(path: xr.Dataset) -> Figure:
    """Activation of indicated units along sampler time: thin lines are networks, the thick one
    their mean, and diamonds mark where the paper stopped.
    """
    shown = [str(name) for name in path.data_vars if str(name).startswith("indicated_")]
    with publication_style():
        figure = Figure(figsize=(3.5 * len(shown), 3.3))
        grid = figure.subplots(1, len(shown), sharex=True, squeeze=False)[0]
        for axes, name in zip(grid, shown, strict=True):
            _tau_panel(axes, path, name)
            axes.set_title(name.replace("_", " "), fontsize=9)
            axes.set(xlabel="sampler time τ", xscale="log", yscale="log")
        grid[0].set_ylabel("mean activation, items averaged")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return figure


def _tau_panel(axes: Axes, path: xr.Dataset, name: str) -> None:
    values = path[name].mean("item").transpose("network", "step").values
    time = path["time"].transpose("network", "step").values
    moved = np.all(time > 0, axis=0)  # a logarithmic axis has no place for the start
    colour, stop = COLOUR_OF["paper"], int(path.attrs.get("paper_steps", 0))
    axes.plot(time[:, moved].T, values[:, moved].T, color=colour, lw=0.7, alpha=0.4)
    middle = np.exp(np.log(time[:, moved]).mean(axis=0))
    label = "along the paper's sampler"
    axes.plot(middle, values[:, moved].mean(axis=0), color=colour, lw=2, label=label)
    if 0 < stop < time.shape[1]:
        label = f"the paper's {stop} steps"
        axes.plot(time[:, stop], values[:, stop], "D", ms=5, mfc="white", mec="black", label=label)
    if time[:, 0].min() <= 0:
        at_start = float(values[:, 0].mean())
        axes.axhline(at_start, color="0.5", lw=1, ls=":", label="before the first step")
    for estimate, style in (("mle", "--"), ("converged", "-.")):
        if (level := path.attrs.get(f"{estimate}_{name}")) is not None:
            here = COLOUR_OF[estimate]
            axes.axhline(float(level), color=here, lw=1.3, ls=style, label=NAME_OF[estimate])


def specification_curve(table: pd.DataFrame) -> Figure:
    """Effects of all analyses in order of size, and below them the choices behind each."""
    ordered = table.sort_values("effect", kind="stable", ignore_index=True)
    choices = [str(name) for name in table.columns if name not in INTERVAL]
    rows = [(name, value) for name in choices for value in sorted(table[name].unique(), key=_order)]
    with publication_style():
        figure = Figure(figsize=(7, 2.4 + 0.19 * len(rows)))
        ratios = (2.2, 0.19 * len(rows) + 0.1)
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
        _curve(top, ordered)
        x = np.arange(len(ordered))
        for height, (name, value) in enumerate(rows):
            chosen = x[(ordered[name] == value).to_numpy()]
            bottom.plot(chosen, np.full(len(chosen), height), "|", ms=5, mew=1.1, color="0.15")
            if choices.index(name) % 2 == 0:
                bottom.axhspan(height - 0.5, height + 0.5, color="0.93", lw=0, zorder=0)
        bottom.set_yticks(range(len(rows)), [f"{name}: {_shown(value)}" for name, value in rows])
        bottom.tick_params(axis="y", length=0, labelsize=7.5)
        bottom.set(ylim=(len(rows) - 0.5, -0.5), xlabel=f"{len(ordered)} analyses, by effect")
        bottom.set_xticks([])
        bottom.spines[:].set_visible(False)
        return figure


def _curve(axes: Axes, ordered: pd.DataFrame) -> None:
    size = float(np.clip(250 / len(ordered), 1.5, 5))
    groups = (
        (ordered["low"] > 0, COLOURS[0], "o", "interval above zero"),
        (ordered["high"] < 0, COLOURS[1], "s", "interval below zero"),
        ((ordered["low"] <= 0) & (ordered["high"] >= 0), "0.55", "D", "interval holds zero"),
    )
    for chosen, colour, marker, label in groups:
        part = ordered[chosen]
        if len(part):
            axes.vlines(part.index, part["low"], part["high"], color=colour, lw=0.9, alpha=0.6)
            axes.plot(part.index, part["effect"], marker, ms=size, color=colour, label=label)
    axes.axhline(0, color="0.3", lw=0.8, zorder=0)
    sizes = ordered["effect"].abs()
    typical = float(sizes.median())
    if typical > 0 and sizes.max() > 100 * typical:  # or most effects would lie on the zero line
        axes.set_yscale("symlog", linthresh=typical / 10)
    axes.set_ylabel("effect: activation,\nBayesian − trained (MLE)")
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="upper left")


def _order(value: object) -> tuple[bool, float, str]:
    """Numbers by size, then words by letter."""
    size = float(value) if isinstance(value, int | float | np.number) else None
    return size is None, size or 0.0, str(value)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
