"""Network flow: the exact flow for all weights of a network, without a derivative of it.

Any network is a function f from its D weights to the logits of all rows and outputs. An ensemble
θ_j = m + √(J−1) d_j about the trained weights m₀ follows (1) of `flow.py`, with the deviations of
the network's own logits in the place of Ψᵀd:

    z_j = ( f(θ_j) − mean f(θ) ) / √(J−1)                                        rows × outputs
    S = Zᵀ R Z + dᵀ P₀⁻¹ d = V Λ Vᵀ,     g = Zᵀ (c E[y] − t) + dᵀ P₀⁻¹ (m − m₀)
    m ← m − d V diag(s / (1−s+sΛ)) Vᵀ g          d ← d V diag((1−s+sΛ)^(−½)) Vᵀ              (1)

with s = 1 − e^(−Δτ) and R = c E[y(1−y)]. A row's logit is taken as Gaussian with the ensemble's
mean and variance, so E[·] is a quadrature (`expectations`): of a network that is linear in its
weights, J > D particles give exactly what `exact_flow` gives.

An ensemble cannot leave the J − 1 directions it starts in. The data then tell the ensemble at most
J − 1 things where they could tell D, and since each of those directions is hit by all data at once,
the spread collapses: Σ R var(logit) ends at J − 1 instead of at D. Dropping entries of d, the
article's cure, turns the directions but lifts that sum by 1/(1−ρ) only, so we localise: weights are
cut into parts, one after the other moved by (1) with the deviations that this part alone causes.
Each part has J − 1 directions of its own, and a part read by single outputs (a last layer) has them
for every output, because S and g then fall apart by output. Between parts the posterior is taken as
independent. The price is 2J passes through the network for each part.

s is chosen by a line search on the evidence bound, (2) of `flow.py` with log det over the spanned
directions: it starts at ½, grows by half after a step that was taken, to 0.95 at most, and is
halved until the bound does not fall. Particles start close together, because far from the trained
weights differences of logits say nothing of slopes near them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.bernoulli import by_quadrature
from equivocal.sampling.inputs import (
    checked_counts,
    checked_int,
    checked_numbers,
    checked_positive,
    checked_prior_variance,
    checked_targets,
    fail,
)
from equivocal.sampling.network_posterior import NetworkPosterior, summed_up
from equivocal.sampling.rows import Block
from equivocal.sampling.shapes import Array, Float, Int, PRNGKey

__all__ = ["sample_network"]

NUM_STEPS = 60
START = 0.05  # of the prior's standard deviation
FIRST, GROWTH, LARGEST, SMALLEST = 0.5, 1.5, 0.95, 1e-3  # of s
ROUND_OFF = 1e-5  # of the largest eigenvalue; directions below are d's own null space in float32
MEMORY = 256 << 20  # bytes for the logits of one block of rows

Logits = Callable[[Any, Any], Any]  # weights (D,), inputs of n rows: (n, K)


class NetworkRows(NamedTuple):
    """Rows in equal blocks; the last is filled up with rows that count zero times."""

    inputs: Any  # a tree of (blocks, rows, …)
    counts: Float[Array, "blocks rows"]
    targets: Float[Array, "blocks K rows"]


class Terms(NamedTuple):
    """What the rows say at an ensemble."""

    error: Float[Array, "blocks K rows"]  # c E[y] − t
    weight: Float[Array, "blocks K rows"]  # R
    log_likelihood: Float[Array, " K"]


class Prior(NamedTuple):
    """Coordinates in which the prior is N(0, I)."""

    mean: Float[Array, " D"]
    scale: Float[Array, " D"]


class Ensemble(NamedTuple):
    """All that the next step reads, but for the terms of the rows."""

    mean: Float[Array, " D"]
    deviations: Float[Array, "J D"]  # θ_j − m
    log_det: Float[Array, ""]  # of P over the spanned directions, up to a constant


class Residuals(NamedTuple):
    """How far a part is from its fixed point."""

    mean: Float[Array, ""]  # in posterior standard deviations, of the worst output
    covariance: Float[Array, ""]  # largest relative error of a spanned variance


def sample_network(
    logits: Logits,
    inputs: Any,
    targets: Any,
    prior_mean: Any,
    *,
    prior_variance: Any = 1.0,
    counts: Any = None,
    parts: Sequence[Any] | None = None,
    num_particles: int = 128,
    num_steps: int = NUM_STEPS,
    tolerance: float = 0.05,
    seed: int = 0,
    memory_budget: int = MEMORY,
) -> NetworkPosterior:
    """Posterior over the weights of a network with yes/no outputs.

    Parameters
    ----------
    logits : callable
        `logits(weights, inputs)` maps a flat (D,) vector and n rows of inputs to (n, K), in JAX.
        A `jax.tree_util.Partial` may bring arrays of its own without being compiled anew.
    inputs : array or tree of arrays
        N rows along the first axis of each.
    targets : (N, K)
        As for `sample_posterior`: 0/1, fractions, or sums over repetitions with `counts`.
    prior_mean : (D,)
        The trained weights.
    prior_variance : number or (D,)
        About them.
    parts : sequence of whole-number arrays, optional
        Localisation: (D_b,) weights that move together, or (K, D_k) where row k is read by output
        k alone. A weight in no part stays as trained. By default all weights are one part.
    num_particles : int
        J. A part with fewer weights than J loses nothing.
    num_steps : int
        Rounds through all parts, at most.
    tolerance : float
        On means (in posterior sd) and on variances (relative) in the spanned directions.
    memory_budget : int
        Bytes for logits held at once; rows are taken in blocks that fit.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    >>> found = sample_network(lambda w, x: x @ w[:, None], x, x[:, 0] > 0, np.zeros(3))
    >>> found.particles.shape, found.info.converged
    ((128, 3), True)
    """
    began = perf_counter()
    J = checked_int(num_particles, "num_particles", least=3)
    checked_int(num_steps, "num_steps", least=1)
    checked_positive(tolerance, "tolerance")
    prior = _checked_prior(prior_mean, prior_variance)
    indices = _checked_parts(parts, len(prior.mean))
    network = logits if isinstance(logits, jax.tree_util.Partial) else jax.tree_util.Partial(logits)
    rows = _checked_rows(network, inputs, targets, counts, prior, J, memory_budget)
    for index in indices:
        if len(index) not in (1, rows.targets.shape[1]):
            fail(
                f"a part has shape (weights,), or one row for each of the {rows.targets.shape[1]} "
                f"outputs, got {index.shape}."
            )
    key = jax.random.key(checked_int(seed, "seed", least=0, most=2**32 - 1))
    ensemble = _start(key, J, indices, len(prior.mean))
    ensemble, record = _flow(network, rows, prior, ensemble, indices, num_steps, tolerance)
    bend = float(_bend(network, rows, prior, ensemble))
    return NetworkPosterior(
        particles=np.asarray(prior.mean + prior.scale * (ensemble.mean + ensemble.deviations)),
        mean=np.asarray(prior.mean + prior.scale * ensemble.mean),
        logits=network,
        info=summed_up(record, indices, J, bend, tolerance, perf_counter() - began),
    )


def _flow(
    network: Any,
    rows: NetworkRows,
    prior: Prior,
    ensemble: Ensemble,
    indices: list[np.ndarray],
    num_steps: int,
    tolerance: float,
) -> tuple[Ensemble, dict[str, Any]]:
    """Round after round through the parts; the record says how it went."""
    J, s = len(ensemble.deviations), [FIRST] * len(indices)
    terms = _expectations(network, rows, prior, ensemble)
    bound, passes, refused = _bound(ensemble, terms), J, 0
    time, worst = np.zeros(len(indices)), np.full((len(indices), 2), np.inf)
    for step in range(1, num_steps + 1):
        for b, index in enumerate(indices):
            S, g = _sums(network, rows, prior, ensemble, index, terms)
            passes += J
            while True:
                moved, residuals = _moved(ensemble, index, S, g, s[b])
                there = _expectations(network, rows, prior, moved)
                passes += J
                reached = _bound(moved, there)
                # round-off of a sum of many terms in float32, as in `flow`
                if reached >= bound - 16 * np.finfo(np.float32).eps * abs(bound):
                    ensemble, terms, bound = moved, there, reached
                    time[b] -= np.log1p(-s[b])
                    s[b] = min(GROWTH * s[b], LARGEST)
                    break
                refused += 1
                s[b] /= 2
                if s[b] < SMALLEST:
                    s[b] = FIRST  # this part stays for now; others may free it
                    break
            worst[b] = float(residuals.mean), float(residuals.covariance)
        if (worst <= tolerance).all():
            break
    record = {"steps": step, "time": time, "refused": refused, "passes": passes, "residuals": worst}
    return ensemble, record


def _bound(ensemble: Ensemble, terms: Terms) -> float:
    """The evidence bound; summed in double precision, since steps are judged by its change."""
    J = len(ensemble.deviations)
    spread = float((ensemble.deviations**2).sum()) / (J - 1) + float((ensemble.mean**2).sum())
    likely = float(np.asarray(terms.log_likelihood, np.float64).sum())
    bound = likely - 0.5 * spread + 0.5 * float(ensemble.log_det)
    return bound if np.isfinite(bound) else -np.inf


def _start(key: PRNGKey, J: int, indices: list[np.ndarray], D: int) -> Ensemble:
    """Close to the trained weights, spread over the weights of the parts alone."""
    moving = np.zeros(D, bool)
    for index in indices:
        moving[index] = True
    noise = jax.random.normal(key, (J, D)) * moving
    return Ensemble(jnp.zeros(D), START * (noise - noise.mean(axis=0)), jnp.zeros(()))


def _logits(network: Any, inputs: Any, prior: Prior, particles: Float[Array, "J D"]) -> Any:
    """(J, rows, K) of one block."""
    return jax.vmap(lambda u: network(prior.mean + prior.scale * u, inputs))(particles)


@jax.jit
def _expectations(network: Any, rows: NetworkRows, prior: Prior, ensemble: Ensemble) -> Terms:
    def of_block(block: NetworkRows) -> tuple[Array, Array, Array]:
        a = _logits(network, block.inputs, prior, ensemble.mean + ensemble.deviations)
        no_features = jnp.zeros((len(block.counts), 0))
        plain = Block(no_features, block.counts, block.targets, jnp.zeros_like(block.counts))
        found = by_quadrature(a.mean(axis=0).T, a.var(axis=0, ddof=1).T, plain)
        return found.error, block.counts * found.slope, found.log_likelihood.sum(axis=1)

    error, weight, log_likelihood = jax.lax.map(of_block, rows)
    return Terms(error, weight, log_likelihood.sum(axis=0))


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
def _moved(
    ensemble: Ensemble,
    index: Int[Array, "B size"],
    S: Float[Array, "B J J"],
    g: Float[Array, "B J"],
    s: float | Float[Array, ""],
) -> tuple[Ensemble, Residuals]:
    """(1) for one part, and how far it was from rest."""
    J = len(ensemble.deviations)
    multiply = partial(jnp.matmul, precision="highest")
    d = ensemble.deviations[:, index].swapaxes(0, 1) / np.sqrt(J - 1)  # B J size
    m = ensemble.mean[index]
    lam, V = jnp.linalg.eigh(S + multiply(d, d.swapaxes(1, 2)))
    # the null space of d must not grow: what it holds is round-off
    alive = lam > ROUND_OFF * lam[:, -1:]
    shrink = jnp.where(alive, 1 / (1 - s + s * lam), 1.0)
    gradient = g[..., None] + multiply(d, m[..., None])
    along = jnp.where(alive, multiply(V.swapaxes(1, 2), gradient)[..., 0], 0.0)
    change = multiply((V * (s * shrink * along)[:, None]).sum(axis=-1)[:, None], d)[:, 0]
    d = multiply(multiply(V * jnp.sqrt(shrink)[:, None], V.swapaxes(1, 2)), d)
    d = (d - d.mean(axis=1, keepdims=True)) * np.sqrt(J - 1)
    spanned = lam[:, -min(J - 1, index.shape[1]) :]
    moved = Ensemble(
        ensemble.mean.at[index].set(m - change),
        ensemble.deviations.at[:, index].set(d.swapaxes(0, 1)),
        ensemble.log_det + jnp.log(shrink).sum(),
    )
    newton = jnp.linalg.norm(along * jnp.sqrt(shrink), axis=1)
    return moved, Residuals(newton.max(), jnp.abs(spanned - 1).max())


@jax.jit
def _bend(
    network: Any, rows: NetworkRows, prior: Prior, ensemble: Ensemble
) -> Float[Array, ""]:
    """How far mean f(θ) is from f(m), in standard deviations of f: 0 for a linear network."""

    def of_block(block: NetworkRows) -> tuple[Array, Array]:
        a = _logits(network, block.inputs, prior, ensemble.mean + ensemble.deviations)
        at_mean = network(prior.mean + prior.scale * ensemble.mean, block.inputs)
        weight = block.counts[:, None] * jax.nn.sigmoid(at_mean) * jax.nn.sigmoid(-at_mean)
        shift = (a.mean(axis=0) - at_mean) ** 2
        return (weight * shift).sum(), (weight * a.var(axis=0, ddof=1)).sum()

    shift, spread = (found.sum() for found in jax.lax.map(of_block, rows))
    return jnp.sqrt(shift / jnp.maximum(spread, 1e-30))


def _checked_prior(mean: Any, variance: Any) -> Prior:
    m = checked_numbers(mean, "prior_mean")
    if m.ndim != 1 or not len(m):
        fail(f"prior_mean must be the trained weights as one flat vector (D,), got {m.shape}.")
    v = checked_prior_variance(variance, len(m), np.dtype("float32"))
    return Prior(jnp.asarray(m, jnp.float32), jnp.asarray(np.sqrt(v), jnp.float32))


def _checked_parts(parts: Sequence[Any] | None, D: int) -> list[np.ndarray]:
    """Each as (B, size), B = 1 where all outputs read it."""
    if parts is None:
        return [np.arange(D)[None]]
    indices = [np.asarray(part) for part in parts]
    if not indices or any(part.ndim not in (1, 2) or not part.size for part in indices):
        fail("parts must be a list of index arrays, (weights,) or (outputs, weights), none empty.")
    every = np.concatenate([part.ravel() for part in indices])
    if not np.issubdtype(every.dtype, np.integer) or every.min() < 0 or every.max() >= D:
        fail(f"parts must hold whole numbers from 0 to {D - 1}, the places of weights.")
    if len(np.unique(every)) < len(every):
        fail("parts must not overlap: a weight is in one part, once.")
    return [np.atleast_2d(part) for part in indices]


def _checked_rows(
    network: Any, inputs: Any, targets: Any, counts: Any, prior: Prior, J: int, budget: int
) -> NetworkRows:
    """Everything that can be wrong with the data, said before anything runs."""
    leaves = jax.tree.leaves(inputs)
    if not leaves or len({np.shape(leaf)[:1] for leaf in leaves}) > 1 or not np.ndim(leaves[0]):
        fail("inputs must be arrays with the same number of rows along their first axis.")
    N = len(leaves[0])
    c = checked_counts(counts, N, np.dtype("float32"))
    t = checked_targets(targets, c, softmax=False)
    shape = jax.eval_shape(network, prior.mean, inputs).shape
    if shape != t.shape:
        fail(f"logits must return (rows, outputs), here {t.shape}, got {shape}.")
    size = max(1, min(N, checked_int(budget, "memory_budget", least=1) // (12 * t.shape[1] * J)))
    blocks = -(-N // size)
    size = -(-N // blocks)

    def cut(leaf: Any) -> Any:
        leaf = jnp.asarray(leaf)
        filled = jnp.concatenate([leaf, jnp.repeat(leaf[:1], blocks * size - N, axis=0)])
        return filled.reshape(blocks, size, *leaf.shape[1:])

    c = np.concatenate([c, np.zeros(blocks * size - N, c.dtype)]).reshape(blocks, size)
    t = np.concatenate([t, np.zeros((blocks * size - N, t.shape[1]), t.dtype)])
    t = t.reshape(blocks, size, -1).swapaxes(1, 2)
    return NetworkRows(jax.tree.map(cut, inputs), jnp.asarray(c), jnp.asarray(t))
