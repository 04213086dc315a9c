"""Scores of predictions (N, K): of K yes/no labels, or of classes with targets (N,)."""

import numpy as np
from scipy.special import xlogy
from scipy.stats import rankdata

from equivocal.statistics.summaries import calibration_error


def _encode(t: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return targets with a column for each label or class."""
    return t if t.shape == p.shape else np.equal.outer(t, np.arange(p.shape[1])).astype(float)


def negative_log_likelihood(t: np.ndarray, p: np.ndarray) -> float:
    """Return the mean negative log-likelihood in nats, per row and label; per row for classes."""
    t, p = np.asarray(t), np.asarray(p)
    eps = np.finfo(p.dtype).eps
    p = np.clip(p.astype(np.float64), eps, 1 - eps)
    if t.shape != p.shape:
        return float(-np.log(np.take_along_axis(p, t[:, None].astype(int), axis=1)).mean())
    return float(-(xlogy(t, p) + xlogy(1 - t, 1 - p)).mean())


def brier_score(t: np.ndarray, p: np.ndarray) -> float:
    """Return the mean squared error of probabilities; summed over classes, up to 2."""
    square = (p - _encode(t, p)) ** 2
    return float((square if t.shape == p.shape else square.sum(axis=1)).mean())


def list_events(t: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return outcomes and probabilities of events; for classes, that the most probable is right."""
    if t.shape == p.shape:
        return t, p
    best = p.argmax(axis=1)[:, None]
    return (best[:, 0] == t).astype(float)[:, None], np.take_along_axis(p, best, axis=1)


def measure_calibration(t: np.ndarray, p: np.ndarray, *, by_label: bool = False) -> float:
    """Return the expected calibration error, pooled or as the mean over labels."""
    t, p = list_events(t, p)
    if by_label:
        return float(np.mean([calibration_error(*both) for both in zip(t.T, p.T, strict=True)]))
    return calibration_error(t, p)


def selective_risk(t: np.ndarray, p: np.ndarray, coverage: float) -> float:
    """Return the share of errors among the fraction of predictions that are least uncertain.

    Among predictions of equal uncertainty each counts their mean error.
    """
    event, chance = list_events(t, p)
    sure = chance if t.shape != p.shape else np.abs(chance - 0.5)
    error = 1 - event if t.shape != p.shape else np.abs((chance > 0.5) - event)
    error = np.where(chance == 0.5, 0.5, error) if t.shape == p.shape else error
    _, group, size = np.unique(-sure, return_inverse=True, return_counts=True)
    by_group = np.bincount(group.ravel(), error.ravel()) / size
    kept = max(round(coverage * error.size), 1)
    return float(np.repeat(by_group, size)[:kept].mean())


def auroc(usual: np.ndarray, strange: np.ndarray) -> float:
    """Return how often a strange input scores above a usual one, ties counting one half."""
    ranks = rankdata(np.concatenate([usual, strange]))[len(usual) :]
    least = len(strange) * (len(strange) + 1) / 2
    return float((ranks.sum() - least) / (len(usual) * len(strange)))
