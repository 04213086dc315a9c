"""Network flow: the exact flow for all weights of a network, without a derivative of it.

Any network is a function f from its D weights to the logits of all rows and outputs. An ensemble
θ_j = m + √(J−1) d_j about the trained weights m₀ follows (1) of `flow.py`, with the deviations of
the network's own logits in the place of Ψᵀd:

    z_j = ( f(θ_j) − mean f(θ) ) / √(J−1)                                        rows × outputs
    S = Zᵀ R Z + dᵀ P₀⁻¹ d = V Λ Vᵀ,     g = Zᵀ (c E[y] − t) + dᵀ P₀⁻¹ (m − m₀)
    m ← m − d V diag(s / (1−s+sΛ)) Vᵀ g          d ← d V diag((1−s+sΛ)^(−½)) Vᵀ              (1)

with s = 1 − e^(−Δτ) and R = c E[y(1−y)]. A row's logit is taken as Gaussian with the ensemble's
mean and variance, so E[·] is a quadrature (`expectations`). Where there are more particles than
weights, Z is what a straight line in d explains of it (least squares): the rest is the network's
bend. Of a network linear in its weights, J > D particles give exactly what `exact_flow` does.

An ensemble cannot leave the J − 1 directions it starts in. The data then tell the ensemble at most
J − 1 things where they could tell D, and since each of those directions is hit by all data at once,
the spread collapses: Σ R var(logit) ends at J − 1 instead of at D. Dropping entries of d, the
article's cure, turns the directions but lifts that sum by 1/(1−ρ) only, so we localise: weights are
cut into parts, one after the other moved by (1) with the deviations that this part alone causes.
Each part has J − 1 directions of its own, and a part read by single outputs (a last layer) has them
for every output, because S and g then fall apart by output. Between parts the posterior is taken as
independent. The price is 2J passes through the network for each part.

s is chosen for each part (and output, where a part has one) by Aitken's relaxation of S − I, as in
`flow.py`, from ½ on and at most 0.95; it is halved as long as the evidence bound, (2) of `flow.py`
with log det over the spanned directions, would fall by more than `SLACK` a direction. Particles
start close together, because far from the trained weights differences of logits say nothing of
slopes near them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from equivocal.sampling.bernoulli import by_quadrature
from equivocal.sampling.exact_flow import simplex
from equivocal.sampling.inputs import checked_int, checked_positive
from equivocal.sampling.network_posterior import NetworkPosterior, summed_up
from equivocal.sampling.network_rows import (
    NetworkRows,
    Prior,
    check_outputs,
    checked_parts,
    checked_prior,
    checked_rows,
)
from equivocal.sampling.rows import Block
from equivocal.sampling.shapes import Array, Float, Int

__all__ = ["sample_network"]

NUM_STEPS = 60
START = 0.05  # of the prior's standard deviation
FIRST, GROWTH, SHRINKAGE, LARGEST = 0.5, 1.5, 0.5, 0.95  # of s
# Where the network bends, S leaves out its second derivative and (1) comes to rest a little beside
# the bound's maximum: the bound is there to refuse leaps, not the last steps. Nats per direction.
SLACK = 0.1
TRIES = 5  # attempts at s, each half the one before; then a part stays where it is for a round
ROUND_OFF = 1e-5  # of the largest eigenvalue; directions below are d's own null space in float32
MEMORY = 256 << 20  # bytes for the logits of one block of rows

Logits = Callable[[Any, Any], Any]  # weights (D,), inputs of n rows: (n, K)


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


class Step(NamedTuple):
    """What (1) did to one part, output by output where it has them."""

    gain: Float[Array, " B"]  # of the evidence bound, but for the likelihood
    misfit: Float[Array, "B J J"]  # S − I over the spanned directions, before the step
    mean_residual: Float[Array, " B"]  # distance to go, in posterior standard deviations
    covariance_residual: Float[Array, " B"]  # largest relative error of a spanned variance
    rank: int | Int[Array, ""]  # spanned directions


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
    counts : (N,), optional
        How often each row was seen.
    parts : sequence of whole-number arrays, optional
        Localisation: (D_b,) weights that move together, or (K, D_k) where row k is read by output
        k alone. A weight in no part stays as trained. By default all weights are one part.
    num_particles : int
        J. A part with fewer weights than J loses nothing.
    num_steps : int
        Rounds through all parts, at most.
    tolerance : float
        On means (in posterior sd) and on variances (relative) in the spanned directions.
    seed : int
        Of the directions that the ensemble starts in.
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
    prior = checked_prior(prior_mean, prior_variance)
    indices = checked_parts(parts, len(prior.mean))
    is_tree = isinstance(logits, Partial)
    network = logits if is_tree else Partial(logits)  # type: ignore[no-untyped-call]
    rows = checked_rows(network, inputs, targets, counts, prior, J, memory_budget)
    check_outputs(indices, rows)
    checked_int(seed, "seed", least=0, most=2**32 - 1)
    ensemble = _start(seed, J, indices, len(prior.mean))
    given = Given(network, rows, prior)
    ensemble, record = _flow(given, ensemble, indices, num_steps, tolerance)
    bend = float(_bend(*given, ensemble))
    return NetworkPosterior(
        particles=np.asarray(prior.mean + prior.scale * (ensemble.mean + ensemble.deviations)),
        mean=np.asarray(prior.mean + prior.scale * ensemble.mean),
        logits=network,
        info=summed_up(record, indices, J, bend, tolerance, perf_counter() - began),
    )


def _flow(
    given: Given, ensemble: Ensemble, indices: list[np.ndarray], num_steps: int, tolerance: float
) -> tuple[Ensemble, dict[str, Any]]:
    """Round after round through the parts; the record says how it went."""
    J, parts = len(ensemble.deviations), len(indices)
    s = [np.full(len(index), FIRST) for index in indices]
    before: list[np.ndarray | None] = [None] * parts
    terms = _expectations(*given, ensemble)
    passes, refused, rounds = J, 0, 0
    time, worst = np.zeros(parts), np.full((parts, 2), np.inf)
    while rounds < num_steps and (worst > tolerance).any():
        rounds += 1
        for b, index in enumerate(indices):
            ensemble, terms, s[b], taken, tries = _advance(
                given, ensemble, terms, index, s[b], before[b]
            )
            before[b] = np.asarray(taken.misfit)
            passes, refused = passes + J * (1 + tries), refused + tries - 1
            time[b] -= np.log1p(-s[b]).mean()
            s[b] = np.where(s[b] > 0, s[b], FIRST)
            worst[b] = taken.mean_residual.max(), taken.covariance_residual.max()
    record = {
        "steps": rounds,
        "time": time,
        "refused": refused,
        "passes": passes,
        "residuals": worst,
    }
    return ensemble, record


def _advance(
    given: Given,
    ensemble: Ensemble,
    terms: Terms,
    index: np.ndarray,
    s: np.ndarray,
    before: np.ndarray | None,
) -> tuple[Ensemble, Terms, np.ndarray, Step, int]:
    """One part moved by (1), with a shorter s where the bound would fall, and none in the end."""
    sums = _explained(*_sums(*given, ensemble, index, terms), ensemble.deviations[:, index])
    if before is not None:
        _, here = _moved(ensemble, index, *sums, s)
        s = _relaxed(s, before, np.asarray(here.misfit))
    for tries in range(1, TRIES + 2):
        moved, taken = _moved(ensemble, index, *sums, s)
        there = _expectations(*given, moved)
        falls = _falls(taken, terms, there)
        if not falls.any():
            break
        s = np.where(falls, SHRINKAGE * s if tries < TRIES else 0.0, s)
    return moved, there, s, taken, tries


def _falls(step: Step, terms: Terms, there: Terms) -> np.ndarray:
    """Where the evidence bound would fall by more than `SLACK` nats a direction."""
    old, new = (np.asarray(x.log_likelihood, np.float64) for x in (terms, there))
    if len(step.gain) == 1:
        old, new = old.sum(keepdims=True), new.sum(keepdims=True)
    slack = 16 * np.finfo(np.float32).eps * np.abs(old) + SLACK * np.asarray(step.rank)
    return np.asarray(~(new + np.asarray(step.gain) >= old - slack))  # NaN is lower too


def _relaxed(s: np.ndarray, before: np.ndarray, misfit: np.ndarray) -> np.ndarray:
    """The s that would have cancelled the change of S − I, within bounds."""
    change = misfit - before
    best = -s * (before * change).sum(axis=(1, 2)) / np.maximum((change**2).sum(axis=(1, 2)), 1e-30)
    clipped = np.clip(best, SHRINKAGE * s, GROWTH * s)
    return np.minimum(np.where(best > 0, clipped, GROWTH * s), LARGEST)


def _start(seed: int, J: int, indices: list[np.ndarray], D: int) -> Ensemble:
    """Close to the trained weights, and equally far in all directions a part can have.

    Plain random numbers would nearly miss some: the least singular value of 104 × 101 of them is a
    hundredth of the largest, and what starts as round-off does not grow.
    """
    deviations = np.zeros((J, D), np.float32)
    for number, index in enumerate(indices):
        rng, (B, size) = np.random.default_rng([seed, number]), index.shape
        if size < J:
            noise = rng.normal(size=(B, J, size))
            d, _ = np.linalg.qr(noise - noise.mean(axis=1, keepdims=True))
            d = d * np.sqrt(J - 1)
        else:
            frame, _ = np.linalg.qr(rng.normal(size=(B, size, J - 1)))
            d = np.matmul(frame, simplex(J)).swapaxes(1, 2) * np.sqrt(size / (J - 1))
        deviations[:, index] = START * d.swapaxes(0, 1)
    return Ensemble(jnp.zeros(D), jnp.asarray(deviations))


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
def _moved(
    ensemble: Ensemble,
    index: Int[Array, "B size"],
    S: Float[Array, "B J J"],
    g: Float[Array, "B J"],
    damping: Float[Array, " B"],
) -> tuple[Ensemble, Step]:
    """(1) for one part, and how far it was from rest."""
    J = len(ensemble.deviations)
    multiply = partial(jnp.matmul, precision="highest")
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


@jax.jit
def _bend(network: Any, rows: NetworkRows, prior: Prior, ensemble: Ensemble) -> Float[Array, ""]:
    """How far mean f(θ) is from f(m), in standard deviations of f: 0 for a linear network."""

    def of_block(block: NetworkRows) -> tuple[Array, Array]:
        a = _logits(network, block.inputs, prior, ensemble.mean + ensemble.deviations)
        at_mean = network(prior.mean + prior.scale * ensemble.mean, block.inputs)
        weight = block.counts[:, None] * jax.nn.sigmoid(at_mean) * jax.nn.sigmoid(-at_mean)
        shift = (a.mean(axis=0) - at_mean) ** 2
        return (weight * shift).sum(), (weight * a.var(axis=0, ddof=1)).sum()

    shift, spread = (found.sum() for found in jax.lax.map(of_block, rows))
    return jnp.sqrt(shift / jnp.maximum(spread, 1e-30))
