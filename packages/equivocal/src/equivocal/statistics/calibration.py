"""The expected calibration error of probabilities of many labels.

    ECE     Σ over bins of |Σ in the bin (p − t)| / (N K)

All labels share the bins, so that errors of opposite sign in two labels may cancel. The error of
finitely many rows is above zero even for perfect probabilities.
"""

import numpy as np
from numpy.typing import ArrayLike

BINS = 15


def calibration_error(
    targets: ArrayLike,
    probabilities: ArrayLike,
    *,
    bins: int = BINS,
    weights: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error, with bins of equal width.

    Parameters
    ----------
    targets, probabilities : array_like of shape (N,) or (N, K)
        0 and 1, or true probabilities; from 0 to 1.
    bins : int
        Number of bins.
    weights : array_like of shape (N,), optional
        Weight of each row.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Examples
    --------
    >>> round(calibration_error([0, 1, 1, 1], [0.6, 0.6, 0.6, 0.6]), 3)
    0.15
    """
    t, p = np.asarray(targets, float), np.asarray(probabilities, float)
    w = np.ones(len(t)) if weights is None else np.asarray(weights, float)
    number = np.minimum((p * bins).astype(int), bins - 1)
    difference = (p - t) * w.reshape(-1, *[1] * (t.ndim - 1))
    sums = np.bincount(number.ravel(), difference.ravel(), bins)
    return float(np.abs(sums).sum() / (w.sum() * t[0].size))
