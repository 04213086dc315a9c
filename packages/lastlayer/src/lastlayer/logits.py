"""Averages of the logistic function over a Gaussian logit, in JAX and in NumPy.

A logistic variable is a normal one with a random scale 2λ, λ Kolmogorov–Smirnov distributed
(Andrews and Mallows 1974, J. R. Stat. Soc. B 36:99). With density f of λ, docs/maths.md (17),

    σ(a) = ∫ Φ(a / 2λ) f(λ) dλ,

and Φ averages over a Gaussian in closed form. For a ~ N(μ, v), κ² = v + (2λ)², z = μ/κ, (18):

    E σ(a)          = ∫ Φ(z) f dλ
    E σ'(a)         = ∫ φ(z)/κ f dλ
    E log(1 + e^a)  = ∫ (μ Φ(z) + κ φ(z)) f dλ

The integral is a Gauss quadrature in log λ for the density f: 9 nodes reach 3e-8 and 24 nodes
2e-15 in σ, whatever v is: averages over a have no larger error than σ itself. In float32 seven
nodes that were fitted to σ do as well (`FITTED`; as Monahan and Stefanski 1992, in Balakrishnan's
Handbook of the Logistic Distribution). Gauss–Hermite nodes in a need ever more of them as v grows
(logit standard deviations of 20 occur under weak priors), and miss silently.

`compute_moments` is for compiled programs; `compute_small_moments` does the same in NumPy, for
small problems. NumPy has no erfc, so a tail Φ(−z) is φ(z) times Mills' ratio, which is t times a
polynomial of 2t − 1, t = 1/(1 + z/4).
"""

import math
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

from lastlayer.compiling import Array, Float, Int

__all__ = [
    "Moments",
    "choose_nodes",
    "compute_moments",
    "compute_small_moments",
    "make_kolmogorov_nodes",
]

# Mills' ratio Φ(−z)/φ(z) is t times this polynomial of t = 1/(1 + 0.3 z), highest power first. It
# is fitted on Chebyshev points, with an error of 1e-7.
BEND = 0.3
HIGH = [-0.0326102364, 0.188992304, -0.379831104, 0.259642471, -0.0443225673]
LOW = [0.173092844, 0.215082227, 0.27327566, 0.299992591, 0.300000032]
MILLS = np.array(HIGH + LOW, np.float32)
# Pairs (2λ, w) with the least largest error of σ, 1.3e-8; of σ' 7e-8 and of log(1 + e^a) 5e-8.
# Fitted by least squares, with weights raised where errors were large (Lawson's method).
FITTED = np.array(
    [
        (0.77443882, 0.00773578),
        (1.01868771, 0.09604771),
        (1.32883545, 0.28217169),
        (1.73827160, 0.34539697),
        (2.28061516, 0.20961803),
        (2.99395787, 0.05544480),
        (3.96589101, 0.00358502),
    ]
)
SMALL_BEND = 0.25  # as `BEND`, for the fit in NumPy
IN_CACHE = 1 << 19  # numbers at a time; larger arrays would not fit into a CPU's cache
SMALL_CACHE = 2048  # numbers at a time in NumPy, so that a CPU's cache holds them at all nodes


class Moments(NamedTuple):
    """Expectations over the distribution of a logit a."""

    tail: Float[Array, "..."]  # E σ(a) where μ ≤ 0, else 1 − E σ(a): the less likely answer
    slope: Float[Array, "..."]  # E σ'(a) = E σ(a)(1 − σ(a))
    excess: Float[Array, "..."]  # E log(1 + e^a) − max(μ, 0), which keeps its digits for large |μ|


def _compute_kolmogorov_density(lam: np.ndarray) -> np.ndarray:
    """Return f(λ), by one of two series: each converges fast on its side of λ = 1."""
    k = np.arange(1, 30)[:, None]
    large = 8 * ((-1.0) ** (k + 1) * k**2 * lam * np.exp(-2 * (k * lam) ** 2)).sum(axis=0)
    rate = ((2 * k - 1) * np.pi) ** 2 / 8
    terms = np.exp(-rate / lam**2) * (2 * rate / lam**4 - lam**-2)
    small = np.sqrt(2 * np.pi) * terms.sum(axis=0)
    return np.where(lam < 1, small, large)


@lru_cache(maxsize=2)
def make_kolmogorov_nodes(dtype: np.typing.DTypeLike) -> tuple[np.ndarray, np.ndarray]:
    """Return scales 2λ and weights of the Gauss quadrature: 24 nodes in float64, else 9.

    >>> scales, weights = make_kolmogorov_nodes(np.float64)
    >>> bool(abs(weights.sum() - 1) < 1e-14)
    True
    """
    # maths (17): a trapezoid sum over log λ replaces the integral; it is exact to round-off
    x = np.arange(np.log(0.12), np.log(6.0), 0.02)
    f = np.exp(x) * _compute_kolmogorov_density(np.exp(x))
    f /= f.sum()
    number = 24 if np.dtype(dtype) == np.float64 else 9
    # Stieltjes: the three-term recurrence of the polynomials orthogonal under f, then its matrix
    jacobi = np.zeros((number + 1, number + 1))
    before, p = np.zeros_like(x), np.ones_like(x)
    for i in range(number):
        jacobi[i, i] = (f * x * p * p).sum()
        q = (x - jacobi[i, i]) * p - jacobi[i - 1, i] * before
        jacobi[i, i + 1] = jacobi[i + 1, i] = np.sqrt((f * q * q).sum())
        before, p = p, q / jacobi[i, i + 1]
    nodes, vectors = np.linalg.eigh(jacobi[:number, :number])
    return (2 * np.exp(nodes)).astype(dtype), (vectors[0] ** 2).astype(dtype)


def choose_nodes(dtype: np.typing.DTypeLike) -> tuple[np.ndarray, np.ndarray]:
    """Return scales 2λ and weights, as many as the precision needs."""
    if np.dtype(dtype) == np.float64:
        return make_kolmogorov_nodes(np.float64)
    scales, weights = FITTED.T.astype(dtype)
    return scales, weights


def compute_moments(mean: Float[Array, "*n"], variance: Float[Array, "*n"]) -> Moments:
    """Return the expectations of maths (18) for a ~ N(mean, variance)."""
    parts = -(-mean.size // IN_CACHE)
    if parts == 1 or mean.ndim != 2 or jax.default_backend() != "cpu":
        return _sum_over_nodes(mean, variance)
    K, N = mean.shape
    each = -(-K // parts)
    filled = (jnp.pad(x, ((0, parts * each - K), (0, 0))) for x in (mean, variance))
    cut = tuple(x.reshape(parts, each, N) for x in filled)
    found: Moments = jax.lax.map(lambda part: _sum_over_nodes(*part), cut)
    return jax.tree.map(lambda x: x.reshape(-1, N)[:K], found)


def _sum_over_nodes(mean: Float[Array, "*n"], variance: Float[Array, "*n"]) -> Moments:
    size = jnp.abs(mean)
    scales, weights = map(jnp.asarray, choose_nodes(mean.dtype))
    constant = mean.dtype.type

    def add(i: Int[Array, ""], total: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tail, slope, excess = total
        kappa = jnp.sqrt(variance + scales[i] * scales[i])
        inverse = 1 / kappa  # a CPU takes longer for `rsqrt`
        z = size * inverse
        phi = weights[i] * constant(1 / np.sqrt(2 * np.pi)) * jnp.exp(constant(-0.5) * z * z)
        if mean.dtype == jnp.float32:
            t = 1 / (1 + constant(BEND) * z)
            upper = phi * t * jnp.polyval(MILLS, t, unroll=16)  # a third of the time of erfc
        else:
            upper = weights[i] * constant(0.5) * jax.lax.erfc(z * constant(np.sqrt(0.5)))  # Φ(−|z|)
        return tail + upper, slope + inverse * phi, excess + (kappa * phi - size * upper)

    # A loop compiles in a fifth of the time of a dozen or more copies of its body.
    zero = jnp.zeros_like(mean)
    tail, slope, excess = jax.lax.fori_loop(0, len(scales), add, (zero, zero, zero))
    return Moments(tail, slope, excess)


def compute_small_moments(mean: np.ndarray, variance: np.ndarray) -> Moments:
    """Return the expectations of `compute_moments` as NumPy arrays.

    >>> tail, slope, _ = compute_small_moments(np.zeros(1), np.zeros(1))
    >>> bool(abs(tail[0] - 0.5) < 1e-14), bool(abs(slope[0] - 0.25) < 1e-14)
    (True, True)
    """
    size, v = np.abs(mean).ravel(), variance.ravel()
    found = np.empty((3, len(size)), mean.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for first in range(0, len(size), SMALL_CACHE):
            some = slice(first, first + SMALL_CACHE)
            found[:, some] = _sum_over_nodes_in_numpy(size[some], v[some])
    return Moments(*found.reshape(3, *mean.shape))


def _sum_over_nodes_in_numpy(size: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    scales, weights = choose_nodes(size.dtype)
    kappa = np.sqrt(v + (scales * scales)[:, None])
    z = size / kappa
    phi = np.exp(z * z * size.dtype.type(-0.5))
    phi *= (weights / np.sqrt(2 * np.pi)).astype(size.dtype)[:, None]
    ratio = _compute_mills_ratio(z)
    tail, slope = np.einsum("qn,qn->n", phi, ratio), (phi / kappa).sum(axis=0)
    return tail, slope, (phi * kappa * (1 - z * ratio)).sum(axis=0)


def _compute_mills_ratio(z: np.ndarray) -> np.ndarray:
    """Return Φ(−z)/φ(z) for z ≥ 0."""
    one, *rest = _fit_mills_ratio(z.dtype)
    t = 1 / (1 + z.dtype.type(SMALL_BEND) * z)
    x = 2 * t - 1
    total = one * x
    for coefficient in rest[:-1]:
        total += coefficient
        total *= x
    total += rest[-1]
    total *= t
    return total


@lru_cache(maxsize=2)
def _fit_mills_ratio(dtype: np.dtype) -> tuple[np.floating, ...]:
    """Return coefficients, highest power first; errors: 4e-8 in float32, 6e-15 in float64."""
    x = np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    t = (x + 1) / 2
    exact = np.array([_compute_exact_ratio(z) for z in (1 / t - 1) / SMALL_BEND])
    kept = chebyshev.chebfit(x, exact / t, 59)[: 22 if dtype == np.float64 else 10]
    return tuple(chebyshev.cheb2poly(kept)[::-1].astype(dtype))


def _compute_exact_ratio(z: float) -> float:
    """Return Φ(−z)/φ(z): by erfc, or beyond 4 by Laplace's continued fraction."""
    if z < 4:
        return math.sqrt(math.pi / 2) * math.erfc(z / math.sqrt(2)) * math.exp(z * z / 2)
    fraction = 0.0
    for k in range(80, 0, -1):
        fraction = k / (z + fraction)
    return 1 / (z + fraction)
