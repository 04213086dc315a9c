"""Calibration errors, reliability curves, bootstrap intervals of any measure, and two figures.

    ECE     Σ over bins of |Σ in the bin (p − t)| / (N K)

The calibration error of finitely many rows is above zero even for perfect probabilities.
`bootstrap_interval` takes the quantiles of a measure over resamples of the rows, drawn with
replacement. A calibration error needs more care, since its value in a resample is biased upwards
once more. `calibration_interval` therefore begins at 0 unless the error is larger than perfect
probabilities would show in these rows (outcomes drawn from the probabilities themselves; Bröcker &
Smith 2007, doi:10.1175/WAF993.1), and otherwise at 2m − q(high), which removes the bias, where m is
the error of all rows and q are quantiles over the resamples. It ends at q(high), which keeps the
bias: the interval is too wide rather than too narrow.

The reliability diagram and the risk–coverage curve take one pair of arrays, or several predictions
of the same targets by name. Matplotlib is imported when a figure is drawn.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from equivocal.statistics.scores import read_predictions, risk_coverage_curve
from lastlayer.errors import UserError
from lastlayer.seeds import Seed, choose_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BINS = 15
Z = 1.959964  # normal quantile of a 95 % interval
DRAWS = 500


class Reliability(NamedTuple):
    """A reliability curve: the non-empty bins of probabilities; each field is (bins,)."""

    predicted: np.ndarray  # mean probability
    observed: np.ndarray  # relative frequency of the events
    low: np.ndarray  # 95 % interval of `observed` (Wilson), if rows and labels are independent
    high: np.ndarray
    events: np.ndarray  # number of predictions in the bin


def calibration_error(
    targets: Any,
    probabilities: Any,
    *,
    bins: int = BINS,
    average: Literal["pooled", "label"] = "pooled",
    weights: Any = None,
) -> float:
    """Return the expected calibration error, with bins of equal width.

    Parameters
    ----------
    targets : (N,) or (N, K)
        0 and 1 (or true probabilities), or class numbers (N,) with probabilities (N, K).
    probabilities : (N,) or (N, K)
        From 0 to 1. For classes, the largest of each row is compared with how often it is right.
    bins : int
        Number of bins.
    average : "pooled" or "label"
        Put all labels into the same bins, or compute the error of each label and average: errors
        of opposite sign in two labels cancel only if pooled.
    weights : (N,), optional
        Weight of each row.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Raises
    ------
    UserError
        If shapes do not match, or an argument is out of its range.

    Examples
    --------
    >>> round(calibration_error([0, 1, 1, 1], [0.6, 0.6, 0.6, 0.6]), 3)
    0.15
    """
    if average not in ("pooled", "label"):
        raise UserError(f"average must be 'pooled' or 'label', got {average!r:.60}.")
    number, t, p, w = _bin_events(targets, probabilities, bins, weights)
    K = t.shape[1]
    if average == "label":
        number = number + bins * np.arange(K)
    difference = (w[:, None] * (p - t)).ravel()
    sums = np.bincount(number.ravel(), difference, bins * K)
    return float(np.abs(sums).sum() / (w.sum() * K))


def reliability_curve(targets: Any, probabilities: Any, *, bins: int = BINS) -> Reliability:
    """Return the observed frequency of events against their predicted probability, bin by bin.

    Parameters
    ----------
    targets, probabilities
        As for `calibration_error`.
    bins : int
        Number of bins of equal width; empty bins are left out.

    Returns
    -------
    Reliability
        Arrays with one entry per bin, as `draw_reliability` draws them.
    """
    number, t, p, _ = _bin_events(targets, probabilities, bins, None)
    count = np.bincount(number.ravel(), minlength=bins)
    filled = count > 0
    n = count[filled]
    predicted, observed = (np.bincount(number.ravel(), x.ravel(), bins)[filled] / n for x in (p, t))
    # Wilson's interval, which stays inside 0 and 1
    middle = (observed + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(observed * (1 - observed) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return Reliability(predicted, observed, middle - half, middle + half, n)


def _bin_events(
    targets: Any, probabilities: Any, bins: int, weights: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the bin of each event, its outcome, its probability, and the weights of the rows."""
    if not isinstance(bins, (int, np.integer)) or bins < 1:
        raise UserError(f"bins must be a whole number ≥ 1, got {bins!r:.60}.")
    t, p = read_predictions(targets, probabilities).list_events()
    w = np.ones(len(t)) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (len(t),) or not (w >= 0).all() or not w.sum() > 0:
        raise UserError(f"weights must be {len(t)} numbers ≥ 0, one per row, not all zero.")
    return np.minimum((p * bins).astype(int), bins - 1), t, p, w


def bootstrap_interval(
    measure: Callable[[Any, Any], float],
    targets: Any,
    probabilities: Any,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: Seed = 0,
) -> tuple[float, float]:
    """Return the bootstrap percentile interval of a measure.

    Parameters
    ----------
    measure : callable
        Takes targets and probabilities and returns a number, such as `negative_log_likelihood`;
        `functools.partial` sets its options. For `calibration_error` use `calibration_interval`.
    targets, probabilities
        As the measure takes them; rows are resampled whole, with all their labels.
    level : float
        Confidence level, in (0, 1).
    draws : int
        Number of resamples.
    seed : int or numpy.random.Generator
        The same seed gives the same interval.

    Returns
    -------
    low, high : float
        The ends of the interval.

    Examples
    --------
    >>> from equivocal.statistics.metrics_init import brier_score
    >>> low, high = bootstrap_interval(brier_score, [1, 0, 1, 0], [0.9, 0.2, 0.7, 0.4])
    >>> low < brier_score([1, 0, 1, 0], [0.9, 0.2, 0.7, 0.4]) < high
    True
    """
    ends = _find_quantiles(level, draws)
    t, p = np.asarray(targets), np.asarray(probabilities)
    rng, N = np.random.default_rng(choose_seed(seed)), len(t)
    rows = (rng.integers(0, N, N) for _ in range(draws))
    low, high = np.quantile([measure(t[some], p[some]) for some in rows], ends)
    return float(low), float(high)


def calibration_interval(
    targets: Any,
    probabilities: Any,
    *,
    bins: int = BINS,
    average: Any = "pooled",
    level: float = 0.95,
    draws: int = DRAWS,
    seed: Seed = 0,
) -> tuple[float, float]:
    """Return a bootstrap interval of the calibration error, corrected for its bias.

    Parameters
    ----------
    targets, probabilities, bins, average
        As for `calibration_error`.
    level, draws, seed
        As for `bootstrap_interval`.

    Returns
    -------
    low, high : float
        `low` is 0 if perfect probabilities could show an error this large in these rows.

    Examples
    --------
    >>> low, high = calibration_interval([0, 1, 1, 1], [0.6, 0.6, 0.6, 0.6])
    >>> low
    0.0
    """
    seed, measure = choose_seed(seed), partial(calibration_error, bins=bins, average=average)
    _, high = bootstrap_interval(
        measure, targets, probabilities, level=level, draws=draws, seed=seed
    )
    t, p = read_predictions(targets, probabilities).list_events()
    rng = np.random.default_rng([seed, 1])
    perfect = [measure(rng.random(t.shape) < p, p) for _ in range(draws)]
    found = measure(t, p)
    if found <= np.quantile(perfect, _find_quantiles(level, draws)[1]):
        return 0.0, high
    return max(2 * found - high, 0.0), high


def _find_quantiles(level: float, draws: int) -> list[float]:
    """Return the two quantiles that bound an interval, after checking `level` and `draws`."""
    if not 0 < level < 1:
        hint = f"; for {level:g} % pass {level / 100:g}" if 10 < level < 100 else ""
        raise UserError(f"level must lie between 0 and 1, got {level!r:.60}{hint}.")
    if not isinstance(draws, (int, np.integer)) or draws < 2:
        raise UserError(f"draws must be a whole number ≥ 2, got {draws!r:.60}.")
    return [(1 - level) / 2, (1 + level) / 2]


def draw_reliability(targets: Any, probabilities: Any, *, bins: int = BINS) -> "Figure":
    """Draw the reliability diagram: observed frequencies against predicted probabilities.

    Parameters
    ----------
    targets : (N,) or (N, K)
        As for `calibration_error`.
    probabilities : (N,) or (N, K), or a dict of several by name
        Predictions of one method, or of several by name.
    bins : int
        Number of bins of equal width. Bars are 95 % intervals; points on the diagonal are
        calibrated.

    Returns
    -------
    matplotlib.figure.Figure
        The legend gives the calibration error.
    """
    figure, axes = _start_figure("probability", "observed frequency")
    axes.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
    for name, p in _name_predictions(probabilities).items():
        found = reliability_curve(targets, p, bins=bins)
        error = calibration_error(targets, p, bins=bins)
        ends = np.abs([found.observed - found.low, found.high - found.observed])
        label = f"{name}, error {error:.3f}" if name else f"error {error:.3f}"
        axes.errorbar(found.predicted, found.observed, ends, marker="o", ms=4, lw=1.2, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(loc="upper left")
    return figure


def draw_risk_coverage(targets: Any, probabilities: Any, *, uncertainty: Any = None) -> "Figure":
    """Draw the risk–coverage curve: the share of errors among the predictions that are answered.

    Parameters
    ----------
    targets : (N,) or (N, K)
        As for `risk_coverage_curve`.
    probabilities : (N,) or (N, K), or a dict of several by name
        Predictions of one method, or of several by name.
    uncertainty : array, or a dict by the same names, optional
        Uncertainty to abstain by; by default the probability of the answer.

    Returns
    -------
    matplotlib.figure.Figure
        The legend gives the area under each curve.
    """
    figure, axes = _start_figure("coverage: share of predictions answered", "risk: share of errors")
    for name, p in _name_predictions(probabilities).items():
        own = uncertainty[name] if isinstance(uncertainty, Mapping) else uncertainty
        curve = risk_coverage_curve(targets, p, uncertainty=own)
        label = f"{name}, area {curve.area:.4f}" if name else f"area {curve.area:.4f}"
        axes.plot(curve.coverage, curve.risk, lw=1.4, label=label)
    axes.set(xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


def _name_predictions(probabilities: Any) -> dict[str, Any]:
    """Return predictions by name; those of a single method have an empty name."""
    return dict(probabilities) if isinstance(probabilities, Mapping) else {"": probabilities}


def _start_figure(x: str, y: str) -> "tuple[Figure, Axes]":
    """Start a figure with one panel and these labels of its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("figures need Matplotlib: pip install 'equivocal[model]'.") from None
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")  # without a global backend
    return figure, figure.add_subplot(xlabel=x, ylabel=y)
