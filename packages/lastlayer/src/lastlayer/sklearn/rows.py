"""Weighted rows and labels that an estimator has seen, and a scorer.

`neg_log_loss` is a scorer for searches: the log loss of labels as well as of classes.
"""

from typing import Any, NamedTuple

import numpy as np

from lastlayer.checks import fail


class Seen(NamedTuple):
    """Rows with their targets and weights; after `merge_rows` all rows are distinct."""

    rows: np.ndarray  # (N, D)
    targets: np.ndarray  # (N, K), summed over repetitions
    counts: np.ndarray  # weights, (N,), or (N, K) if each label has its own; summed likewise

    def spread_counts(self) -> np.ndarray:
        """Return the counts of each label, (N, K)."""
        c = self.counts
        return c if c.ndim == 2 else np.repeat(c[:, None], self.targets.shape[1], axis=1)


def merge_rows(*parts: Seen) -> Seen:
    """Merge parts into distinct rows, in an order that does not depend on the parts.

    >>> once = Seen(np.array([[1.0], [2.0]]), np.array([[1.0], [0.0]]), np.ones(2))
    >>> merge_rows(once, once).targets
    array([[0.],
           [2.]])
    """
    if len({part.counts.ndim for part in parts}) > 1:
        parts = tuple(part._replace(counts=part.spread_counts()) for part in parts)
    rows, targets, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(rows):
        return Seen(rows, targets, counts)
    # Compare bytes: np.unique(axis=0) takes thirty times as long if rows share a prefix.
    rows = np.ascontiguousarray(rows + 0.0)  # −0 becomes 0, since their bytes differ
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
    _, first, group = np.unique(as_bytes, return_index=True, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(len(first)))
    return Seen(
        rows[first],
        np.add.reduceat(targets[order], starts, axis=0),
        np.add.reduceat(counts[order], starts),
    )


def weigh_rows(given: Any, X: np.ndarray, labels: tuple[int, int] | None) -> np.ndarray:
    """Return the sample weights, (N,), or for labels also (N, K); ones if none were given."""
    from sklearn.utils.validation import _check_sample_weight

    if labels is not None and given is not None and np.ndim(given) == 2:
        weight = np.asarray(given, X.dtype)
        if weight.shape != labels or not np.isfinite(weight).all():
            fail(f"sample_weight must be finite and (N,) or {labels}, got shape {weight.shape}.")
    else:
        weight = _check_sample_weight(given, X, dtype=X.dtype)
    if (weight < 0).any() or not weight.any():
        fail(
            "sample_weight must be ≥ 0 and not zero everywhere, got weights from "
            f"{weight.min():g} to {weight.max():g}."
        )
    return weight


def weigh_classes(class_weight: Any, y: np.ndarray) -> np.ndarray:
    """Return the class weight of each row, (N,); for labels, of each label of a row, (N, K)."""
    from sklearn.utils.class_weight import compute_sample_weight

    if y.ndim == 1:
        return np.asarray(compute_sample_weight(class_weight, y))
    each = class_weight if isinstance(class_weight, list) else [class_weight] * y.shape[1]
    if len(each) != y.shape[1]:
        fail(
            f"class_weight must be 'balanced', a dictionary, or a list of {y.shape[1]} of these, "
            f"one per label, got {len(each)}."
        )
    columns = zip(each, y.T, strict=True)
    return np.column_stack([compute_sample_weight(weight, column) for weight, column in columns])


def neg_log_loss(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Return minus the mean log loss per answer, for `scoring=` of searches; larger is better.

    Scikit-learn's own "neg_log_loss" takes one column of classes; this takes labels (N, K), too.

    Parameters
    ----------
    estimator
        Any classifier with `predict_proba`.
    X : (N, D)
        Rows.
    y : (N,) or (N, K)
        Classes, or labels of 0 and 1.
    sample_weight : (N,), optional
        Weights of the rows.

    Returns
    -------
    float
        Minus the mean NLL of a class, or of a yes/no label.
    """
    probability = np.asarray(estimator.predict_proba(X))
    y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    if y.ndim == 1:
        from sklearn.metrics import log_loss

        return -float(
            log_loss(y, probability, labels=estimator.classes_, sample_weight=sample_weight)
        )
    tiny = np.finfo(probability.dtype).eps
    p = np.clip(probability, tiny, 1 - tiny)
    losses = -(y * np.log(p) + (1 - y) * np.log1p(-p)).mean(axis=1)
    return -float(np.average(losses, weights=sample_weight))
