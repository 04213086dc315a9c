"""The reliability diagram and the risk–coverage curve, one line each.

Both take one pair of arrays, or several predictions of the same targets by name. Matplotlib is
imported when a figure is drawn.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from equivocal.errors import UserError
from equivocal.metrics.scores import BINS, calibration_error, reliability_curve, risk_coverage_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_reliability", "draw_risk_coverage"]


def draw_reliability(targets: Any, probabilities: Any, *, bins: int = BINS) -> "Figure":
    """Draw how often things happen against how probable they were said to be.

    Parameters
    ----------
    targets : (N,) or (N, K)
        As for `calibration_error`.
    probabilities : (N,) or (N, K), or a dict of several by name
        Probabilities that one method or several predict.
    bins : int
        How many bins of equal width. Bars are 95 % intervals; points on the diagonal are
        calibrated.

    Returns
    -------
    matplotlib.figure.Figure
        The legend gives the calibration error.
    """
    figure, axes = _start("probability", "observed frequency")
    axes.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
    for name, p in _name(probabilities).items():
        found = reliability_curve(targets, p, bins=bins)
        error = calibration_error(targets, p, bins=bins)
        ends = np.abs([found.observed - found.low, found.high - found.observed])
        label = f"{name}, error {error:.3f}" if name else f"error {error:.3f}"
        axes.errorbar(found.predicted, found.observed, ends, marker="o", ms=4, lw=1.2, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(loc="upper left")
    return figure


def draw_risk_coverage(targets: Any, probabilities: Any, *, uncertainty: Any = None) -> "Figure":
    """Draw the share of errors against the share of predictions that are answered.

    Parameters
    ----------
    targets : (N,) or (N, K)
        As for `risk_coverage_curve`.
    probabilities : (N,) or (N, K), or a dict of several by name
        Probabilities that one method or several predict.
    uncertainty : array, or a dict by the same names, optional
        What to abstain by; by default the probability of the answer.

    Returns
    -------
    matplotlib.figure.Figure
        The legend gives the area under each curve.
    """
    figure, axes = _start("coverage: share of predictions answered", "risk: share of errors")
    by_name = uncertainty if isinstance(uncertainty, Mapping) else None
    for name, p in _name(probabilities).items():
        own = uncertainty if by_name is None else by_name[name]
        curve = risk_coverage_curve(targets, p, uncertainty=own)
        label = f"{name}, area {curve.area:.4f}" if name else f"area {curve.area:.4f}"
        axes.plot(curve.coverage, curve.risk, lw=1.4, label=label)
    axes.set(xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


def _name(probabilities: Any) -> dict[str, Any]:
    return dict(probabilities) if isinstance(probabilities, Mapping) else {"": probabilities}


def _start(x: str, y: str) -> "tuple[Figure, Axes]":
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("figures need Matplotlib: pip install 'equivocal[model]'.") from None
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")  # without a global backend
    axes = figure.add_subplot(xlabel=x, ylabel=y)
    return figure, axes
