"""The measures: how probable, how calibrated, and whether uncertainty ranks errors first.

With targets t and probabilities p of N rows and K labels:

    NLL     mean over rows and labels of −t log p − (1 − t) log(1 − p)
    Brier   mean over rows and labels of (p − t)²
    ECE     Σ over bins of |Σ in the bin (p − t)| / (N K)
    risk(c) share of errors among the fraction c of predictions that are least uncertain
    AUROC   probability that a positive scores above a negative, ties counting one half

For classes NLL is the mean over rows of −log p(class), Brier sums over classes, and the calibration
error is that of the most probable class. The calibration error of finitely many rows is above zero
even for perfect probabilities; `calibration_interval` takes that into account.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from equivocal.errors import UserError
from equivocal.metrics.forms import read_predictions

__all__ = [
    "Reliability",
    "RiskCoverage",
    "auroc",
    "brier_score",
    "calibration_error",
    "negative_log_likelihood",
    "reliability_curve",
    "risk_coverage_curve",
    "selective_risk",
]

BINS = 15
Z = 1.959964  # of the normal distribution, for intervals of 95 %


class Reliability(NamedTuple):
    """Bins of probabilities that are not empty; each field is (bins,)."""

    predicted: np.ndarray  # mean probability
    observed: np.ndarray  # how often it happened
    low: np.ndarray  # 95 % interval of `observed` (Wilson), if rows and labels are independent
    high: np.ndarray
    events: np.ndarray  # how many predictions fell into it


class RiskCoverage(NamedTuple):
    """The risk of answering only the least uncertain predictions; both fields are (M,)."""

    coverage: np.ndarray  # share that is answered, from 1/M to 1
    risk: np.ndarray  # share of errors among them

    @property
    def area(self) -> float:
        """Return the mean risk over all coverages; lower is better."""
        return float(self.risk.mean())


def negative_log_likelihood(targets: Any, probabilities: Any) -> float:
    """Return the mean negative log-likelihood in nats, per row and label; per row for classes.

    Parameters
    ----------
    targets : (N,) or (N, K)
        0 and 1, or class numbers (N,) with probabilities (N, K).
    probabilities : (N,) or (N, K)
        Those that round to 0 or 1 count as the nearest number above or below, as in scikit-learn.

    Returns
    -------
    float
        0 or more; lower is better.

    Examples
    --------
    >>> round(negative_log_likelihood([1, 0], [0.9, 0.2]), 4)
    0.1643
    """
    eps = _find_epsilon(probabilities)
    t, p, classes = read_predictions(targets, probabilities)
    p = np.clip(p, eps, 1 - eps)
    if classes:
        return float(-(t * np.log(p)).sum(axis=1).mean())
    return float(-(t * np.log(p) + (1 - t) * np.log1p(-p)).mean())


def brier_score(targets: Any, probabilities: Any) -> float:
    """Return the mean squared error of probabilities; for classes summed over them, up to 2.

    Parameters
    ----------
    targets : (N,) or (N, K)
        0 and 1, or class numbers (N,) with probabilities (N, K).
    probabilities : (N,) or (N, K)
        From 0 to 1.

    Returns
    -------
    float
        0 or more; lower is better.

    Examples
    --------
    >>> round(brier_score([1, 0], [0.9, 0.2]), 4)
    0.025
    """
    t, p, classes = read_predictions(targets, probabilities)
    square = (p - t) ** 2
    return float((square.sum(axis=1) if classes else square).mean())


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
        Their number.
    average : "pooled" or "label"
        Put all labels into the same bins, or take each label by itself and average the errors:
        errors of opposite sign in two labels cancel only in the first.
    weights : (N,), optional
        How much each row counts.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Raises
    ------
    UserError
        Where shapes do not match, or an argument is out of its range.

    Examples
    --------
    >>> round(calibration_error([0, 1, 1, 1], [0.6, 0.6, 0.6, 0.6]), 3)
    0.15
    """
    if average not in ("pooled", "label"):
        raise UserError(f"average must be 'pooled' or 'label', got {average!r:.60}.")
    number, t, p, w = _bin(targets, probabilities, bins, weights)
    K = t.shape[1]
    if average == "label":
        number = number + bins * np.arange(K)
    difference = (w[:, None] * (p - t)).ravel()
    sums = np.bincount(number.ravel(), difference, bins * K)
    return float(np.abs(sums).sum() / (w.sum() * K))


def reliability_curve(targets: Any, probabilities: Any, *, bins: int = BINS) -> Reliability:
    """Return how often things happen that are said to have some probability, bin by bin.

    Parameters
    ----------
    targets, probabilities
        As for `calibration_error`.
    bins : int
        How many bins of equal width; empty ones are left out.

    Returns
    -------
    Reliability
        Arrays of one entry per bin, for example for `draw_reliability`.
    """
    number, t, p, _ = _bin(targets, probabilities, bins, None)
    count = np.bincount(number.ravel(), minlength=bins)
    here = count > 0
    n = count[here]
    predicted, observed = (np.bincount(number.ravel(), x.ravel(), bins)[here] / n for x in (p, t))
    # Wilson's interval, which stays inside 0 and 1
    middle = (observed + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * np.sqrt(observed * (1 - observed) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    return Reliability(predicted, observed, middle - half, middle + half, n)


def risk_coverage_curve(
    targets: Any, probabilities: Any, *, uncertainty: Any = None
) -> RiskCoverage:
    """Return the share of errors when only the least uncertain predictions are answered.

    Parameters
    ----------
    targets : (N,) or (N, K)
        0 and 1, or class numbers (N,) with probabilities (N, K).
    probabilities : (N,) or (N, K)
        The answer is the more probable one; at ½ it counts as half an error.
    uncertainty : (N,) or (N, K), optional
        What to abstain by, larger for more uncertain; by default the probability of the answer.
        One number per row abstains for all its labels at once.

    Returns
    -------
    RiskCoverage
        Predictions of equal uncertainty share their errors evenly, whatever their order.

    Raises
    ------
    UserError
        Where shapes do not match, or a value is not finite.
    """
    found = read_predictions(targets, probabilities)
    t, p = found.list_events()
    if found.classes:
        error, doubt = 1 - t, 1 - p
    else:
        error = np.where(p == 0.5, 0.5, np.abs((p > 0.5) - t))
        doubt = 0.5 - np.abs(p - 0.5)
    if uncertainty is not None:
        doubt = np.asarray(uncertainty, np.float64)
        doubt = doubt[:, None] if doubt.ndim == 1 else doubt
        if doubt.shape not in (error.shape, (len(error), 1)) or not np.isfinite(doubt).all():
            raise UserError(
                f"uncertainty must be finite, of shape ({len(error)},) or {error.shape}, got "
                f"{np.shape(uncertainty)}."
            )
        doubt = np.broadcast_to(doubt, error.shape)
    _, group, size = np.unique(doubt, return_inverse=True, return_counts=True)
    by_group = np.bincount(group.ravel(), error.ravel()) / size
    answered = np.arange(1, error.size + 1)
    return RiskCoverage(answered / error.size, np.repeat(by_group, size).cumsum() / answered)


def selective_risk(
    targets: Any, probabilities: Any, *, coverage: float = 0.8, uncertainty: Any = None
) -> float:
    """Return the share of errors among the `coverage` of predictions that are least uncertain.

    Parameters
    ----------
    targets, probabilities, uncertainty
        As for `risk_coverage_curve`.
    coverage : float
        Share of predictions that are answered, in (0, 1].

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Raises
    ------
    UserError
        Where the coverage is out of range, shapes do not match, or a value is not finite.

    Examples
    --------
    >>> selective_risk([0, 1, 1, 0], [0.1, 0.9, 0.8, 0.6], coverage=0.75)
    0.0
    """
    if not 0 < coverage <= 1:
        raise UserError(f"coverage must be above 0 and at most 1, got {coverage!r:.60}.")
    curve = risk_coverage_curve(targets, probabilities, uncertainty=uncertainty)
    return float(curve.risk[max(round(coverage * len(curve.risk)), 1) - 1])


def auroc(targets: Any, scores: Any) -> float:
    """Return the area under the receiver operating characteristic.

    Parameters
    ----------
    targets : (N,)
        1 for positives and 0 for negatives; both must occur.
    scores : (N,)
        Any finite numbers, larger for positives.

    Returns
    -------
    float
        From 0 to 1; ½ for scores that tell nothing.

    Raises
    ------
    UserError
        Where shapes differ, a score is not finite, or only one class occurs.

    Examples
    --------
    >>> auroc([0, 0, 1, 1], [1.0, 2.0, 3.0, 2.0])
    0.875
    """
    t, s = np.asarray(targets), np.asarray(scores, np.float64)
    if t.ndim != 1 or t.shape != s.shape or not np.isfinite(s).all():
        raise UserError(
            f"targets and scores must be finite and of one shape (N,), got {t.shape} and {s.shape}."
        )
    if set(np.unique(t)) != {0, 1}:
        raise UserError("targets must hold both 0 and 1, and nothing else.")
    yes = t == 1
    _, group, size = np.unique(s, return_inverse=True, return_counts=True)
    rank = size.cumsum() - (size - 1) / 2  # mean rank of each value
    positives = int(yes.sum())
    above = rank[group[yes]].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(t) - positives)))


def _bin(
    targets: Any, probabilities: Any, bins: int, weights: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the bin of each event, what happened, its probability, and weights of the rows."""
    if not isinstance(bins, (int, np.integer)) or bins < 1:
        raise UserError(f"bins must be a whole number ≥ 1, got {bins!r:.60}.")
    t, p = read_predictions(targets, probabilities).list_events()
    w = np.ones(len(t)) if weights is None else np.asarray(weights, np.float64)
    if w.shape != (len(t),) or not (w >= 0).all() or not w.sum() > 0:
        raise UserError(f"weights must be {len(t)} numbers ≥ 0, one per row, not all zero.")
    return np.minimum((p * bins).astype(int), bins - 1), t, p, w


def _find_epsilon(probabilities: Any) -> float:
    dtype = getattr(probabilities, "dtype", None)
    half_or_single = dtype in (np.dtype("float32"), np.dtype("float16"))
    return float(np.finfo(dtype if half_or_single else np.float64).eps)
