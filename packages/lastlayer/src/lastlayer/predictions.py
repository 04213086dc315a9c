"""Averages over a posterior for new rows: docs/maths.md (25), from a Gaussian or from particles.

With y = σ(ψ·θ_k), or a softmax over k, for a row ψ:

    average_probability   E[y]
    compute_sd            standard deviation of y over the posterior
    compute_quantiles     quantiles of y over the posterior
    compute_entropies     H(E[y]), E[H(y)] and their difference

A Gaussian posterior gives these in closed form, however few particles there are: with a ~ N(μ, v),
E[H(y)] = E log(1+e^a) − μ E σ(a) − v E σ'(a) by Stein's identity. Others average over particles.

Features may be of any size. Where v > 10⁸ that identity loses its digits; E[H(y)] is then
∫H(σ(a)) da = π²/3 times the density of a at 0, approximated by E σ'(a), with errors of order 1/v.
Beyond a logit of 10¹⁵ the logistic function is a step, and only μ/√v matters.

The number of rows is filled up to a power of two, so that few programs are compiled.
"""

from collections.abc import Callable
from functools import partial
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Float
from lastlayer.logits import Moments, compute_moments
from lastlayer.plan import round_to_power_of_two

FEWEST = 64  # rows of a compiled program
SMALL = 1 << 17  # up to so many numbers are averaged in NumPy
WIDE = 1e8  # variance of a logit above which E[H(y)] is taken from the density at 0
STEEP = 1e15  # logits beyond which the logistic function is a step

_average = jax.jit(compute_moments)


class Gaussian(NamedTuple):
    """Independent Gaussian weights of K yes/no outputs."""

    mean: np.ndarray  # (K, D)
    covariance: np.ndarray  # (K, D, D)

    def average_probability(self, psi: np.ndarray) -> np.ndarray:
        """Return E[y], (n, K)."""
        mu, sd = (part.astype(psi.dtype) for part in self.compute_logits(psi))
        tail = np.clip(average_logistic(mu, sd**2).tail, 0, 1)
        return np.where(mu > 0, 1 - tail, tail)

    def compute_sd(self, psi: np.ndarray) -> np.ndarray:
        """Return the standard deviation of y, (n, K)."""
        mu, sd = self.compute_logits(psi)
        with jax.enable_x64(True):  # Var y = E y (1 − E y) − E y(1 − y), which cancels
            tail, slope, _ = average_logistic(mu, sd**2)
        return np.sqrt(np.maximum(tail * (1 - tail) - slope, 0)).astype(psi.dtype)

    def compute_quantiles(self, psi: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
        """Return the quantiles of y, (n, K, levels)."""
        mu, sd = (part.astype(psi.dtype) for part in self.compute_logits(psi))
        z = np.array([NormalDist().inv_cdf(level) for level in levels], psi.dtype)
        return np.exp(-np.logaddexp(0, -(mu[..., None] + sd[..., None] * z))).astype(psi.dtype)

    def compute_entropies(self, psi: np.ndarray) -> np.ndarray:
        """Return total, expected and their difference, maths (25), (n, K, 3)."""
        mu, sd = self.compute_logits(psi)
        v = sd**2
        with jax.enable_x64(True):
            tail, slope, excess = average_logistic(mu, v)
        p = np.clip(tail, np.finfo(np.float64).tiny, 1)
        total = -(p * np.log(p) + (1 - p) * np.log1p(-p))
        # E log(1+e^a) − μ E σ − v E σ'; written for −|μ|, whose terms do not cancel
        by_parts = excess + np.abs(mu) * tail - v * slope
        return _stack(total, np.where(v > WIDE, np.pi**2 / 3 * slope, by_parts), psi.dtype)

    def compute_logits(self, psi: np.ndarray, most: float = STEEP) -> tuple[np.ndarray, np.ndarray]:
        """Return ψ·m_k and √(ψᵀP_kψ), each (n, K), in double precision, since ψᵀPψ cancels.

        Each row is divided by a power of two first, so that no square overflows. Where the logit
        would be larger than `most`, mean and sd are both scaled down to it: the logistic function
        is a step there.
        """
        _, exponent = np.frexp(np.abs(psi).max(axis=1).astype(np.float64))
        scale = np.ldexp(1.0, exponent[:, None] - 1)
        unit = psi.astype(np.float64) / scale
        mu = unit @ self.mean.T.astype(np.float64)
        covariances = (P.astype(np.float64) for P in self.covariance)
        v = np.stack([((unit @ P) * unit).sum(axis=1) for P in covariances], axis=1)
        sd = np.sqrt(np.maximum(v, 0))
        reach = np.maximum(np.hypot(mu, sd), np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            factor = np.minimum(scale, most / reach)
            return mu * factor, sd * factor


class Particles(NamedTuple):
    """Draws of the weights of K outputs."""

    values: np.ndarray  # (K, J, D)
    softmax: bool

    def average_probability(self, psi: np.ndarray) -> np.ndarray:
        """Return E[y], (n, K)."""
        return self._apply(psi, lambda y: y.mean(axis=1).T)

    def compute_sd(self, psi: np.ndarray) -> np.ndarray:
        """Return the standard deviation of y, (n, K)."""
        return self._apply(psi, lambda y: y.std(axis=1).T)

    def compute_quantiles(self, psi: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
        """Return the quantiles of y, (n, K, levels)."""
        ends = np.array(levels, psi.dtype)
        return self._apply(psi, lambda y: jnp.quantile(y, ends, axis=1).transpose(2, 1, 0))

    def compute_entropies(self, psi: np.ndarray) -> np.ndarray:
        """Return total, expected and their difference, maths (25); (n, 1, 3) for a softmax."""
        both = self._apply(psi, _average_class_entropies if self.softmax else _average_entropies)
        return _stack(both[..., 0], both[..., 1], psi.dtype)

    def _apply(self, psi: np.ndarray, summarise: Callable[[Array], Array]) -> np.ndarray:
        """Summarise the probabilities of all particles, (K, J, n), rows filled up to few sizes."""
        n, D = psi.shape
        # so that no sum overflows; logits of this size mean certainty in any case
        heaviest = max(float(np.abs(self.values).max()), 1.0)
        most = float(np.finfo(psi.dtype).max) / 16 / D / heaviest
        largest = np.abs(psi).max(axis=1, keepdims=True)
        if largest.max() > most:
            psi = psi * (most / np.maximum(largest, most))
        filled = np.zeros((max(FEWEST, round_to_power_of_two(n)), D), psi.dtype)
        filled[:n] = psi
        return np.asarray(summarise(_predict_each(filled, self.values, self.softmax)))[:n]


def _stack(total: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return total, expected and their difference along a last axis."""
    expected = np.clip(expected, 0, total)
    return np.stack([total, expected, total - expected], axis=-1).astype(dtype)


def average_logistic(mu: np.ndarray, v: np.ndarray) -> Moments:
    """Return expectations over a ~ N(μ, v) as NumPy arrays; similar sizes share a program."""
    if mu.size <= SMALL:
        return compute_moments(mu, v)
    size = round_to_power_of_two(mu.size)
    found = jax.device_get(_average(*(np.resize(x, size) for x in (mu, v))))
    return Moments(*(x[: mu.size].reshape(mu.shape) for x in found))


@partial(jax.jit, static_argnames="softmax")
def _predict_each(
    psi: Float[Array, "n D"], particles: Float[Array, "K J D"], softmax: bool
) -> Float[Array, "K J n"]:
    """Return the probabilities that each particle gives to each row."""
    logits = jnp.matmul(particles, psi.T)
    return jax.nn.softmax(logits, axis=0) if softmax else jax.nn.sigmoid(logits)


@jax.jit
def _average_entropies(y: Float[Array, "K J n"]) -> Float[Array, "n K 2"]:
    total = _compute_binary_entropy(y.mean(axis=1)).T
    return jnp.stack([total, _compute_binary_entropy(y).mean(axis=1).T], axis=-1)


@jax.jit
def _average_class_entropies(y: Float[Array, "K J n"]) -> Float[Array, "n 1 2"]:
    entropy = jax.scipy.special.entr
    total = entropy(y.mean(axis=1)).sum(axis=0)
    return jnp.stack([total, entropy(y).sum(axis=0).mean(axis=0)], axis=-1)[:, None]


def _compute_binary_entropy(p: Float[Array, "*n"]) -> Float[Array, "*n"]:
    p = jnp.clip(p, 0, 1)
    return jax.scipy.special.entr(p) + jax.scipy.special.entr(1 - p)
