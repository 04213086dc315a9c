"""Ranking measures: does uncertainty detect errors or out-of-distribution inputs?

risk(c)   share of errors among the fraction c of predictions that are least uncertain
AUROC     probability that a positive scores above a negative, ties counting one half
"""

from typing import Any, NamedTuple

import numpy as np

from equivocal.errors import UserError
from equivocal.metrics.forms import read_predictions

__all__ = ["RiskCoverage", "auroc", "risk_coverage_curve", "selective_risk"]


class RiskCoverage(NamedTuple):
    """The risk of answering only the least uncertain predictions; both fields are (M,)."""

    coverage: np.ndarray  # share that is answered, from 1/M to 1
    risk: np.ndarray  # share of errors among them

    @property
    def area(self) -> float:
        """Return the mean risk over all coverages; lower is better."""
        return float(self.risk.mean())


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
