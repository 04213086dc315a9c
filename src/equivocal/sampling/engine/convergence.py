"""Convergence of chains: rank-normalised split-R̂, bulk and tail effective sample size.

Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16:667. Chains are split
in halves; draws are replaced by normal scores of their ranks, so that heavy tails do no harm. R̂ is
the larger of the R̂ of the draws and the R̂ of their distances from the median; the effective size is
the smaller of bulk and tail (5 % and 95 % quantiles). Sums of autocorrelations are truncated by
Geyer's rule.

Both NumPy and JAX arrays are accepted (`xp`): on a CPU, sorting is fastest in NumPy.
"""

from types import ModuleType
from typing import Any

import jax
import numpy as np

R_HAT, ESS = 1.01, 400.0  # largest R̂ and smallest effective size of converged chains
FEWEST = 4  # draws of a chain, below which neither can be computed


def compute_convergence(draws: Any, xp: ModuleType = np) -> tuple[Any, Any]:
    """Return the largest R̂ and the smallest effective size over all variables.

    `draws` has the shape (..., variables, chains, length); both results have its leading shape.
    """
    half = draws.shape[-1] // 2
    split = xp.concatenate([draws[..., :half], draws[..., -half:]], axis=-2)
    flat = split.reshape(*split.shape[:-2], -1)
    ordered = xp.sort(flat, axis=-1)
    size = flat.shape[-1]
    median = 0.5 * (ordered[..., (size - 1) // 2] + ordered[..., size // 2])
    folded = _score(xp.abs(flat - median[..., None]), split.shape, xp)
    scores = _score(flat, split.shape, xp)
    r_hat = xp.maximum(_compute_r_hat(scores, xp), _compute_r_hat(folded, xp))
    ess = _compute_ess(scores, xp)
    for share in (0.05, 0.95):
        limit = ordered[..., round(share * (size - 1))]
        below = (split <= limit[..., None, None]).astype(split.dtype)
        ess = xp.minimum(ess, _compute_ess(below, xp))
    return r_hat.max(axis=-1), ess.min(axis=-1)


def _score(flat: Any, shape: tuple[int, ...], xp: ModuleType) -> Any:
    """Return normal scores of the ranks of all draws of a variable, in the shape given."""
    ranks = xp.argsort(xp.argsort(flat, axis=-1), axis=-1)
    share = (xp.arange(1, flat.shape[-1] + 1) - 0.375) / (flat.shape[-1] + 0.25)
    scores = xp.asarray(jax.scipy.special.ndtri(share.astype(flat.dtype)))
    return scores[ranks].reshape(shape)


def _compute_r_hat(split: Any, xp: ModuleType) -> Any:
    n = split.shape[-1]
    within = split.var(axis=-1, ddof=1).mean(axis=-1)
    between = split.mean(axis=-1).var(axis=-1, ddof=1)
    return xp.sqrt((n - 1) / n + between / xp.maximum(within, 1e-30))


def _compute_ess(split: Any, xp: ModuleType) -> Any:
    """Return the effective number of all draws of each variable."""
    *_, M, n = split.shape
    centred = split - split.mean(axis=-1, keepdims=True)
    length = 1 << (2 * n - 1).bit_length()
    spectrum = xp.abs(xp.fft.rfft(centred, length, axis=-1)) ** 2
    covariance = xp.fft.irfft(spectrum.mean(axis=-2), length, axis=-1)[..., :n] / n
    within = covariance[..., :1] * n / (n - 1)
    total = covariance[..., :1] + split.mean(axis=-1).var(axis=-1, ddof=1)[..., None]
    rho = 1 - (within - covariance) / xp.maximum(total, 1e-30)
    pairs = rho[..., : n - n % 2].reshape(*rho.shape[:-1], -1, 2).sum(axis=-1)
    pairs = xp.concatenate([1 + rho[..., 1:2], pairs[..., 1:]], axis=-1)
    positive = xp.cumprod(pairs > 0, axis=-1)
    running = _take_running_minimum(xp.where(positive > 0, pairs, 0), xp)
    tau = xp.maximum(2 * running.sum(axis=-1) - 1, 1 / np.log10(M * n))
    constant = total[..., 0] <= 1e-30
    return xp.where(constant, M * n, M * n / tau)


def _take_running_minimum(values: Any, xp: ModuleType) -> Any:
    if xp is np:
        return np.minimum.accumulate(values, axis=-1)
    return jax.lax.cummin(values, axis=values.ndim - 1)
