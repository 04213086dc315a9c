"""Averages over logits: of the logistic function over a Gaussian, and of the likelihood of yes/no.

A logistic variable is a normal one with a random scale 2λ, λ Kolmogorov–Smirnov distributed
(Andrews and Mallows 1974, J. R. Stat. Soc. B 36:99). With density f of λ, maths.md (17),

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

The log-likelihood of a yes/no output, maths.md (2), is written as a sum of terms of one sign,

    log p(t | a) = t a − c log(1 + e^a)
                 = −( t max(−a, 0) + (c − t) max(a, 0) + c log(1 + e^(−|a|)) ),

which keeps its digits. It is averaged over a ~ N(μ, v) (`average_by_quadrature`). NumPy arrays are
computed by NumPy, others by JAX.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Float, choose_namespace
from lastlayer.rows import Block

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
# Numbers at a time, so that a CPU's cache holds what a program, or NumPy, works on.
PROGRAM_CACHE, NUMPY_CACHE = 1 << 19, 1 << 14


class Moments(NamedTuple):
    """Expectations over the distribution of a logit a."""

    tail: Any  # E σ(a) where μ ≤ 0, else 1 − E σ(a): the less likely answer
    slope: Any  # E σ'(a) = E σ(a)(1 − σ(a))
    excess: Any  # E log(1 + e^a) − max(μ, 0), which keeps its digits for large |μ|


class RowTerms(NamedTuple):
    """Expectations for each output and row of a block, over N(m, GGᵀ)."""

    error: Float[Array, "K rows"]  # c E y − t
    slope: Float[Array, "#K rows"]  # E dy/da = E y(1 − y); one row if outputs share μ and v
    log_likelihood: Float[Array, "K rows"]  # E log p(t | θ), counts included


# Returns averages over logits, from their means and variances.
Expectation = Callable[[Any, Any, Block], RowTerms]


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


def compute_moments(mean: Any, variance: Any) -> Moments:
    """Return the expectations of maths (18) for a ~ N(mean, variance).

    >>> tail, slope, _ = compute_moments(np.zeros(1), np.zeros(1))
    >>> bool(abs(tail[0] - 0.5) < 1e-14), bool(abs(slope[0] - 0.25) < 1e-14)
    (True, True)
    """
    if isinstance(mean, np.ndarray):
        return _compute_in_numpy(mean, variance)
    parts = -(-mean.size // PROGRAM_CACHE)
    if parts == 1 or mean.ndim != 2 or jax.default_backend() != "cpu":
        return _sum_over_nodes(mean, variance)
    K, N = mean.shape
    each = -(-K // parts)
    filled = (jnp.pad(x, ((0, parts * each - K), (0, 0))) for x in (mean, variance))
    cut = tuple(x.reshape(parts, each, N) for x in filled)
    moments: Moments = jax.lax.map(lambda part: _sum_over_nodes(*part), cut)
    return jax.tree.map(lambda x: x.reshape(-1, N)[:K], moments)


def _compute_in_numpy(mean: np.ndarray, variance: np.ndarray) -> Moments:
    mu, v = mean.ravel(), np.broadcast_to(variance, mean.shape).ravel()
    moments = np.empty((3, len(mu)), mean.dtype)
    with np.errstate(all="ignore"):
        for first in range(0, len(mu), NUMPY_CACHE):
            some = slice(first, first + NUMPY_CACHE)
            moments[:, some] = _sum_over_nodes(mu[some], v[some])
    return Moments(*moments.reshape(3, *mean.shape))


def _sum_over_nodes(mean: Any, variance: Any) -> Moments:
    xp = choose_namespace(mean)
    size, constant = xp.abs(mean), mean.dtype.type
    scales, weights = map(xp.asarray, choose_nodes(mean.dtype))

    def add(i: Any, total: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        tail, slope, excess = total
        kappa = xp.sqrt(variance + scales[i] * scales[i])
        inverse = 1 / kappa  # a CPU takes longer for `rsqrt`
        z = size * inverse
        phi = weights[i] * constant(1 / np.sqrt(2 * np.pi)) * xp.exp(constant(-0.5) * z * z)
        if mean.dtype == np.float32:
            t = 1 / (1 + constant(BEND) * z)
            upper = phi * t * _evaluate_polynomial(t)  # a third of the time of erfc
        else:
            # Φ(−|z|)
            upper = weights[i] * constant(0.5) * _compute_erfc(z * constant(np.sqrt(0.5)))
        return tail + upper, slope + inverse * phi, excess + (kappa * phi - size * upper)

    # In JAX a loop compiles in a fifth of the time of a dozen or more copies of its body.
    moments = zero = xp.zeros_like(mean), xp.zeros_like(mean), xp.zeros_like(mean)
    if xp is jnp:
        return Moments(*jax.lax.fori_loop(0, len(scales), add, zero))
    for i in range(len(scales)):
        moments = add(i, moments)
    return Moments(*moments)


def _evaluate_polynomial(t: Any) -> Any:
    total = t * MILLS[0]
    for coefficient in MILLS[1:-1]:
        total = (total + coefficient) * t
    return total + MILLS[-1]


def _compute_erfc(z: Any) -> Any:
    if not isinstance(z, np.ndarray):
        return jax.lax.erfc(z)
    from scipy.special import erfc  # JAX requires SciPy, but does not load it

    return erfc(z)


def compute_log_likelihood(logit: Any, excess: Any, block: Block) -> Any:
    """Return log p(t | a), maths (2), given the excess log(1 + e^(−|a|)) or its average."""
    xp, c, t = choose_namespace(logit), block.counts, block.targets
    return -(t * xp.maximum(-logit, 0) + (c - t) * xp.maximum(logit, 0) + c * excess)


def _compute_error(mu: Any, tail: Any, block: Block) -> Any:
    """Return c E[y] − t from the less likely answer: c(1 − 1e-8) − c alone would be noise."""
    c, t = block.counts, block.targets
    return choose_namespace(mu).where(mu > 0, (c - t) - c * tail, c * tail - t)


def average_by_quadrature(mu: Any, v: Any, block: Block) -> RowTerms:
    """Average over N(μ, v), exact to round-off."""
    moments = compute_moments(mu, v)
    log_likelihood = compute_log_likelihood(mu, moments.excess, block)
    return RowTerms(_compute_error(mu, moments.tail, block), moments.slope, log_likelihood)
