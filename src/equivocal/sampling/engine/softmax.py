"""Expectations of the softmax likelihood over independent Gaussian weights of the classes.

    log p(t | a) = Σ_k t_k (a_k − log Σ_i e^(a_i)),     y_k = e^(a_k) / Σ_i e^(a_i)

q(θ) = Π_k N(m_k, P_k): never a K·D × K·D matrix. The flow of each class is that of a Bernoulli
output with E[y_k] and E[y_k(1−y_k)] taken under q, all classes moving together under one evidence
bound. Curvature between classes enters through the expectations only, so that probabilities are a
little less sure than the exact posterior's (for K = 2 the variance of a difference of logits can
come out up to twice as large). Expectations are averages over Q fixed points z in ℝᴷ, antithetic
and whitened: exact for polynomials of degree three in the logits.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine import bernoulli
from equivocal.sampling.engine.flow_rule import FlowRule, RowTerms
from equivocal.sampling.engine.rows import Block
from equivocal.sampling.engine.shapes import Array, Float

__all__ = ["softmax_mode_rule", "softmax_rule"]


def _points(num_classes: int) -> np.ndarray:
    """(Q, K) with mean 0, covariance I and no odd moments."""
    half = max(64, 2 * num_classes)
    z = np.random.default_rng(0).standard_normal((half, num_classes))
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / half), z.T).T
    return np.concatenate([z, -z])


def _terms(mu: Float[Array, "K rows"], logits: Float[Array, "K rows"], block: Block) -> RowTerms:
    top = mu.max(axis=0)
    y = jax.nn.softmax(logits, axis=0)
    log_partition = jax.nn.logsumexp(logits - top, axis=0)
    # t (μ − log Σ e^a), whose average over a is what the bound wants
    log_likelihood = block.targets * (mu - top - log_partition)
    return RowTerms(block.counts * y - block.targets, y * (1 - y), log_likelihood)


def at_the_mean(mu: Float[Array, "K rows"], v: Float[Array, "K rows"], block: Block) -> RowTerms:
    """As if there were no spread."""
    del v
    return _terms(mu, mu, block)


@lru_cache(maxsize=32)
def softmax_rule(num_classes: int) -> FlowRule:
    """Exact expectations, as far as the points go."""
    points = _points(num_classes)

    def by_points(mu: Float[Array, "K rows"], v: Float[Array, "K rows"], block: Block) -> RowTerms:
        sd = jnp.sqrt(v)

        def add(total: RowTerms, z: Float[Array, " K"]) -> tuple[RowTerms, None]:
            terms = _terms(mu, mu + sd * z[:, None], block)
            return jax.tree.map(jnp.add, total, terms), None

        zero = RowTerms(*[jnp.zeros_like(mu)] * 3)
        total, _ = jax.lax.scan(add, zero, jnp.asarray(points, mu.dtype))
        return jax.tree.map(lambda leaf: leaf / len(points), total)

    return FlowRule(
        bernoulli.variance,
        by_points,
        joint=True,
        slack=0.1,  # nats: the sums over points are not quite the gradient of the bound over them
    )


@lru_cache(maxsize=1)
def softmax_mode_rule() -> FlowRule:
    """For Laplace."""
    return FlowRule(
        bernoulli.variance,
        at_the_mean,
        merit_has_spread=False,
        joint=True,
    )
