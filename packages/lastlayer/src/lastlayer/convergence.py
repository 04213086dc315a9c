"""Convergence of chains: rank-normalised split-R̂, bulk and tail effective sample size.

Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16:667. Chains are split
in halves; draws are replaced by normal scores of their ranks, so that heavy tails do no harm. R̂ is
the larger of the R̂ of the draws and the R̂ of their distances from the median; the effective size is
the smaller of bulk and tail (5 % and 95 % quantiles). Sums of autocorrelations are truncated by
Geyer's rule.
"""

from functools import lru_cache
from statistics import NormalDist

import numpy as np

R_HAT, ESS = 1.01, 400.0  # largest R̂ and smallest effective size of converged chains
FEWEST = 4  # draws of a chain, below which neither can be computed


def compute_convergence(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest R̂ and the smallest effective size over all variables.

    `draws` has the shape (..., variables, chains, length); both results have its leading shape.
    """
    half = draws.shape[-1] // 2
    split = np.concatenate([draws[..., :half], draws[..., -half:]], axis=-2)
    flat = split.reshape(*split.shape[:-2], -1)
    ordered = np.sort(flat, axis=-1)
    size = flat.shape[-1]
    median = 0.5 * (ordered[..., (size - 1) // 2] + ordered[..., size // 2])
    folded = _score(np.abs(flat - median[..., None]), split.shape)
    scores = _score(flat, split.shape)
    r_hat = np.maximum(_compute_r_hat(scores), _compute_r_hat(folded))
    ess = _compute_ess(scores)
    for share in (0.05, 0.95):
        limit = ordered[..., round(share * (size - 1))]
        below = (split <= limit[..., None, None]).astype(split.dtype)
        ess = np.minimum(ess, _compute_ess(below))
    return np.asarray(r_hat.max(axis=-1)), np.asarray(ess.min(axis=-1))


def _score(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal scores of the ranks of all draws of a variable, in the shape given."""
    scores = np.empty_like(flat)
    own = np.broadcast_to(_list_scores(flat.shape[-1]).astype(flat.dtype), flat.shape)
    np.put_along_axis(scores, np.argsort(flat, axis=-1), own, axis=-1)
    return scores.reshape(shape)


@lru_cache(maxsize=8)
def _list_scores(size: int) -> np.ndarray:
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank - 0.375) / (size + 0.25)) for rank in range(1, size + 1)])


def _compute_r_hat(split: np.ndarray) -> np.ndarray:
    n = split.shape[-1]
    within = split.var(axis=-1, ddof=1).mean(axis=-1)
    between = split.mean(axis=-1).var(axis=-1, ddof=1)
    return np.sqrt((n - 1) / n + between / np.maximum(within, 1e-30))


def _compute_ess(split: np.ndarray) -> np.ndarray:
    """Return the effective number of all draws of each variable."""
    *_, M, n = split.shape
    centred = split - split.mean(axis=-1, keepdims=True)
    length = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, length, axis=-1)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=-2), length, axis=-1)[..., :n] / n
    within = covariance[..., :1] * n / (n - 1)
    total = covariance[..., :1] + split.mean(axis=-1).var(axis=-1, ddof=1)[..., None]
    rho = 1 - (within - covariance) / np.maximum(total, 1e-30)
    pairs = rho[..., : n - n % 2].reshape(*rho.shape[:-1], -1, 2).sum(axis=-1)
    pairs = np.concatenate([1 + rho[..., 1:2], pairs[..., 1:]], axis=-1)
    positive = np.cumprod(pairs > 0, axis=-1)
    running = np.minimum.accumulate(np.where(positive > 0, pairs, 0), axis=-1)
    tau = np.maximum(2 * running.sum(axis=-1) - 1, 1 / np.log10(M * n))
    constant = total[..., 0] <= 1e-30
    return np.where(constant, M * n, M * n / tau)
