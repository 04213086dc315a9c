"""One step of the network flow, docs/maths.md (24), for one part of the weights.

What the rows say of an ensemble of networks, (23), is summed over blocks of rows and compiled:

compute_terms  E[·] of (23), a row's logit taken as Gaussian
sum_part       ZᵀRZ and Zᵀ(c E[y] − t), with one part spread out and all else at its mean
measure_bend   how far the network is from a straight line within the ensemble's spread

s follows Aitken's relaxation of S − I, as in `flow.py`, and is halved as long as the evidence
bound, (4) with log det over the spanned directions, would fall.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.likelihoods import average_by_quadrature
from equivocal.sampling.engine.network_rows import NetworkRows, Prior
from equivocal.sampling.engine.rows import Block
from equivocal.sampling.engine.shapes import Array, Float, Int

FIRST, GROWTH, SHRINKAGE, LARGEST = 0.5, 1.5, 0.5, 0.95  # of s
# Where the network bends, S leaves out its second derivative and (24) converges a little beside
# the bound's maximum: the bound is there to refuse leaps, not the last steps. Nats per direction.
SLACK = 0.1
TRIES = 5  # attempts at s, each half the one before; then a part stays where it is for a round
ROUND_OFF = 1e-5  # of the largest eigenvalue; directions below are d's own null space in float32

multiply = partial(jnp.matmul, precision="highest")


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

    def compute_logits(self, inputs: Any, particles: Float[Array, "... D"]) -> Any:
        """Return (..., rows, K) for one block of inputs and one or more particles."""
        if particles.ndim == 2:
            return jax.vmap(lambda u: self.compute_logits(inputs, u))(particles)
        return self.network(self.prior.mean + self.prior.scale * particles, inputs)


class Ensemble(NamedTuple):
    """Particles m + deviations, in the prior's coordinates."""

    mean: Float[Array, " D"]
    deviations: Float[Array, "J D"]


class Step(NamedTuple):
    """What (24) did to one part, output by output where it has them."""

    gain: Float[Array, " B"]  # of the evidence bound, but for the likelihood
    misfit: Float[Array, "B J J"]  # S − I over the spanned directions, before the step
    mean_residual: Float[Array, " B"]  # distance to go, in posterior standard deviations
    covariance_residual: Float[Array, " B"]  # largest relative error of a spanned variance
    rank: int | Int[Array, ""]  # spanned directions


def list_constants() -> dict[str, float]:
    """Return the numbers beside its arguments that decide where a run ends."""
    names = ("FIRST", "GROWTH", "SHRINKAGE", "LARGEST", "SLACK", "TRIES", "ROUND_OFF")
    return {name: globals()[name] for name in names}


@jax.jit
def compute_terms(given: Given, ensemble: Ensemble) -> Terms:
    """Return errors, weights and log-likelihood of all rows, by quadrature over each logit."""

    def of_block(block: NetworkRows) -> tuple[Array, Array, Array]:
        a = given.compute_logits(block.inputs, ensemble.mean + ensemble.deviations)
        no_features = jnp.zeros((len(block.counts), 0))
        plain = Block(no_features, block.counts, block.targets, jnp.zeros_like(block.counts))
        found = average_by_quadrature(a.mean(axis=0).T, a.var(axis=0, ddof=1).T, plain)
        return found.error, block.counts * found.slope, found.log_likelihood.sum(axis=1)

    error, weight, log_likelihood = jax.lax.map(of_block, given.rows)
    return Terms(error, weight, log_likelihood.sum(axis=0))


def sum_part(
    given: Given, ensemble: Ensemble, index: Int[np.ndarray, "B size"], terms: Terms
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """Return ZᵀRZ and Zᵀ(c E[y] − t) of a part, with Z as far as a straight line in d explains."""
    return _project(*_sum_part(given, ensemble, index, terms), ensemble.deviations[:, index])


@jax.jit
def _sum_part(
    given: Given, ensemble: Ensemble, index: Int[Array, "B size"], terms: Terms
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """Return the same sums with only this part spread out; B is 1, or K by output."""
    J, B = len(ensemble.deviations), len(index)
    alone = jnp.zeros_like(ensemble.deviations)
    alone = alone.at[:, index].set(ensemble.deviations[:, index]) + ensemble.mean

    def add(
        total: tuple[Array, Array], block: tuple[NetworkRows, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        some, error, weight = block
        a = given.compute_logits(some.inputs, alone)
        Z = ((a - a.mean(axis=0)) / np.sqrt(J - 1)).transpose(2, 0, 1)  # K J rows
        if B == 1:
            Z = Z.swapaxes(0, 1).reshape(1, J, -1)
            error, weight = error.reshape(1, -1), weight.reshape(1, -1)
        S = multiply(Z * weight[:, None], Z.swapaxes(1, 2))
        g = multiply(Z, error[..., None])[..., 0]
        return (total[0] + S, total[1] + g), None

    zero = (jnp.zeros((B, J, J)), jnp.zeros((B, J)))
    return jax.lax.scan(add, zero, (given.rows, terms.error, terms.weight))[0]


@jax.jit
def _project(
    S: Float[Array, "B J J"], g: Float[Array, "B J"], deviations: Float[Array, "J B size"]
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """Project Z on the rows of d; nothing is lost where d spans all there is."""
    if deviations.shape[2] >= len(deviations) - 1:
        return S, g
    Q, _ = jnp.linalg.qr(deviations.swapaxes(0, 1))
    onto = multiply(Q, Q.swapaxes(1, 2))
    return multiply(multiply(onto, S), onto), multiply(onto, g[..., None])[..., 0]


@jax.jit
def measure_bend(given: Given, ensemble: Ensemble) -> Float[Array, ""]:
    """Return how far mean f(θ) is from f(m), in sd of f: 0 for a linear network."""

    def of_block(block: NetworkRows) -> tuple[Array, Array]:
        a = given.compute_logits(block.inputs, ensemble.mean + ensemble.deviations)
        at_mean = given.compute_logits(block.inputs, ensemble.mean)
        weight = block.counts[:, None] * jax.nn.sigmoid(at_mean) * jax.nn.sigmoid(-at_mean)
        shift = (a.mean(axis=0) - at_mean) ** 2
        return (weight * shift).sum(), (weight * a.var(axis=0, ddof=1)).sum()

    shift, spread = (found.sum() for found in jax.lax.map(of_block, given.rows))
    return jnp.sqrt(shift / jnp.maximum(spread, 1e-30))


def advance(
    given: Given,
    ensemble: Ensemble,
    terms: Terms,
    index: np.ndarray,
    s: np.ndarray,
    before: np.ndarray | None,
) -> tuple[Ensemble, Terms, np.ndarray, Step, int]:
    """Move one part by (24), with a shorter s where the bound would fall, and none in the end."""
    sums = sum_part(given, ensemble, index, terms)
    if before is not None:
        _, here = move_part(ensemble, index, *sums, s)
        s = _relax(s, before, np.asarray(here.misfit))
    for tries in range(1, TRIES + 2):
        moved, taken = move_part(ensemble, index, *sums, s)
        there = compute_terms(given, moved)
        falls = _find_falls(taken, terms, there)
        if not falls.any():
            break
        s = np.where(falls, SHRINKAGE * s if tries < TRIES else 0.0, s)
    return moved, there, s, taken, tries


def _find_falls(step: Step, terms: Terms, there: Terms) -> np.ndarray:
    """Return where the evidence bound would fall by more than `SLACK` nats a direction."""
    old, new = (np.asarray(x.log_likelihood, np.float64) for x in (terms, there))
    if len(step.gain) == 1:
        old, new = old.sum(keepdims=True), new.sum(keepdims=True)
    slack = 16 * np.finfo(np.float32).eps * np.abs(old) + SLACK * np.asarray(step.rank)
    return np.asarray(~(new + np.asarray(step.gain) >= old - slack))  # NaN is lower too


def _relax(s: np.ndarray, before: np.ndarray, misfit: np.ndarray) -> np.ndarray:
    """Return the s that would have cancelled the change of S − I, within bounds."""
    change = misfit - before
    best = -s * (before * change).sum(axis=(1, 2)) / np.maximum((change**2).sum(axis=(1, 2)), 1e-30)
    clipped = np.clip(best, SHRINKAGE * s, GROWTH * s)
    return np.minimum(np.where(best > 0, clipped, GROWTH * s), LARGEST)


@jax.jit
def move_part(
    ensemble: Ensemble,
    index: Int[Array, "B size"],
    S: Float[Array, "B J J"],
    g: Float[Array, "B J"],
    damping: Float[Array, " B"],
) -> tuple[Ensemble, Step]:
    """Apply (24) to one part, and return how far it was from the fixed point."""
    J = len(ensemble.deviations)
    d = ensemble.deviations[:, index].swapaxes(0, 1) / np.sqrt(J - 1)  # B J size
    m, s = ensemble.mean[index], jnp.asarray(damping, d.dtype)[:, None]
    lam, V = jnp.linalg.eigh(S + multiply(d, d.swapaxes(1, 2)))
    # the null space of d must not grow: what it holds is round-off
    rank = min(J - 1, index.shape[1])
    alive = (lam > ROUND_OFF * lam[:, -1:]) & (np.arange(J) >= J - rank)
    shrink = jnp.where(alive, 1 / (1 - s + s * lam), 1.0)
    gradient = g[..., None] + multiply(d, m[..., None])
    along = jnp.where(alive, multiply(V.swapaxes(1, 2), gradient)[..., 0], 0.0)
    change = multiply((V * (s * shrink * along)[:, None]).sum(axis=-1)[:, None], d)[:, 0]
    moved = multiply(multiply(V * jnp.sqrt(shrink)[:, None], V.swapaxes(1, 2)), d)
    moved = moved - moved.mean(axis=1, keepdims=True)
    size = (d**2).sum(axis=(1, 2)) + (m**2).sum(axis=1)
    size = size - (moved**2).sum(axis=(1, 2)) - ((m - change) ** 2).sum(axis=1)
    misfit = jnp.where(alive, lam - 1, 0.0)
    step = Step(
        gain=0.5 * (size + jnp.log(shrink).sum(axis=1)),
        misfit=multiply(V * misfit[:, None], V.swapaxes(1, 2)),
        mean_residual=jnp.linalg.norm(along * jnp.sqrt(shrink), axis=1),
        covariance_residual=jnp.abs(lam[:, -rank:] - 1).max(axis=1),
        rank=rank,
    )
    particles = ensemble.deviations.at[:, index].set(moved.swapaxes(0, 1) * np.sqrt(J - 1))
    return Ensemble(ensemble.mean.at[index].set(m - change), particles), step
