"""The likelihoods, and their averages over Gaussian logits, which distinguish the flows.

Bernoulli: K outputs, each yes or no; docs/maths.md (2), written as a sum of terms of one sign,

    log p(t | a) = t a − c log(1 + e^a)
                 = −( t max(−a, 0) + (c − t) max(a, 0) + c log(1 + e^(−|a|)) ),

which keeps its digits. Three ways to average it over a ~ N(μ, v): exactly
(`average_by_quadrature`), over an ensemble (`average_over_ensemble`), or not at all
(`evaluate_at_mean`).

Softmax: one of K classes; docs/maths.md (19). Under q(θ) = Π_k N(m_k, P_k), never a K·D × K·D
matrix, the flow of each class is that of a Bernoulli output with E[y_k] and E[y_k(1−y_k)] taken
under q, all classes moving together under one evidence bound. Curvature between classes enters
through the expectations only, so that probabilities are a little less sure than the exact
posterior's (for K = 2 the variance of a difference of logits can come out up to twice as large).
Expectations are averages over Q fixed points z in ℝᴷ, antithetic and whitened: exact for
polynomials of degree three in the logits. Where logits are wide, a softmax is nearly a step at each
point, and sums of few steps are rough; `soften_softmax` makes them smooth, and more accurate.

A new likelihood is a new `FlowRule`, which is hashable and therefore static under jit.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.expectations import compute_moments
from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.programs import Array, Float
from equivocal.sampling.engine.rows import Block

T = TypeVar("T", np.ndarray, Array)
# `soften_softmax` takes up to this share of a row's least variance, and less below this variance.
PART, NARROW = 0.5, 4.0


class RowTerms(NamedTuple):
    """Expectations for each output and row of a block, over N(m, GGᵀ)."""

    error: Float[Array, "K rows"]  # c E y − t
    slope: Float[Array, "#K rows"]  # E dy/da = E y(1 − y); one row if outputs share μ and v
    log_likelihood: Float[Array, "K rows"]  # E log p(t | θ), counts included


# Returns the spread of the logits of a block about their means, from Bᵀ = (ΨG)ᵀ and the nodes.
Spread = Callable[[Float[Array, "K r rows"], Any], Float[Array, "K rows *J"]]
# Returns averages over logits, from their means μ and their spread.
Expectation = Callable[[Float[Array, "K rows"], Float[Array, "K rows *J"], Block], RowTerms]


class FlowRule(NamedTuple):
    """The parts in which exact flow, mean field, Laplace and softmax differ in `flow_step`."""

    spread: Spread
    expectation: Expectation
    merit_has_spread: bool = True  # merit: the evidence bound, else the log posterior at m
    joint: bool = False  # outputs share one likelihood (softmax), hence one bound and one s
    largest_damping: float = 0.99
    corrections: int = 8  # largest number of corrections of the mean after each step
    symmetric: bool = False  # take the symmetric root, which particles need
    slack: float = 0.0  # a fall of the merit that is tolerated, in addition to round-off
    precision: Precision = Precision.FULL  # of the products that cost N·D²


def compute_log_likelihood(
    logit: Float[Array, "#K rows ..."], excess: Float[Array, "#K rows ..."], block: Block
) -> Float[Array, "K rows ..."]:
    """Return log p(t | a), maths (2), given the excess log(1 + e^(−|a|)) or its average."""
    c, t = block.counts, block.targets
    if logit.ndim == 3:  # one more axis, of particles
        c, t = c[..., None], t[..., None]
    return -(t * jnp.maximum(-logit, 0) + (c - t) * jnp.maximum(logit, 0) + c * excess)


def _compute_error(
    mu: Float[Array, "#K rows"], tail: Float[Array, "#K rows"], block: Block
) -> Float[Array, "K rows"]:
    """Return c E[y] − t from the less likely answer: c(1 − 1e-8) − c alone would be noise."""
    c, t = block.counts, block.targets
    return jnp.where(mu > 0, (c - t) - c * tail, c * tail - t)


def compute_variance(B: Float[Array, "K r rows"], nodes: None) -> Float[Array, "K rows"]:
    """Return the variance v = |b|² of each logit."""
    del nodes
    return (B * B).sum(axis=1)


def average_by_quadrature(
    mu: Float[Array, "#K rows"], v: Float[Array, "#K rows"], block: Block
) -> RowTerms:
    """Average over N(μ, v), exact to round-off; see `expectations`."""
    moments = compute_moments(mu, v)
    log_likelihood = compute_log_likelihood(mu, moments.excess, block)
    return RowTerms(_compute_error(mu, moments.tail, block), moments.slope, log_likelihood)


def evaluate_at_mean(
    mu: Float[Array, "#K rows"], v: Float[Array, "#K rows"], block: Block
) -> RowTerms:
    """Return the log-likelihood at m and its derivatives, without regard to the spread."""
    del v
    tail = jax.nn.sigmoid(-jnp.abs(mu))
    log_likelihood = compute_log_likelihood(mu, jnp.log1p(jnp.exp(-jnp.abs(mu))), block)
    return RowTerms(_compute_error(mu, tail, block), tail * (1 - tail), log_likelihood)


def compute_deviations(
    B: Float[Array, "K r rows"], nodes: Float[Array, "K r J"]
) -> Float[Array, "K rows J"]:
    """Return the logits of the particles m + G `nodes`, minus their mean."""
    return jnp.matmul(B.swapaxes(1, 2), nodes)


def average_over_ensemble(
    mu: Float[Array, "K rows"], deviation: Float[Array, "K rows J"], block: Block
) -> RowTerms:
    """Average over particles, as the paper does."""
    logits = mu[..., None] + deviation
    y, not_y = jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits)
    tail = jnp.where(mu > 0, not_y.mean(axis=-1), y.mean(axis=-1))
    excess = jnp.log1p(jnp.exp(-jnp.abs(logits)))
    log_likelihood = compute_log_likelihood(logits, excess, block).mean(axis=-1)
    return RowTerms(_compute_error(mu, tail, block), (y * not_y).mean(axis=-1), log_likelihood)


def _compute_softmax_terms(
    mu: Float[Array, "K rows"], logits: Float[Array, "K rows"], block: Block
) -> RowTerms:
    """Return the terms at one point a = `logits`; the term that is linear in a takes its mean μ."""
    top = mu.max(axis=0)
    y = jax.nn.softmax(logits, axis=0)
    log_partition = jax.nn.logsumexp(logits - top, axis=0)
    # maths (19): t (μ − log Σ e^a), whose average over a is the term of the bound
    log_likelihood = block.targets * (mu - top - log_partition)
    return RowTerms(block.counts * y - block.targets, y * (1 - y), log_likelihood)


def _evaluate_softmax_at_mean(
    mu: Float[Array, "K rows"], v: Float[Array, "K rows"], block: Block
) -> RowTerms:
    """Return the terms at the mean of the logits, without regard to the spread."""
    del v
    return _compute_softmax_terms(mu, mu, block)


def soften_softmax(v: T) -> tuple[T, T]:
    """Return a temperature τ of each row, (rows,), and the sd that remains to points, (K, rows).

    A softmax at temperature τ gives the probabilities that each class has the largest logit once
    Gumbel noise of scale τ, of variance τ² π²/6, is added. So τ² = 1 + 6 s²/π² accounts for a part
    s² of the variances v of Gaussian logits; points scatter by the rest. Both kinds of noise have
    the same variance, and s² ≤ `PART` v is negligible where v is small and points are exact.
    """
    least = v.min(axis=0)
    s2 = PART * least * (least / (least + NARROW))
    return (1 + (6 / math.pi**2) * s2) ** 0.5, (v - s2) ** 0.5


def _average_softmax(
    mu: Float[Array, "K rows"], v: Float[Array, "K rows"], block: Block, *, points: np.ndarray
) -> RowTerms:
    """Average t (μ − τ log Σ e^(a/τ)) and its derivatives by a, with y = softmax(a/τ)."""
    tau, sd = soften_softmax(v)
    centre, sd = mu / tau, sd / tau

    def add(total: RowTerms, z: Float[Array, " K"]) -> tuple[RowTerms, None]:
        terms = _compute_softmax_terms(centre, centre + sd * z[:, None], block)
        return jax.tree.map(jnp.add, total, terms), None

    zero = RowTerms(*[jnp.zeros_like(mu)] * 3)
    total, _ = jax.lax.scan(add, zero, jnp.asarray(points, mu.dtype))
    error, slope, log_likelihood = jax.tree.map(lambda leaf: leaf / len(points), total)
    return RowTerms(error, slope / tau, tau * log_likelihood)


@lru_cache(maxsize=32)
def make_softmax_rule(num_classes: int, *, at_mean: bool = False) -> FlowRule:
    """Return the rule of a softmax: averages over fixed points, or values at the mean (Laplace)."""
    if at_mean:
        rule = FlowRule(compute_variance, _evaluate_softmax_at_mean, joint=True)
        return rule._replace(merit_has_spread=False)
    half = max(64, 2 * num_classes)
    z = np.random.default_rng(0).standard_normal((half, num_classes))
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / half), z.T).T
    expectation = partial(_average_softmax, points=np.concatenate([z, -z]))
    # nats: the sums over points are not quite the gradient of the bound over them
    return FlowRule(compute_variance, expectation, joint=True, slack=0.1)
