"""The frontier of doubt: error on reversals against error on congruent sentences.

Tables in, figures out; `equivocal.uncertainty.frontier` says what the columns hold.
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equivocal.report.style import COLOURS, apply_style

__all__ = ["draw_frontier"]

# colour and marker of each kind, in the order of the legend
LOOKS = {
    "trained": (COLOURS[6], "*"),
    "paper's sampler": (COLOURS[1], "D"),
    "posterior": (COLOURS[2], "o"),
    "MC dropout": (COLOURS[3], "v"),
    "deep ensemble": (COLOURS[0], "s"),
    "ensemble of samplers": (COLOURS[4], "D"),
    "ensemble of posteriors": (COLOURS[5], "o"),
    "query": ("0.5", "P"),
    "all": ("0.5", "X"),
}
CENTRAL = 1.0  # the prior variance of lines; others are dashed and hollow


@apply_style()
def draw_frontier(summary: pd.DataFrame) -> Figure:
    """Draw a curve for each kind along its strength; the Pareto frontier is shaded.

    Parameters
    ----------
    summary : DataFrame
        As `summarise_frontier` returns it.
    """
    figure = Figure(figsize=(8.6, 5.8))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log")
    for kind, own in summary.groupby("kind", sort=False):
        if kind not in LOOKS:
            continue
        variances = own["prior_variance"].fillna(CENTRAL)
        for variance in sorted(variances.unique(), key=lambda v: (v != CENTRAL, v)):
            _draw_curve(axes, str(kind), own[variances == variance], variance)
    _shade_frontier(axes, summary[summary["on_frontier"]])
    axes.set_xlabel("error on congruent sentences (nats from the truth; log scale)")
    axes.set_ylabel("error on reversals (nats from the truth; log scale)")
    axes.grid(which="both", lw=0.3, color="0.9")
    axes.annotate(
        "nearer to the truth on both",
        xy=(0.02, 0.02),
        xytext=(0.13, 0.09),
        xycoords="axes fraction",
        fontsize=8,
        color="0.35",
        arrowprops={"arrowstyle": "->", "color": "0.35"},
    )
    figure.legend(
        loc="outside right upper",
        title="lines: 95 % intervals over networks\nlarge markers: on the frontier",
        fontsize=8,
        title_fontsize=7.5,
    )
    return figure


def _draw_curve(axes: Axes, kind: str, own: pd.DataFrame, variance: float) -> None:
    """Draw one kind under one prior variance, with the labels of its first and last settings."""
    colour, marker = LOOKS[kind]
    central = variance == CENTRAL
    own = own.sort_values("value", ascending=kind != "posterior")
    x, y = own["kl_congruent"], own["kl_reversal"]
    axes.plot(x, y, "-" if central else "--", lw=1.4 if central else 0.9, color=colour)
    errors = [[y - own["kl_reversal_low"], own["kl_reversal_high"] - y]]
    across = [x - own["kl_congruent_low"], own["kl_congruent_high"] - x]
    axes.errorbar(x, y, errors[0], across, fmt="none", lw=0.6, color=colour, alpha=0.35)
    sizes = [70 if on else 18 for on in own["on_frontier"]]
    if kind == "trained":
        sizes = [160]
    face = colour if central else "white"
    label = kind if central else f"{kind}, v = {variance:g}"
    axes.scatter(x, y, sizes, marker=marker, fc=face, ec=colour, zorder=3, label=label)
    for place in _choose_labelled(own):
        row = own.iloc[place]
        text = _shorten(str(row["setting"]), kind)
        if text:
            axes.annotate(
                text,
                (row["kl_congruent"], row["kl_reversal"]),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=6.5,
                color=colour,
            )


def _choose_labelled(own: pd.DataFrame) -> list[int]:
    """Return the places of the settings that are named: both ends and the named one."""
    named = [i for i, setting in enumerate(own["setting"]) if "sentence" in setting]
    return sorted({0, len(own) - 1, *named})


def _shorten(setting: str, kind: str) -> str:
    """Return what a label says beyond the legend."""
    if kind.startswith("ensemble of"):
        setting = setting.partition(" × ")[2]
    setting = setting.partition(", v = ")[0] + (" (sentence)" if "sentence" in setting else "")
    return "" if setting == "as trained" else setting


def _shade_frontier(axes: Axes, best: pd.DataFrame) -> None:
    """Shade what no kind reaches: left of and below the frontier."""
    best = best.sort_values("kl_congruent")
    low, high = axes.get_xlim()
    floor, ceiling = axes.get_ylim()
    x = [*best["kl_congruent"], high]
    y = [*best["kl_reversal"], best["kl_reversal"].iloc[-1]]
    axes.plot(
        [x[0], *x], [ceiling, *y], drawstyle="steps-post", color="0.6", lw=5, alpha=0.35, zorder=0
    )
    axes.set(xlim=(low, high), ylim=(floor, ceiling))
