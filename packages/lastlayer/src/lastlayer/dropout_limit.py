"""The dropout deterministic sampler with infinitely many particles.

Both half steps of `algorithm1` are affine in a particle once the averages over the
ensemble are known, so an ensemble that starts as N(m₀, P₀) stays Gaussian, and in the limit J → ∞
its mean m and covariance P determine it. Dropping a fraction ρ of the deviations' entries keeps
their variances and thins their covariances, maths.md (11):

    P̂ = (1 − ρ) P + ρ diag(P)

With g = Ψᵀ(c E[y] − t) and H = Ψᵀ diag(c E[y(1−y)]) Ψ, averaged over N(m, P) in closed form (18),
in coordinates where the prior is N(0, I), (9) and (10) become

    m' = m − Δτ P̂ g                     P' = T P Tᵀ,     T = I − ½Δτ P̂ (I + Δτ H P̂)⁻¹ H
    m" = m' − Δτ Q m'                   P" = T' P' T'ᵀ,  T' = (1 + ½Δτ) I − ½Δτ Q

where Q = P̂' (Δτ diag(P̂') + I)⁻¹. No random number is drawn. A finite ensemble differs by noise of
order J^(−1/2), and takes slightly shorter steps, since noise makes λ_max larger.

This is the limit J → ∞ at every step. It does not tend to the posterior as τ → ∞ unless ρ = 0:
maths.md (27) has what it tends to, if to anything.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.algorithm1 import limit_step
from lastlayer.compiling import Array, Float, compile_on_call
from lastlayer.ensembles import find_largest_eigenvalue
from lastlayer.logits import compute_moments

__all__ = ["LimitState", "follow_limit"]


class LimitState(NamedTuple):
    """The ensembles of all outputs after the same number of steps."""

    time: Float[Array, " K"]  # τ
    mean: Float[Array, "K D"]  # m
    covariance: Float[Array, "K D D"]  # P


def follow_limit(
    features: np.ndarray,
    targets: np.ndarray,
    *,
    counts: np.ndarray,
    prior_mean: np.ndarray,
    prior_variance: float,
    dropout_rate: float,
) -> Iterator[LimitState]:
    """Yield the ensembles before the first step and after each step, without end.

    Parameters
    ----------
    features : (N, D)
        Rows Ψ.
    targets : (N, K)
        t, for each row the answers summed over its repetitions.
    counts : (N,)
        c, how often each row was seen.
    prior_mean : (K, D)
        m₀.
    prior_variance : float
        v, the same for every weight.
    dropout_rate : float
        ρ, in [0, 1).

    Yields
    ------
    LimitState
        Times, means and covariances in the caller's coordinates.
    """
    scale = float(np.sqrt(prior_variance))
    psi, t, c = (jnp.asarray(x, jnp.float32) for x in (scale * features, targets.T, counts))
    offsets = jnp.asarray(prior_mean @ features.T, jnp.float32)
    (K, D), identity = prior_mean.shape, jnp.eye(features.shape[1])
    state = LimitState(
        jnp.zeros(K), jnp.zeros((K, D)), jnp.broadcast_to(identity, (K, D, D)).astype(jnp.float32)
    )
    centre = jnp.asarray(prior_mean, jnp.float32)
    while True:
        moved = centre + scale * state.mean
        yield LimitState(state.time, moved, prior_variance * state.covariance)
        state = _step(psi, t, c, offsets, state, dropout_rate)


@compile_on_call(static_argnames="rate")
def _step(
    psi: Float[Array, "N D"],
    targets: Float[Array, "K N"],
    counts: Float[Array, " N"],
    offsets: Float[Array, "K N"],
    state: LimitState,
    rate: float,
) -> LimitState:
    """Take one step of every output, one after another: H of all together would fill memory."""

    def advance(given: tuple[LimitState, Array, Array]) -> LimitState:
        (time, m, P), t, offset = given
        mu, variance = psi @ m + offset, ((psi @ P) * psi).sum(axis=1)
        found = compute_moments(mu, variance)
        y = jnp.where(mu > 0, 1 - found.tail, found.tail)
        H = (psi * (counts * found.slope)[:, None]).T @ psi
        dt, moved, spread = _take_step(time, m, P, psi.T @ (counts * y - t), H, rate)
        return LimitState(time + dt, moved, spread)

    advanced: LimitState = jax.lax.map(advance, (state, targets, offsets))
    return advanced


def _take_step(
    time: Float[Array, ""],
    m: Float[Array, " D"],
    P: Float[Array, "D D"],
    g: Float[Array, " D"],
    H: Float[Array, "D D"],
    rate: float,
) -> tuple[Float[Array, ""], Float[Array, " D"], Float[Array, "D D"]]:
    """Return Δτ, mean and covariance of one output a step on; maths (27) is its limit."""
    identity = jnp.eye(len(m))

    def drop(full: Float[Array, "D D"]) -> Float[Array, "D D"]:
        return (1 - rate) * full + rate * jnp.diag(jnp.diag(full))  # maths (11), for J → ∞

    P_hat = drop(P)
    stiff = _find_largest_eigenvalue(P_hat @ H) + _find_largest_eigenvalue(P_hat)
    dt = limit_step(stiff, time)
    T = identity - dt / 2 * P_hat @ jnp.linalg.solve(identity + dt * H @ P_hat, H)
    m, P = m - dt * P_hat @ g, T @ P @ T.T  # maths (9)
    P_hat = drop(P)
    Q = P_hat / (dt * jnp.diag(P_hat) + 1)
    T = (1 + dt / 2) * identity - dt / 2 * Q
    return dt, m - dt * Q @ m, T @ P @ T.T  # maths (10)


def _find_largest_eigenvalue(matrix: Float[Array, "D D"]) -> Float[Array, ""]:
    row = matrix[:1]
    return find_largest_eigenvalue(lambda x: x @ matrix.T, row, jnp.ones_like(row))[0]
