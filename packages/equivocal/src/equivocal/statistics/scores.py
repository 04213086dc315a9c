"""Proper scores, selective risk and AUROC, for each of the three forms of predictions.

With targets t and probabilities p of N rows and K labels:

    NLL     mean over rows and labels of −t log p − (1 − t) log(1 − p)
    Brier   mean over rows and labels of (p − t)²
    risk(c) share of errors among the fraction c of predictions that are least uncertain
    AUROC   probability that a positive scores above a negative, ties counting one half

For classes NLL is the mean over rows of −log p(class), and Brier sums over classes. The three forms
of targets and probabilities are checked and converted to a single one by `read_predictions`.
"""

from typing import Any, NamedTuple

import numpy as np

from lastlayer.errors import UserError

LAST_DIGIT = 1e-6  # how far round-off in single precision may carry a probability beyond 0 or 1
ROUNDING = 1e-3  # how far the probabilities of all classes may be from a sum of one


class RiskCoverage(NamedTuple):
    """The risk of answering only the least uncertain predictions; both fields are (M,)."""

    coverage: np.ndarray  # share of predictions that are answered, from 1/M to 1
    risk: np.ndarray  # share of errors among those

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
        A probability of 0 or 1 counts as one machine epsilon away from it, as in scikit-learn.

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
    """Return the mean squared error of probabilities; summed over classes, up to 2.

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
        Uncertainty to abstain by; by default, answers are ranked by their probability. With one
        number per row, all labels of a row are answered or none.

    Returns
    -------
    RiskCoverage
        Among predictions of equal uncertainty each counts their mean error, whatever their order.

    Raises
    ------
    UserError
        If shapes do not match, or a value is not finite.
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
        If the coverage is out of range, shapes do not match, or a value is not finite.

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
        From 0 to 1; ½ for scores that carry no information.

    Raises
    ------
    UserError
        If shapes differ, a score is not finite, or only one class occurs.

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


def _find_epsilon(probabilities: Any) -> float:
    """Return the machine epsilon of the precision that probabilities are given in."""
    dtype = getattr(probabilities, "dtype", None)
    half_or_single = dtype in (np.dtype("float32"), np.dtype("float16"))
    return float(np.finfo(dtype if half_or_single else np.float64).eps)


class Predictions(NamedTuple):
    """Targets and probabilities with one column per output; classes are one-hot encoded."""

    targets: np.ndarray  # (N, K), 0 to 1
    probabilities: np.ndarray  # (N, K)
    classes: bool  # one of K classes, rather than K yes/no labels

    def list_events(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the outcome of each event and its predicted probability, each (N, K).

        With classes, the event is that the most probable class is right, and both are (N, 1).
        """
        if not self.classes:
            return self.targets, self.probabilities
        best = self.probabilities.argmax(axis=1)[:, None]
        return (
            np.take_along_axis(self.targets, best, axis=1),
            np.take_along_axis(self.probabilities, best, axis=1),
        )


def read_predictions(targets: Any, probabilities: Any) -> Predictions:
    """Check targets and probabilities, and return both with one column per output.

    Parameters
    ----------
    targets : (N,) or (N, K)
        0 for no and 1 for yes, or fractions; or class numbers (N,) with probabilities (N, K).
    probabilities : (N,) or (N, K)
        From 0 to 1; for classes each row sums to one.

    Returns
    -------
    Predictions
        Both as float64.

    Raises
    ------
    lastlayer.errors.UserError
        If shapes or values do not fit each other.
    """
    t, p = _read_array(targets, "targets"), _read_array(probabilities, "probabilities")
    if p.ndim not in (1, 2) or not p.size:
        raise UserError(f"probabilities must be (N,) or (N, K) with N ≥ 1, got shape {p.shape}.")
    _check_range(p, "probabilities", "logits go through a sigmoid or a softmax first")
    p = np.clip(p, 0, 1)
    classes = t.ndim == 1 and p.ndim == 2 and p.shape[1] > 1
    if classes:
        return Predictions(_encode_classes(t, p), p, classes=True)
    p = p[:, None] if p.ndim == 1 else p
    t = t[:, None] if t.ndim == 1 else t
    if t.shape != p.shape:
        raise UserError(
            f"targets and probabilities must have one shape, or targets be class numbers (N,), got "
            f"{np.shape(targets)} and {np.shape(probabilities)}."
        )
    _check_range(t, "targets", "class numbers go with probabilities (N, K)")
    return Predictions(t, p, classes=False)


def _check_range(array: np.ndarray, name: str, hint: str) -> None:
    """Refuse values that are below 0 or above 1 by more than round-off."""
    low, high = array.min(), array.max()
    if low < -LAST_DIGIT or high > 1 + LAST_DIGIT:
        raise UserError(
            f"{name} must lie between 0 and 1, got values from {low:.3g} to {high:.3g}; {hint}."
        )


def _read_array(value: Any, name: str) -> np.ndarray:
    """Return an array of finite numbers in double precision."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be numbers, got {value!r:.60}.") from None
    if not np.isfinite(array).all():
        raise UserError(f"{name} must be finite, got NaN or infinity; leave such rows out.")
    return array


def _encode_classes(t: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return class numbers one-hot encoded, after checking them and the probabilities."""
    K = p.shape[1]
    if len(t) != len(p):
        raise UserError(f"targets must have one entry per row, {len(p)}, got {len(t)}.")
    wrong = t[~np.isin(t, np.arange(K))]
    if wrong.size:
        raise UserError(f"targets must be class numbers from 0 to {K - 1}, got {wrong[0]:g}.")
    worst = np.abs(p.sum(axis=1) - 1).max()
    if worst > ROUNDING:
        raise UserError(
            f"probabilities of {K} classes must sum to one, got a row that misses by {worst:.2g}; "
            f"for {K} yes/no labels give targets of shape (N, {K})."
        )
    return np.asarray(t[:, None] == np.arange(K), np.float64)
