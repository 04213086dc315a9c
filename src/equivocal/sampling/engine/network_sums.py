"""What the rows say of an ensemble of networks, summed over blocks of rows and compiled.

Every function here runs the network and reads its logits; none changes the ensemble.

expectations   E[·] of (1) in `network_flow.py`, a row's logit taken as Gaussian
part_sums      ZᵀRZ and Zᵀ(c E[y] − t), with one part spread out and all else at its mean
bend_of        how far the network is from a straight line within the ensemble's spread
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.bernoulli import by_quadrature
from equivocal.sampling.engine.network_rows import NetworkRows, Prior
from equivocal.sampling.engine.rows import Block
from equivocal.sampling.engine.shapes import Array, Float, Int

__all__ = ["Ensemble", "Given", "Terms", "bend_of", "expectations", "part_sums"]


class Terms(NamedTuple):
    """What the rows say at an ensemble."""

    error: Float[Array, "blocks K rows"]  # c E[y] − t
    weight: Float[Array, "blocks K rows"]  # R
    log_likelihood: Float[Array, " K"]


class Given(NamedTuple):
    """What does not change: the network, what it is asked, and the prior."""

    network: Any  # a `jax.tree_util.Partial`
    rows: NetworkRows
    prior: Prior


class Ensemble(NamedTuple):
    """Particles m + deviations, in the prior's coordinates."""

    mean: Float[Array, " D"]
    deviations: Float[Array, "J D"]


def _logits(network: Any, inputs: Any, prior: Prior, particles: Float[Array, "J D"]) -> Any:
    """(J, rows, K) of one block."""
    return jax.vmap(lambda u: network(prior.mean + prior.scale * u, inputs))(particles)


@jax.jit
def expectations(network: Any, rows: NetworkRows, prior: Prior, ensemble: Ensemble) -> Terms:
    """Errors, weights and log-likelihood of all rows, by quadrature over each logit."""

    def of_block(block: NetworkRows) -> tuple[Array, Array, Array]:
        a = _logits(network, block.inputs, prior, ensemble.mean + ensemble.deviations)
        no_features = jnp.zeros((len(block.counts), 0))
        plain = Block(no_features, block.counts, block.targets, jnp.zeros_like(block.counts))
        found = by_quadrature(a.mean(axis=0).T, a.var(axis=0, ddof=1).T, plain)
        return found.error, block.counts * found.slope, found.log_likelihood.sum(axis=1)

    error, weight, log_likelihood = jax.lax.map(of_block, rows)
    return Terms(error, weight, log_likelihood.sum(axis=0))


def part_sums(
    given: Given, ensemble: Ensemble, index: Int[np.ndarray, "B size"], terms: Terms
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """ZᵀRZ and Zᵀ(c E[y] − t) of one part, with Z as far as a straight line in d explains it."""
    return _explained(*_sums(*given, ensemble, index, terms), ensemble.deviations[:, index])


@jax.jit
def _sums(
    network: Any,
    rows: NetworkRows,
    prior: Prior,
    ensemble: Ensemble,
    index: Int[Array, "B size"],
    terms: Terms,
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """ZᵀRZ and Zᵀ(c E[y] − t) with only this part spread out; B is 1, or K by output."""
    J, B = len(ensemble.deviations), len(index)
    alone = jnp.zeros_like(ensemble.deviations)
    alone = alone.at[:, index].set(ensemble.deviations[:, index]) + ensemble.mean

    def add(
        total: tuple[Array, Array], block: tuple[NetworkRows, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        some, error, weight = block
        a = _logits(network, some.inputs, prior, alone)
        Z = ((a - a.mean(axis=0)) / np.sqrt(J - 1)).transpose(2, 0, 1)  # K J rows
        if B == 1:
            Z = Z.swapaxes(0, 1).reshape(1, J, -1)
            error, weight = error.reshape(1, -1), weight.reshape(1, -1)
        S = jnp.matmul(Z * weight[:, None], Z.swapaxes(1, 2), precision="highest")
        g = jnp.matmul(Z, error[..., None], precision="highest")[..., 0]
        return (total[0] + S, total[1] + g), None

    zero = (jnp.zeros((B, J, J)), jnp.zeros((B, J)))
    return jax.lax.scan(add, zero, (rows, terms.error, terms.weight))[0]


@jax.jit
def _explained(
    S: Float[Array, "B J J"], g: Float[Array, "B J"], deviations: Float[Array, "J B size"]
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """The same with Z projected on the rows of d; nothing is lost where d spans all there is."""
    if deviations.shape[2] >= len(deviations) - 1:
        return S, g
    Q, _ = jnp.linalg.qr(deviations.swapaxes(0, 1))
    P = jnp.matmul(Q, Q.swapaxes(1, 2), precision="highest")
    S = jnp.matmul(jnp.matmul(P, S, precision="highest"), P, precision="highest")
    return S, jnp.matmul(P, g[..., None], precision="highest")[..., 0]


@jax.jit
def bend_of(network: Any, rows: NetworkRows, prior: Prior, ensemble: Ensemble) -> Float[Array, ""]:
    """How far mean f(θ) is from f(m), in standard deviations of f: 0 for a linear network."""

    def of_block(block: NetworkRows) -> tuple[Array, Array]:
        a = _logits(network, block.inputs, prior, ensemble.mean + ensemble.deviations)
        at_mean = network(prior.mean + prior.scale * ensemble.mean, block.inputs)
        weight = block.counts[:, None] * jax.nn.sigmoid(at_mean) * jax.nn.sigmoid(-at_mean)
        shift = (a.mean(axis=0) - at_mean) ** 2
        return (weight * shift).sum(), (weight * a.var(axis=0, ddof=1)).sum()

    shift, spread = (found.sum() for found in jax.lax.map(of_block, rows))
    return jnp.sqrt(shift / jnp.maximum(spread, 1e-30))
