"""One step of the network flow, docs/maths.md (21), for one part, and checks of its arguments.

Compiled functions sum the quantities of (20) over blocks of rows:

compute_terms  E[·] of (20), a row's logit taken as Gaussian
sum_part       ZᵀRZ and Zᵀ(c E[y] − t), with deviations in one part only, the rest at the mean
measure_bend   how far the network is from a linear one within the ensemble's spread

s follows Aitken's relaxation of S − I, as in `flow.py`, and is halved as long as the evidence
bound, (4) with log det over the spanned directions, would fall.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.checks import (
    check_counts,
    check_int,
    check_numbers,
    check_prior_variance,
    check_targets,
    fail,
)
from lastlayer.compiling import Array, Float, Int
from lastlayer.logits import average_by_quadrature
from lastlayer.rows import Block, cut_into_blocks

FIRST, GROWTH, SHRINKAGE, LARGEST = 0.5, 1.5, 0.5, 0.95  # first s, its changes, and largest s
# Fall of the bound that is tolerated, in nats per direction. Where the network is not linear, S
# neglects its second derivative, and (21) converges near the bound's maximum but not at it: the
# bound is there to refuse long steps, not the last short ones.
SLACK = 0.1
TRIES = 5  # attempts at s, each half the one before; after them a part does not move this round
ROUND_OFF = 1e-5  # relative to the largest eigenvalue; smaller ones are d's null space in float32

multiply = partial(jnp.matmul, precision="highest")


class NetworkRows(NamedTuple):
    """Rows in equal blocks; the last is filled up with rows that count zero times."""

    inputs: Any  # a tree of (blocks, rows, …)
    counts: Float[Array, "blocks rows"]
    targets: Float[Array, "blocks K rows"]


class Prior(NamedTuple):
    """Coordinates in which the prior is N(0, I)."""

    mean: Float[Array, " D"]
    scale: Float[Array, " D"]


class Terms(NamedTuple):
    """Averages over an ensemble for each row and output."""

    error: Float[Array, "blocks K rows"]  # c E[y] − t
    weight: Float[Array, "blocks K rows"]  # R
    log_likelihood: Float[Array, " K"]


class NetworkProblem(NamedTuple):
    """The network, its rows and the prior, which stay the same during a run."""

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
    """The effect of (21) on one part, separately for each output where the part has outputs."""

    gain: Float[Array, " B"]  # of the evidence bound, without the likelihood
    misfit: Float[Array, "B J J"]  # S − I over the spanned directions, before the step
    mean_residual: Float[Array, " B"]  # distance to go, in posterior standard deviations
    covariance_residual: Float[Array, " B"]  # largest relative error of a spanned variance
    rank: int | Int[Array, ""]  # spanned directions


@jax.jit
def compute_terms(given: NetworkProblem, ensemble: Ensemble) -> Terms:
    """Return errors, weights and log-likelihood of all rows, by quadrature over each logit."""

    def sum_block(block: NetworkRows) -> tuple[Array, Array, Array]:
        a = given.compute_logits(block.inputs, ensemble.mean + ensemble.deviations)
        no_features = jnp.zeros((len(block.counts), 0))
        plain = Block(no_features, block.counts, block.targets, jnp.zeros_like(block.counts))
        found = average_by_quadrature(a.mean(axis=0).T, a.var(axis=0, ddof=1).T, plain)
        return found.error, block.counts * found.slope, found.log_likelihood.sum(axis=1)

    error, weight, log_likelihood = jax.lax.map(sum_block, given.rows)
    return Terms(error, weight, log_likelihood.sum(axis=0))


@jax.jit
def sum_part(
    given: NetworkProblem, ensemble: Ensemble, index: Int[Array, "B size"], terms: Terms
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """Return ZᵀRZ and Zᵀ(c E[y] − t), maths (20), with only this part spread; B is 1 or K."""
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
    """Project Z on what is linear in d; nothing changes where d spans all directions."""
    if deviations.shape[2] >= len(deviations) - 1:
        return S, g
    Q, _ = jnp.linalg.qr(deviations.swapaxes(0, 1))
    onto = multiply(Q, Q.swapaxes(1, 2))
    return multiply(multiply(onto, S), onto), multiply(onto, g[..., None])[..., 0]


@jax.jit
def measure_bend(given: NetworkProblem, ensemble: Ensemble) -> Float[Array, ""]:
    """Return how far mean f(θ) is from f(m), in sd of f: 0 for a linear network."""

    def sum_block(block: NetworkRows) -> tuple[Array, Array]:
        a = given.compute_logits(block.inputs, ensemble.mean + ensemble.deviations)
        at_mean = given.compute_logits(block.inputs, ensemble.mean)
        weight = block.counts[:, None] * jax.nn.sigmoid(at_mean) * jax.nn.sigmoid(-at_mean)
        shift = (a.mean(axis=0) - at_mean) ** 2
        return (weight * shift).sum(), (weight * a.var(axis=0, ddof=1)).sum()

    shift, spread = (found.sum() for found in jax.lax.map(sum_block, given.rows))
    return jnp.sqrt(shift / jnp.maximum(spread, 1e-30))


def advance(
    given: NetworkProblem,
    ensemble: Ensemble,
    terms: Terms,
    index: np.ndarray,
    s: np.ndarray,
    before: np.ndarray | None,
) -> tuple[Ensemble, Terms, np.ndarray, Step, int]:
    """Move one part by (21); where the bound would fall, shorten s, and in the end do not move."""
    sums = _project(*sum_part(given, ensemble, index, terms), ensemble.deviations[:, index])
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
    """Return where the evidence bound would fall by more than `SLACK` nats per direction."""
    old, new = (np.asarray(x.log_likelihood, np.float64) for x in (terms, there))
    if len(step.gain) == 1:
        old, new = old.sum(keepdims=True), new.sum(keepdims=True)
    slack = 16 * np.finfo(np.float32).eps * np.abs(old) + SLACK * np.asarray(step.rank)
    return np.asarray(~(new + np.asarray(step.gain) >= old - slack))  # NaN is lower too


def _relax(s: np.ndarray, before: np.ndarray, misfit: np.ndarray) -> np.ndarray:
    """Return the s that would have made S − I vanish if it changed linearly, within limits."""
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
    """Apply maths (21) to one part, and return how far it was from the fixed point."""
    J = len(ensemble.deviations)
    d = ensemble.deviations[:, index].swapaxes(0, 1) / np.sqrt(J - 1)  # B J size
    m, s = ensemble.mean[index], jnp.asarray(damping, d.dtype)[:, None]
    lam, V = jnp.linalg.eigh(S + multiply(d, d.swapaxes(1, 2)))
    # the null space of d must not grow: it holds only round-off
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


def check_prior(mean: Any, variance: Any) -> Prior:
    """Return a diagonal Gaussian about a flat vector of weights."""
    m = check_numbers(mean, "prior_mean")
    if m.ndim != 1 or not len(m):
        fail(f"prior_mean must be the trained weights as one flat vector (D,), got {m.shape}.")
    v = check_prior_variance(variance, len(m), np.dtype("float32"))
    return Prior(jnp.asarray(m, jnp.float32), jnp.asarray(np.sqrt(v), jnp.float32))


def check_parts(parts: Sequence[Any] | None, D: int, K: int) -> list[np.ndarray]:
    """Return the indices of each part as (B, size), with B = 1 where all outputs read it."""
    if parts is None:
        return [np.arange(D)[None]]
    indices = [np.atleast_2d(part) for part in parts]
    if not indices or any(part.shape[0] not in (1, K) or not part.size for part in indices):
        fail(f"parts must be index arrays, (weights,), or (outputs, weights) with {K} outputs.")
    every = np.concatenate([part.ravel() for part in indices])
    if not np.issubdtype(every.dtype, np.integer) or every.min() < 0 or every.max() >= D:
        fail(f"parts must hold whole numbers from 0 to {D - 1}, the places of weights.")
    if len(np.unique(every)) < len(every):
        fail("parts must not overlap: a weight is in one part, once.")
    return indices


def check_rows(
    network: Any, inputs: Any, targets: Any, counts: Any, prior: Prior, J: int, budget: int
) -> NetworkRows:
    """Return the rows in blocks, after checks of inputs, targets, counts and the logits' shape."""
    leaves = jax.tree.leaves(inputs)
    if not leaves or len({np.shape(leaf)[:1] for leaf in leaves}) > 1 or not np.ndim(leaves[0]):
        fail("inputs must be arrays with the same number of rows along their first axis.")
    N = len(leaves[0])
    c = check_counts(counts, N, np.dtype("float32"))
    t = check_targets(targets, c, softmax=False)
    shape = jax.eval_shape(network, prior.mean, inputs).shape
    if shape != t.shape:
        fail(f"logits must return (rows, outputs), here {t.shape}, got {shape}.")
    size = max(1, min(N, check_int(budget, "memory_budget", least=1) // (12 * t.shape[1] * J)))
    blocks = -(-N // size)
    size = -(-N // blocks)

    def cut(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        filled = jnp.concatenate([leaf, jnp.repeat(leaf[:1], blocks * size - N, axis=0)])
        return filled.reshape(blocks, size, *leaf.shape[1:])

    c = cut_into_blocks(c[:, None], blocks, size)[..., 0]
    t = cut_into_blocks(t, blocks, size).swapaxes(1, 2)
    return NetworkRows(jax.tree.map(cut, inputs), jnp.asarray(c), jnp.asarray(t))
