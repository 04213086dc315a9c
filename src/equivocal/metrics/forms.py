"""The three forms of targets and probabilities, checked and brought to one."""

from typing import Any, NamedTuple

import numpy as np

from equivocal.errors import UserError

__all__ = ["Predictions", "read_predictions"]

LAST_DIGIT = 1e-6  # by which a probability in single precision may leave 0 to 1
ROUNDING = 1e-3  # by which the probabilities of all classes may miss a sum of one


class Predictions(NamedTuple):
    """Targets and probabilities with one column per output; for classes the targets are 0 and 1."""

    targets: np.ndarray  # (N, K), 0 to 1
    probabilities: np.ndarray  # (N, K)
    classes: bool  # one of K, rather than K times yes or no

    def list_events(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what happened and how probable it was said to be, each (N, K).

        With classes: whether the most probable one is right, (N, 1).
        """
        if not self.classes:
            return self.targets, self.probabilities
        best = self.probabilities.argmax(axis=1)[:, None]
        return (
            np.take_along_axis(self.targets, best, axis=1),
            np.take_along_axis(self.probabilities, best, axis=1),
        )


def read_predictions(targets: Any, probabilities: Any) -> Predictions:
    """Check targets and probabilities, and give both one column per output.

    Parameters
    ----------
    targets : (N,) or (N, K)
        0 for no and 1 for yes, fractions between; or class numbers (N,) with probabilities (N, K).
    probabilities : (N,) or (N, K)
        From 0 to 1; for classes each row sums to one.

    Returns
    -------
    Predictions
        Both as float64.

    Raises
    ------
    equivocal.errors.UserError
        If shapes or values do not go together.
    """
    t, p = (_read(*pair) for pair in ((targets, "targets"), (probabilities, "probabilities")))
    if p.ndim not in (1, 2) or not p.size:
        raise UserError(f"probabilities must be (N,) or (N, K) with N ≥ 1, got shape {p.shape}.")
    if not ((p >= -LAST_DIGIT) & (p <= 1 + LAST_DIGIT)).all():
        low, high = p.min(), p.max()
        raise UserError(
            f"probabilities must lie between 0 and 1, got values from {low:.3g} to {high:.3g}; "
            "logits go through a sigmoid or a softmax first."
        )
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
    if not ((t >= -LAST_DIGIT) & (t <= 1 + LAST_DIGIT)).all():
        raise UserError(
            f"targets must lie between 0 and 1, got values from {t.min():.3g} to {t.max():.3g}; "
            "class numbers go with probabilities (N, K)."
        )
    return Predictions(t, p, classes=False)


def _read(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be numbers, got {value!r:.60}.") from None
    if not np.isfinite(array).all():
        raise UserError(f"{name} must be finite, got NaN or infinity; leave such rows out.")
    return array


def _encode_classes(t: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return class numbers as rows of one 1."""
    K = p.shape[1]
    if len(t) != len(p):
        raise UserError(f"targets must have one entry per row, {len(p)}, got {len(t)}.")
    if not np.isin(t, np.arange(K)).all():
        wrong = t[~np.isin(t, np.arange(K))][0]
        raise UserError(f"targets must be class numbers from 0 to {K - 1}, got {wrong:g}.")
    worst = np.abs(p.sum(axis=1) - 1).max()
    if worst > ROUNDING:
        raise UserError(
            f"probabilities of {K} classes must sum to one, got a row that misses by {worst:.2g}; "
            f"for {K} yes/no labels give targets of shape (N, {K})."
        )
    return np.asarray(t[:, None] == np.arange(K), np.float64)
