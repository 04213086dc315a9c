"""Whether Algorithm 1 has converged or diverged, whatever the number of rows.

**Diverged.** The explicit step of the mean is unstable where Δτ λ_max(P̂H) ≥ 2, but P̂ shrinks
within few steps, so a step that is too long need not throw the mean out, and one that does is
seldom followed by another: where rows are saturated, H is nearly zero. What tells is the energy

    U = μ[−log p(t | θ) + ½ (θ − m₀)ᵀ P₀⁻¹ (θ − m₀)]

of the ensemble. Along the differential equation, maths.md (7), U − ½ log det P falls, however
far from the prior the posterior is and however many rows there are; at the posterior U is D/2 above
its minimum. So a step has thrown an ensemble out if U then exceeds its lowest value so far by
more than D nats and a tenth (`RISE`), the latter for the noise of dropout, which grows with U. On
rows of networks with the automatic step it rose by at most 0.02 D nats; steps of ten times the
stable length raised it by hundreds of D. An output has diverged if a step threw it out, unless its
mean has come back to where most of the posterior is.

**Converged.** The covariance has settled (`algorithm1_run`), and the equations of the fixed
point, maths.md (5), with averages over the ensemble, hold to `MEAN_CLOSE` and
`VARIANCE_CLOSE`, both above what a step Δτ ≤ 0.05 adds. They are evaluated once, at
the end, in the span of the deviations.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Bool, Float, Int
from lastlayer.outcome import Outcome

RISE = 0.1
MEAN_CLOSE, VARIANCE_CLOSE = 0.2, 0.25  # in posterior sd; relative, in every direction


class Watch(NamedTuple):
    """What the verdict on divergence reads."""

    lowest: Float[Array, " K"]  # U so far
    allowed: Float[Array, " K"]  # D nats, without columns of padding
    stiffness: Float[Array, " K"]  # λ_max(P̂H) at the last step
    thrown_at: Int[Array, " K"]  # the first step that threw the ensemble out; 0: none did
    thrown_by: Float[Array, " K"]  # λ_max(P̂H) there


def look(
    watch: Watch,
    particles: Float[Array, "K J D"],
    loss: Float[Array, " K"],
    steps: Int[Array, " K"],
) -> Watch:
    """Note whether the last of the steps taken has raised U = loss + ½ μ|w|² by too much."""
    energy = loss + 0.5 * (particles**2).sum(axis=2).mean(axis=1)
    raised = ~(energy <= (1 + RISE) * watch.lowest + watch.allowed)  # NaN is raised too
    watch = watch._replace(lowest=jnp.fmin(watch.lowest, energy))
    return note_thrown(watch, raised, steps)


def note_thrown(watch: Watch, thrown: Bool[Array, " K"], steps: Int[Array, " K"]) -> Watch:
    """Note which ensembles the last of the steps taken has thrown out."""
    first = thrown & (watch.thrown_at == 0)
    return watch._replace(
        thrown_at=jnp.where(first, steps, watch.thrown_at),
        thrown_by=jnp.where(first, watch.stiffness, watch.thrown_by),
    )


def compute_residuals(
    particles: np.ndarray, gradient: np.ndarray, curvature: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measure how far maths (5) is from holding at an ensemble, in the span of its deviations.

    Parameters
    ----------
    particles : (K, J, D)
        Where the prior is N(0, I).
    gradient : (K, D)
        g there.
    curvature : (K, D, D)
        H there.

    Returns
    -------
    three arrays (K,)
        The mean's distance to go in posterior standard deviations; ‖GᵀAG − I‖ with P = GGᵀ, as the
        Frobenius and as the spectral norm.
    """
    _, J, D = particles.shape
    m = particles.mean(axis=1)
    F = (particles - m[:, None]) / np.sqrt(J - 1)
    if J <= D:  # orthonormal columns that are orthogonal to 1
        G = np.matmul(np.linalg.qr(np.eye(J)[:, 1:] - 1 / J)[0].T, F)
    else:
        values, vectors = np.linalg.eigh(np.matmul(F.swapaxes(1, 2), F))
        G = (vectors * np.sqrt(np.maximum(values, 0))[:, None]).swapaxes(1, 2)
    A = curvature + np.eye(D)
    S, V = np.linalg.eigh(np.matmul(np.matmul(G, A), G.swapaxes(1, 2)))
    along = np.matmul(np.matmul(G, (gradient + m)[..., None])[..., 0][:, None], V)[:, 0]
    to_go = along / np.sqrt(np.maximum(S, np.finfo(float).tiny))
    off = S - 1
    return np.linalg.norm(to_go, axis=1), np.linalg.norm(off, axis=1), np.abs(off).max(axis=1)


class Ending(NamedTuple):
    """What was found where outputs ended, (K,) each."""

    mean: np.ndarray  # as `compute_residuals` returns them
    covariance: np.ndarray
    worst: np.ndarray
    thrown_at: np.ndarray
    thrown_by: np.ndarray
    lost: np.ndarray
    rank: np.ndarray  # J − 1 or D, the dimensions that the deviations span


def judge(outcome: Outcome, endings: list[Ending]) -> None:
    """Decide which outputs have diverged and which have converged, and say why not.

    `outcome.converged` says which have settled.
    """
    end = Ending(*map(np.concatenate, zip(*endings, strict=True)))
    outcome.mean_residual, outcome.covariance_residual = end.mean, end.covariance
    outcome.repaired = int(end.lost.sum())
    # draws of the posterior are √rank standard deviations from its mean
    came_back = (end.mean <= np.sqrt(end.rank)) & (end.lost == 0)
    outcome.diverged = (end.thrown_at > 0) & ~came_back
    if outcome.diverged.any():
        first = int(np.argmin(np.where(outcome.diverged, end.thrown_at, np.inf)))
        outcome.divergence = (
            f"diverged at step {end.thrown_at[first]}; Δτ is too long, λ_max(P̂H) is "
            f"{end.thrown_by[first]:.2g}"
        )
    close = (end.mean <= MEAN_CLOSE) & (end.worst <= VARIANCE_CLOSE)
    settled = outcome.converged
    missed = settled & ~close & ~outcome.diverged
    if missed.any():
        reasons = [outcome.stop_reason] * bool(outcome.stop_reason)
        off = f"{end.mean[missed].max():.2g} posterior sd, a variance by "
        reasons.append(
            "P̂ has settled, but the equations of the fixed point do not hold (a mean is off by "
            f"{off}{end.worst[missed].max():.0%}): make threshold or step_size smaller"
        )
        outcome.stop_reason = ", and ".join(reasons)
    outcome.converged = settled & close & ~outcome.diverged
