"""Network flow: the exact flow for all weights of a network, without derivatives of the network.

Any network is a function f from its D weights to the logits of all rows and outputs. An ensemble
θ_j = m + √(J−1) d_j about the trained weights m₀ follows maths.md (15), with the deviations of
the network's own logits in place of Ψd:

    z_j = ( f(θ_j) − mean f(θ) ) / √(J−1)                                        rows × outputs
    S = Zᵀ R Z + dᵀ P₀⁻¹ d = V Λ Vᵀ,     dᵀg̃ = Zᵀ (c E[y] − t) + dᵀ P₀⁻¹ (m − m₀)           (20)
    m ← m − d V diag(s / (1−s+sΛ)) Vᵀ dᵀg̃        d ← d V diag((1−s+sΛ)^(−½)) Vᵀ             (21)

with s = 1 − e^(−Δτ) and R = c E[y(1−y)]. A row's logit is taken as Gaussian with the ensemble's
mean and variance, so E[·] is a quadrature (`expectations`). Where there are more particles than
weights, Z is replaced by its least-squares fit that is linear in d: the rest is the network's
nonlinearity. For a network linear in its weights, J > D particles give exactly the result of
`variational`.

An ensemble cannot leave the J − 1 directions it starts in. It can then represent what the data tell
about J − 1 directions instead of D, and since all data act on each of these directions, the spread
collapses: Σ R var(logit) ends at J − 1 instead of at D. Dropping entries of d, the paper's
remedy, turns the directions but raises that sum by 1/(1−ρ) only, so we localise: weights are
divided into parts, moved one after another by (21) with the deviations that this part alone causes.
Each part has J − 1 directions of its own, and a part read by single outputs (a last layer) has them
for every output, because S and g are then separate for each output. The posterior is taken as
independent between parts. The price is 2J passes through the network for each part.

s is chosen for each part (and output, where a part has one) by Aitken's relaxation of S − I, as in
`flow.py`, beginning with ½ and at most 0.95; it is halved as long as the evidence bound,
maths.md (4) with log det over the spanned directions, would fall by more than `SLACK` per
direction. These constants affect the number of steps. Particles start close together, because far
from the trained weights differences of logits do not tell the slopes near them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from lastlayer.checks import (
    check_counts,
    check_int,
    check_numbers,
    check_positive,
    check_prior_variance,
    check_targets,
    fail,
)
from lastlayer.compiling import Array, Float, Int
from lastlayer.logits import average_by_quadrature
from lastlayer.rows import Block, cut_into_blocks
from lastlayer.seeds import Seed, choose_seed

__all__ = ["Logits", "NetworkInfo", "NetworkPosterior", "sample_network"]

NUM_STEPS = 60
START = 0.05  # of the prior's standard deviation
MEMORY = 256 << 20  # bytes for the logits of one block of rows
FIRST, GROWTH, SHRINKAGE, LARGEST = 0.5, 1.5, 0.5, 0.95  # first s, its changes, and largest s
# Fall of the bound that is tolerated, in nats per direction. Where the network is not linear, S
# neglects its second derivative, and (21) converges near the bound's maximum but not at it: the
# bound is there to refuse long steps, not the last short ones.
SLACK = 0.1
TRIES = 5  # attempts at s, each half the one before; after them a part does not move this round
ROUND_OFF = 1e-5  # relative to the largest eigenvalue; smaller ones are d's null space in float32

Logits = Callable[[Any, Any], Any]  # weights (D,), inputs of n rows: (n, K)
multiply = partial(jnp.matmul, precision="highest")


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkInfo:
    """Diagnostics of a run. Arrays have one entry per part."""

    converged: bool
    message: str  # the verdict, in words
    steps: int  # rounds through all parts
    mean_residual: np.ndarray  # in posterior sd, in the spanned directions
    covariance_residual: np.ndarray  # relative, in the spanned directions


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkPosterior:
    """An ensemble of J networks, as rows of weights."""

    particles: np.ndarray  # (J, D)
    mean: np.ndarray  # (D,)
    logits: Logits
    info: NetworkInfo

    def __repr__(self) -> str:
        J, D = self.particles.shape
        return f"<NetworkPosterior of {D:,} weights, {J} particles: {self.info.message}>"

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """Return the probability E[y] of each output, averaged over the particles.

        Parameters
        ----------
        inputs : array or tree of arrays
            N rows, as for `sample_network`.

        Returns
        -------
        numpy.ndarray
            (N, K).
        """
        ask = jax.jit(lambda weights, inputs: jax.nn.sigmoid(self.logits(weights, inputs)))
        total = sum(np.asarray(ask(particle, inputs), np.float64) for particle in self.particles)
        return np.asarray(total / len(self.particles))


class NetworkRows(NamedTuple):
    """Rows in equal blocks; the last is filled up with rows that count zero times."""

    inputs: Any  # a tree of (blocks, rows, …)
    counts: Float[Array, "blocks rows"]
    targets: Float[Array, "blocks K rows"]


class Ensemble(NamedTuple):
    """Particles m + deviations, in coordinates where the prior is N(0, I)."""

    mean: Float[Array, " D"]
    deviations: Float[Array, "J D"]


class Terms(NamedTuple):
    """Averages over an ensemble for each row and output, its logits taken as Gaussian."""

    error: Float[Array, "blocks K rows"]  # c E[y] − t
    weight: Float[Array, "blocks K rows"]  # R
    log_likelihood: Float[Array, " K"]


class Step(NamedTuple):
    """The effect of (21) on one part, separately for each output where the part has outputs."""

    gain: Float[Array, " B"]  # of the evidence bound, without the likelihood
    misfit: Float[Array, "B J J"]  # S − I over the spanned directions, before the step
    mean_residual: Float[Array, " B"]  # distance to go, in posterior standard deviations
    covariance_residual: Float[Array, " B"]  # largest relative error of a spanned variance


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
    seed: Seed = 0,
    memory_budget: int = MEMORY,
) -> NetworkPosterior:
    """Sample the posterior over the weights of a network with yes/no outputs.

    Parameters
    ----------
    logits : callable
        `logits(weights, inputs)` maps a flat (D,) vector and n rows of inputs to (n, K), in JAX.
        A `jax.tree_util.Partial` may hold arrays, which can change without compiling again.
    inputs : array or tree of arrays
        N rows along the first axis of each.
    targets : (N, K)
        As for `sample_posterior`: 0/1, fractions, or sums over repetitions with `counts`.
    prior_mean : (D,)
        The trained weights.
    prior_variance : number or (D,)
        Variances of the prior about them.
    counts : (N,), optional
        How often each row was seen.
    parts : sequence of whole-number arrays, optional
        Localisation: (D_b,) weights that move together, or (K, D_k) where row k is read by output
        k alone. A weight in no part stays as trained. By default all weights are one part.
    num_particles : int
        J. A part with fewer weights than J loses nothing.
    num_steps : int
        Most rounds through all parts.
    tolerance : float
        For means (in posterior sd) and variances (relative) in the spanned directions.
    seed : int or numpy.random.Generator
        Determines the directions in which the ensemble starts; a generator draws the seed.
    memory_budget : int
        Bytes for logits held at once; rows are taken in blocks that fit, whose size affects
        rounding.

    Returns
    -------
    NetworkPosterior
        The networks as rows of weights; `info.message` says whether to trust them.

    Raises
    ------
    lastlayer.errors.UserError
        If an argument is not what it should be; the message names it and a way out.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    >>> found = sample_network(lambda w, x: x @ w[:, None], x, x[:, 0] > 0, np.zeros(3))
    >>> found.particles.shape, found.info.converged
    ((128, 3), True)
    """
    J = check_int(num_particles, "num_particles", least=3)
    check_int(num_steps, "num_steps", least=1)
    check_positive(tolerance, "tolerance")
    centre, scale = _check_prior(prior_mean, prior_variance)
    function = logits if isinstance(logits, Partial) else Partial(logits)  # type: ignore[no-untyped-call]
    network = Partial(_compute_logits, function, centre, scale)  # type: ignore[no-untyped-call]
    rows = _check_rows(network, inputs, targets, counts, len(centre), J, memory_budget)
    indices = _check_parts(parts, len(centre), rows.targets.shape[1])
    ensemble = _start(choose_seed(seed), J, indices, len(centre))
    terms, rounds = compute_terms(network, rows, ensemble), 0
    s, before = [np.full(len(index), FIRST) for index in indices], [np.zeros(0)] * len(indices)
    residuals = np.full((2, len(indices)), np.inf)
    while rounds < num_steps and (residuals > tolerance).any():
        rounds += 1
        for b, index in enumerate(indices):
            sums = sum_part(network, rows, ensemble, index, terms)
            taken = move_part(ensemble, index, *sums, s[b])[1]
            misfit = np.asarray(taken.misfit)
            if before[b].size:
                s[b] = _relax(s[b], before[b], misfit)
            ensemble, terms, s[b] = _advance(network, rows, ensemble, terms, index, sums, s[b])
            before[b] = misfit
            residuals[:, b] = taken.mean_residual.max(), taken.covariance_residual.max()
    widest = max(index.shape[1] for index in indices)
    return NetworkPosterior(
        particles=np.asarray(centre + scale * (ensemble.mean + ensemble.deviations)),
        mean=np.asarray(centre + scale * ensemble.mean),
        logits=function,
        info=_summarise(rounds, residuals[0], residuals[1], tolerance, J, widest),
    )


def _start(seed: int, J: int, indices: list[np.ndarray], D: int) -> Ensemble:
    """Return an ensemble close to the trained weights, equally wide in all directions of a part.

    Independent random numbers would nearly miss some directions: the least singular value of
    104 × 101 of them is a hundredth of the largest, and a spread of round-off size does not grow.
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
            d = np.matmul(frame, make_simplex(J)).swapaxes(1, 2) * np.sqrt(size / (J - 1))
        deviations[:, index] = START * d.swapaxes(0, 1)
    return Ensemble(jnp.zeros(D), jnp.asarray(deviations))


def make_simplex(J: int) -> np.ndarray:
    """Return √(J−1) E for an ensemble that is its own basis: J corners in J − 1 dimensions."""
    basis, _ = np.linalg.qr(np.eye(J)[:, : J - 1] - 1 / J)
    return np.sqrt(J - 1) * basis.T


def _compute_logits(function: Any, centre: Array, scale: Array, u: Array, inputs: Any) -> Any:
    """Return (..., rows, K) for one or more particles u; their prior is N(0, I)."""
    if u.ndim == 2:
        return jax.vmap(lambda one: _compute_logits(function, centre, scale, one, inputs))(u)
    return function(centre + scale * u, inputs)


@jax.jit
def compute_terms(network: Any, rows: NetworkRows, ensemble: Ensemble) -> Terms:
    """Return errors, weights and log-likelihood of all rows, by quadrature over each logit."""

    def sum_block(block: NetworkRows) -> tuple[Array, Array, Array]:
        a = network(ensemble.mean + ensemble.deviations, block.inputs)
        no_features = jnp.zeros((len(block.counts), 0))
        plain = Block(no_features, block.counts, block.targets, jnp.zeros_like(block.counts))
        found = average_by_quadrature(a.mean(axis=0).T, a.var(axis=0, ddof=1).T, plain)
        return found.error, block.counts * found.slope, found.log_likelihood.sum(axis=1)

    error, weight, log_likelihood = jax.lax.map(sum_block, rows)
    return Terms(error, weight, log_likelihood.sum(axis=0))


@jax.jit
def sum_part(
    network: Any, rows: NetworkRows, ensemble: Ensemble, index: Int[Array, "B size"], terms: Terms
) -> tuple[Float[Array, "B J J"], Float[Array, "B J"]]:
    """Return ZᵀRZ and Zᵀ(c E[y] − t), maths (20), with only this part spread; B is 1 or K."""
    (J, _), (B, size) = ensemble.deviations.shape, index.shape
    d = ensemble.deviations[:, index]
    alone = jnp.zeros_like(ensemble.deviations).at[:, index].set(d) + ensemble.mean

    def add(
        total: tuple[Array, Array], block: tuple[NetworkRows, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        some, error, weight = block
        a = network(alone, some.inputs)
        Z = ((a - a.mean(axis=0)) / np.sqrt(J - 1)).transpose(2, 0, 1)  # K J rows
        if B == 1:
            Z = Z.swapaxes(0, 1).reshape(1, J, -1)
            error, weight = error.reshape(1, -1), weight.reshape(1, -1)
        S = multiply(Z * weight[:, None], Z.swapaxes(1, 2))
        g = multiply(Z, error[..., None])[..., 0]
        return (total[0] + S, total[1] + g), None

    zero = (jnp.zeros((B, J, J)), jnp.zeros((B, J)))
    S, g = jax.lax.scan(add, zero, (rows, terms.error, terms.weight))[0]
    if size >= J - 1:
        return S, g
    Q, _ = jnp.linalg.qr(d.swapaxes(0, 1))  # only what is linear in d is kept of Z
    onto = multiply(Q, Q.swapaxes(1, 2))
    return multiply(multiply(onto, S), onto), multiply(onto, g[..., None])[..., 0]


def _relax(s: np.ndarray, before: np.ndarray, misfit: np.ndarray) -> np.ndarray:
    """Return the s that would have made S − I vanish if it changed linearly, within limits."""
    change = misfit - before
    best = -s * (before * change).sum(axis=(1, 2)) / np.maximum((change**2).sum(axis=(1, 2)), 1e-30)
    clipped = np.clip(best, SHRINKAGE * s, GROWTH * s)
    return np.minimum(np.where(best > 0, clipped, GROWTH * s), LARGEST)


def _advance(
    network: Any,
    rows: NetworkRows,
    ensemble: Ensemble,
    terms: Terms,
    index: np.ndarray,
    sums: tuple[Array, Array],
    s: np.ndarray,
) -> tuple[Ensemble, Terms, np.ndarray]:
    """Move one part by (21); where the bound would fall, shorten s, and in the end do not move."""
    slack = SLACK * min(len(ensemble.deviations) - 1, index.shape[1])
    old = np.asarray(terms.log_likelihood, np.float64)
    for tries in range(TRIES + 1):
        moved, taken = move_part(ensemble, index, *sums, s)
        there = compute_terms(network, rows, moved)
        gain, new = np.asarray(taken.gain), np.asarray(there.log_likelihood, np.float64)
        rise, size = new - old, np.abs(old)
        if len(gain) == 1:
            rise, size = rise.sum(keepdims=True), size.sum(keepdims=True)
        falls = ~(rise + gain >= -slack - 16 * np.finfo(np.float32).eps * size)  # NaN is lower too
        if not falls.any():
            break
        s = np.where(falls, SHRINKAGE * s if tries < TRIES - 1 else 0.0, s)
    return moved, there, np.where(s > 0, s, FIRST)


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
    )
    particles = ensemble.deviations.at[:, index].set(moved.swapaxes(0, 1) * np.sqrt(J - 1))
    return Ensemble(ensemble.mean.at[index].set(m - change), particles), step


def _check_prior(mean: Any, variance: Any) -> tuple[Array, Array]:
    """Return mean and sd of a diagonal Gaussian about a flat vector of weights."""
    m = check_numbers(mean, "prior_mean")
    if m.ndim != 1 or not len(m):
        fail(f"prior_mean must be the trained weights as one flat vector (D,), got {m.shape}.")
    v = check_prior_variance(variance, len(m), np.dtype("float32"))
    return jnp.asarray(m, jnp.float32), jnp.asarray(np.sqrt(v), jnp.float32)


def _check_parts(parts: Sequence[Any] | None, D: int, K: int) -> list[np.ndarray]:
    """Return the indices of each part as (B, size), with B = 1 where all outputs read it."""
    if parts is None:
        return [np.arange(D)[None]]
    indices = [np.atleast_2d(part) for part in parts]
    every = np.concatenate([np.zeros(0, int), *(part.ravel() for part in indices)])
    shaped = indices and all(part.shape[0] in (1, K) and part.size for part in indices)
    if not shaped or not np.isin(every, np.arange(D)).all() or len(np.unique(every)) < len(every):
        fail(
            f"parts must be arrays of whole numbers from 0 to {D - 1}, the places of weights, none "
            f"of them twice, of shape (weights,) or (outputs, weights) with {K} outputs."
        )
    return indices


def _check_rows(
    network: Any, inputs: Any, targets: Any, counts: Any, D: int, J: int, budget: int
) -> NetworkRows:
    """Return the rows in blocks, after checks of inputs, targets, counts and the logits' shape."""
    leaves = jax.tree.leaves(inputs)
    if not leaves or len({np.shape(leaf)[:1] for leaf in leaves}) > 1 or not np.ndim(leaves[0]):
        fail("inputs must be arrays with the same number of rows along their first axis.")
    N = len(leaves[0])
    c = check_counts(counts, N, np.dtype("float32"))
    t = check_targets(targets, c, softmax=False)
    shape = jax.eval_shape(network, jnp.zeros(D), inputs).shape
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


def _summarise(
    rounds: int,
    mean: np.ndarray,
    covariance: np.ndarray,
    tolerance: float,
    J: int,
    widest: int,
) -> NetworkInfo:
    """Return the info of a run, with the verdict in words."""
    converged = bool(np.maximum(mean, covariance).max() <= tolerance)
    steps = f"{rounds} round{'s' * (rounds != 1)}"
    words = [f"converged in {steps}"]
    if not converged:
        words = [
            f"do not trust this yet: after {steps} means were up to {mean.max():.2g} sd and "
            f"variances up to {covariance.max():.0%} from the fixed point; give more num_steps"
        ]
    if widest >= J:
        words.append(
            f"{J} particles span {J - 1} directions of a part with {widest:,} weights, whose "
            "uncertainty is understated: cut it into smaller parts or use more particles"
        )
    return NetworkInfo(
        converged=converged,
        message="; ".join(words) + ".",
        steps=rounds,
        mean_residual=mean,
        covariance_residual=covariance,
    )
