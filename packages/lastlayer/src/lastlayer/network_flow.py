"""Network flow: the exact flow for all weights of a network, without derivatives of the network.

Any network is a function f from its D weights to the logits of all rows and outputs. An ensemble
θ_j = m + √(J−1) d_j about the trained weights m₀ follows docs/maths.md (15), with the deviations of
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
docs/maths.md (4) with log det over the spanned directions, would fall by more than `SLACK` per
direction. Particles start close together, because far from the trained weights differences of
logits do not tell the slopes near them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from lastlayer import network_step as engine
from lastlayer.checks import check_int, check_positive
from lastlayer.network_step import Ensemble, NetworkProblem
from lastlayer.seeds import Seed, choose_seed

__all__ = ["Logits", "NetworkInfo", "NetworkPosterior", "sample_network"]

NUM_STEPS = 60
START = 0.05  # of the prior's standard deviation
MEMORY = 256 << 20  # bytes for the logits of one block of rows

Logits = Callable[[Any, Any], Any]  # weights (D,), inputs of n rows: (n, K)
TOO_BENT = 0.5  # in standard deviations of a logit, on average


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkInfo:
    """Diagnostics of a run. Arrays have one entry per part."""

    converged: bool
    message: str  # the verdict, in words
    steps: int  # rounds through all parts
    refused: int  # steps that would have lowered the evidence bound, and were shortened
    forward_passes: int  # of the network over all rows
    time: np.ndarray  # τ reached
    mean_residual: np.ndarray  # in posterior sd, in the spanned directions
    covariance_residual: np.ndarray  # relative, in the spanned directions
    directions: np.ndarray  # spanned by the ensemble; per output where a part has outputs
    weights: np.ndarray  # number of weights of the part; per output where it has outputs
    bend: float  # distance of the mean logit from the mean's logit, in sd: 0 is linear
    seconds: float


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
    began = perf_counter()
    J = check_int(num_particles, "num_particles", least=3)
    check_int(num_steps, "num_steps", least=1)
    check_positive(tolerance, "tolerance")
    prior = engine.check_prior(prior_mean, prior_variance)
    network = logits if isinstance(logits, Partial) else Partial(logits)  # type: ignore[no-untyped-call]
    rows = engine.check_rows(network, inputs, targets, counts, prior, J, memory_budget)
    indices = engine.check_parts(parts, len(prior.mean), rows.targets.shape[1])
    ensemble = _start(choose_seed(seed), J, indices, len(prior.mean))
    given = NetworkProblem(network, rows, prior)
    ensemble, record = _run_rounds(given, ensemble, indices, num_steps, tolerance)
    bend = float(engine.measure_bend(given, ensemble))
    weights = np.array([index.shape[1] for index in indices])
    return NetworkPosterior(
        particles=np.asarray(prior.mean + prior.scale * (ensemble.mean + ensemble.deviations)),
        mean=np.asarray(prior.mean + prior.scale * ensemble.mean),
        logits=network,
        info=_summarise(record, weights, J, bend, tolerance, began),
    )


def _run_rounds(
    given: NetworkProblem,
    ensemble: Ensemble,
    indices: list[np.ndarray],
    num_steps: int,
    tolerance: float,
) -> tuple[Ensemble, dict[str, Any]]:
    """Move the parts in turn, round after round; return the ensemble and fields of its info."""
    J, parts = len(ensemble.deviations), len(indices)
    s = [np.full(len(index), engine.FIRST) for index in indices]
    before: list[np.ndarray | None] = [None] * parts
    terms = engine.compute_terms(given, ensemble)
    passes, refused, rounds = J, 0, 0
    time, worst = np.zeros(parts), np.full((parts, 2), np.inf)
    while rounds < num_steps and (worst > tolerance).any():
        rounds += 1
        for b, index in enumerate(indices):
            ensemble, terms, s[b], taken, tries = engine.advance(
                given, ensemble, terms, index, s[b], before[b]
            )
            before[b] = np.asarray(taken.misfit)
            passes, refused = passes + J * (1 + tries), refused + tries - 1
            time[b] -= np.log1p(-s[b]).mean()
            s[b] = np.where(s[b] > 0, s[b], engine.FIRST)
            worst[b] = taken.mean_residual.max(), taken.covariance_residual.max()
    return ensemble, {
        "steps": rounds,
        "refused": refused,
        "forward_passes": passes,
        "time": time,
        "mean_residual": worst[:, 0],
        "covariance_residual": worst[:, 1],
    }


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


def _summarise(
    record: dict[str, Any], weights: np.ndarray, J: int, bend: float, tolerance: float, began: float
) -> NetworkInfo:
    """Return the info of a run, with the verdict in words."""
    mean, covariance = record["mean_residual"], record["covariance_residual"]
    converged = bool(np.maximum(mean, covariance).max() <= tolerance)
    rounds = f"{record['steps']} round{'s' * (record['steps'] != 1)}"
    words = [f"converged in {rounds}"]
    if not converged:
        words = [
            f"do not trust this yet: after {rounds} means were up to {mean.max():.2g} sd and "
            f"variances up to {covariance.max():.0%} from the fixed point; give more num_steps"
        ]
    if (confined := weights >= J).any():
        words.append(
            f"{J} particles span {J - 1} directions of a part with {weights[confined].max():,} "
            "weights, whose uncertainty is understated: cut it into smaller parts or use more "
            "particles"
        )
    if bend > TOO_BENT:
        words.append(
            f"the network bends within the ensemble's spread ({bend:.1f} sd): a Gaussian is rough"
        )
    return NetworkInfo(
        **record,
        converged=converged,
        message="; ".join(words) + ".",
        directions=np.minimum(weights, J - 1),
        weights=weights,
        bend=bend,
        seconds=perf_counter() - began,
    )
