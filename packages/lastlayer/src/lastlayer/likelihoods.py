"""The likelihoods, and their averages over Gaussian logits, which distinguish the flows.

Bernoulli: K outputs, each yes or no; docs/maths.md (2), written as a sum of terms of one sign,

    log p(t | a) = t a − c log(1 + e^a)
                 = −( t max(−a, 0) + (c − t) max(a, 0) + c log(1 + e^(−|a|)) ),

which keeps its digits. Three ways to average it over a ~ N(μ, v): exactly
(`average_by_quadrature`), over an ensemble (`average_over_ensemble`), or not at all
(`evaluate_at_mean`).

A new likelihood is a new `FlowRule`, which is hashable and therefore static under jit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lastlayer.compiling import Array, Float
from lastlayer.logits import compute_moments
from lastlayer.products import Precision
from lastlayer.rows import Block


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
    """The parts in which exact flow, mean field and Laplace differ in `flow_step`."""

    spread: Spread
    expectation: Expectation
    merit_has_spread: bool = True  # merit: the evidence bound, else the log posterior at m
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
