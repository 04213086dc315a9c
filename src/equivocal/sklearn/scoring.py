"""A scorer for searches: the log loss of labels as well as of classes."""

from typing import Any

import numpy as np


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
        Minus the NLL: of a class, or of a yes/no label.
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
