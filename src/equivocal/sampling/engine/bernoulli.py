"""Expectations of the Bernoulli likelihood that the Gaussian methods differ in.

    log p(t | a) = t a − c log(1 + e^a)
                 = −( t max(−a, 0) + (c − t) max(a, 0) + c log(1 + e^(−|a|)) ),

a sum of terms of one sign, which keeps its digits. Three ways to average it over a ~ N(μ, |b|²):
exactly (`by_quadrature`), over an ensemble (`over_ensemble`), or not at all (`at_the_mean`).
"""

import jax
import jax.numpy as jnp

from equivocal.sampling.engine.expectations import gaussian_moments
from equivocal.sampling.engine.flow_rule import RowTerms
from equivocal.sampling.engine.rows import Block
from equivocal.sampling.engine.shapes import Array, Float

__all__ = ["at_the_mean", "by_quadrature", "deviations", "over_ensemble", "variance"]


def _log_likelihood(
    logit: Float[Array, "K rows ..."], excess: Float[Array, "K rows ..."], block: Block
) -> Float[Array, "K rows ..."]:
    c, t = block.counts, block.targets
    if logit.ndim == 3:  # one more axis, of particles
        c, t = c[:, None], t[..., None]
    return -(t * jnp.maximum(-logit, 0) + (c - t) * jnp.maximum(logit, 0) + c * excess)


def _error(
    mu: Float[Array, "K rows"], tail: Float[Array, "K rows"], block: Block
) -> Float[Array, "K rows"]:
    """The error c E[y] − t from the less likely answer: c(1 − 1e-8) − c alone would be noise."""
    c, t = block.counts, block.targets
    return jnp.where(mu > 0, (c - t) - c * tail, c * tail - t)


def variance(B: Float[Array, "K rows r"], nodes: None) -> Float[Array, "K rows"]:
    """The variance v = |b|² of each logit."""
    del nodes
    return (B * B).sum(axis=-1)


def by_quadrature(mu: Float[Array, "K rows"], v: Float[Array, "K rows"], block: Block) -> RowTerms:
    """Over N(μ, v), exact to round-off, see `expectations`."""
    moments = gaussian_moments(mu, v)
    log_likelihood = _log_likelihood(mu, moments.excess, block)
    return RowTerms(_error(mu, moments.tail, block), moments.slope, log_likelihood)


def at_the_mean(mu: Float[Array, "K rows"], v: Float[Array, "K rows"], block: Block) -> RowTerms:
    """As if there were no spread: the log-likelihood at m and its derivatives."""
    del v
    tail = jax.nn.sigmoid(-jnp.abs(mu))
    excess = jnp.log1p(jnp.exp(-jnp.abs(mu)))
    return RowTerms(_error(mu, tail, block), tail * (1 - tail), _log_likelihood(mu, excess, block))


def deviations(
    B: Float[Array, "K rows r"], nodes: Float[Array, "K r J"]
) -> Float[Array, "K rows J"]:
    """Logits of the particles m + G `nodes`, less their mean."""
    return jnp.matmul(B, nodes)


def over_ensemble(
    mu: Float[Array, "K rows"], deviation: Float[Array, "K rows J"], block: Block
) -> RowTerms:
    """Averages over particles, as the paper takes them."""
    logits = mu[..., None] + deviation
    y, not_y = jax.nn.sigmoid(logits), jax.nn.sigmoid(-logits)
    tail = jnp.where(mu > 0, not_y.mean(axis=-1), y.mean(axis=-1))
    excess = jnp.log1p(jnp.exp(-jnp.abs(logits)))
    return RowTerms(
        _error(mu, tail, block),
        (y * not_y).mean(axis=-1),
        _log_likelihood(logits, excess, block).mean(axis=-1),
    )
