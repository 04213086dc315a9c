"""How unfamiliar a row is: its leverage on the training rows, as a p-value from held-out rows.

    h(ψ) = ψᵀ (Ψᵀ C Ψ + εI)⁻¹ ψ = |Fψ|²          r(ψ) = h(ψ) / |ψ|²
    s(ψ) = max of (h − E h) / sd h and (r − E r) / sd r, with E and sd over the held-out rows
    p(ψ) = (1 + number of held-out rows with s at least s(ψ)) / (1 + number of held-out rows)

Ψ: the rows that the last layer was fitted on, C: how often each was seen. Targets play no part, so
one D × D factor F serves all outputs, and what is said about a row depends on no prior. r finds
strange rows with small features, which have little leverage whichever way they point.

ε is the mean of |ψ|² over the training rows, divided by D: what one more row would contribute if
it pointed in all directions alike. So D may exceed N, a feature that no training row switches on
has a finite leverage (at most D for a row of ordinary size), and a change of scale changes nothing.

Of rows that are exchangeable with the held-out ones, a share of at most about α has p ≤ α (Vovk,
Gammerman & Shafer 2005, Algorithmic Learning in a Random World, §2.2; exactly so but for E and sd,
which are taken from the same held-out rows). No row can have p below 1/(n + 1): 19 held-out rows
are needed to flag any at 5 %. docs/explanations/doubt.md says how often strange rows were found.
"""

from typing import NamedTuple

import numpy as np

__all__ = ["Familiarity", "compute_factor", "fit_familiarity"]

CHUNK = 1 << 19  # numbers converted to double precision at a time
ROUNDING = (
    1e-5  # of a score: a held-out row is as strange as itself, whatever computes its features
)


class Familiarity(NamedTuple):
    """All that is needed to say how unfamiliar a row is: arrays, for a file or another framework.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> seen, held_out = rng.normal(size=(500, 3)), rng.normal(size=(99, 3))
    >>> fit_familiarity(seen, held_out).compute_p_values(np.array([[0.1, 0.2, 0.1], [9, 9, 9]]))
    array([0.39, 0.01])
    """

    factor: np.ndarray  # F, (D, D)
    centre: np.ndarray  # E h and E r, (2,)
    scale: np.ndarray  # sd h and sd r, (2,)
    calibration: np.ndarray  # s of the held-out rows, in ascending order, (n,)

    def compute_scores(self, features: np.ndarray) -> np.ndarray:
        """Return s of each row, (N,); infinite where the features are not finite."""
        return _standardise(compute_leverages(features, self.factor), self.centre, self.scale)

    def compute_p_values(self, features: np.ndarray) -> np.ndarray:
        """Return p of each row, (N,), in (0, 1]: small where it is unlike the training rows."""
        n = len(self.calibration)
        scores = np.nan_to_num(self.compute_scores(features))
        scores -= ROUNDING * (1 + np.abs(scores))
        below = np.searchsorted(self.calibration, scores, side="left")
        return (1 + n - below) / (1 + n)


def fit_familiarity(
    features: np.ndarray, held_out: np.ndarray, counts: np.ndarray | None = None
) -> Familiarity:
    """Take leverage from training rows and its ordinary range from held-out rows.

    Parameters
    ----------
    features : (N, D)
        ψ of the rows that the last layer was fitted on.
    held_out : (n, D)
        ψ of rows like those to come, which neither the network nor the last layer has seen.
    counts : (N,), optional
        How often each training row was seen; one by default.
    """
    factor = compute_factor(features, counts)
    leverages = compute_leverages(held_out, factor)
    centre, scale = leverages.mean(axis=0), leverages.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    calibration = np.sort(_standardise(leverages, centre, scale))
    return Familiarity(factor, centre, scale, calibration)


def compute_factor(features: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Return F with FᵀF = (Ψᵀ C Ψ + εI)⁻¹, (D, D)."""
    N, D = features.shape
    counts = np.ones(N) if counts is None else np.asarray(counts, np.float64)
    gram, rows = np.zeros((D, D)), max(CHUNK // D, 1)
    for start in range(0, N, rows):
        some = slice(start, start + rows)
        psi = np.asarray(features[some], np.float64)
        gram += (psi * counts[some, None]).T @ psi
    epsilon = np.trace(gram) / counts.sum() / D
    return np.linalg.inv(np.linalg.cholesky(gram + epsilon * np.eye(D)))


def compute_leverages(features: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Return h and r of each row, (N, 2)."""
    N, D = features.shape
    leverages, rows = np.zeros((N, 2)), max(CHUNK // D, 1)
    for start in range(0, N, rows):
        psi = np.asarray(features[start : start + rows], np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            h, size = ((psi @ factor.T) ** 2).sum(axis=1), (psi**2).sum(axis=1)
            r = h / np.maximum(size, np.finfo(np.float64).tiny)
        leverages[start : start + rows] = np.stack([h, r], axis=1)
    return leverages


def _standardise(leverages: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    scores = ((leverages - centre) / scale).max(axis=1)
    return np.where(np.isnan(scores), np.inf, scores)
