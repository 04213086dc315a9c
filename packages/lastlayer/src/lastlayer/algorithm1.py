"""Algorithm 1 of "Ensemble Kalman filter for uncertainty in human language comprehension".

The paper's own equation numbers are written as "eq. 14", those of maths.md as (9). An ensemble
θ¹ … θᴶ with mean m follows the equation of eq. 13 by Trotter splitting with step Δτ,

    θ' = θ − ½Δτ P̂ Ψᵀ ( M Ψ(θ − m) + 2 (μ[y] − t) )                                (9), eq. 15
    θ" = θ' − ½Δτ P̂' (Δτ diag(P̂') + P₀)⁻¹ (θ' + m' − 2m₀) + ½Δτ (θ' − m')         (10), eq. 17

where P̂ = Θ̂Θ̂ᵀ / ((1−ρ)(J−1)), (11), eq. 14, is the covariance of deviations of which a fraction ρ
is set to zero, redrawn for each half step; μ[·] averages over the ensemble, R holds y(1−y), and Ψ
has a row for each row of data (the paper's Ψ is its transpose). Inverting the diagonal alone in the
second line is the paper's choice. M tames the deviations, (12), eq. 16. `taming="consistent"` is
M = (Δτ ΨP̂Ψᵀ + μ[R]⁻¹)⁻¹, which tends to μ[R] as Δτ → 0, as the equation needs. `taming="printed"`
is the paper's M = (Δτ ΨP̂Ψᵀ + μ[R])⁻¹, which tends to μ[R]⁻¹.

`take_literal_step` is this with the paper's N×N matrix. `step` builds none: with P̂ = FFᵀ,
maths.md (13), the first line needs F (I + Δτ FᵀHF)⁻¹ FᵀH(θ − m) with H = Ψᵀ W Ψ, W = μ[R] or
μ[R]⁻¹; where J > D the same is P̂ (I + Δτ H P̂)⁻¹ H (θ − m). They agree to round-off:

>>> rng = np.random.default_rng(0)
>>> x, t, theta = rng.normal(size=(20, 3)), rng.integers(0, 2, 20), rng.normal(size=(8, 3))
>>> literal = take_literal_step(theta, x, t, 0.05)
>>> with jax.enable_x64(True):
...     problem = Problem.build(x, t, None, 0.0, 1.0, Likelihood.BERNOULLI, "float64")
...     keys, rows = jax.random.split(jax.random.key(0), 1), lay_out(problem, slice(None), 32)
...     config = DropoutConfig(dropout_rate=0.0, step_size=0.05)
...     ours = step(keys, begin(jnp.asarray(theta[None])), rows, config)[0].particles[0]
>>> bool(np.allclose(ours, literal, rtol=1e-10))
True

Only the deviations are tamed: the mean's step is explicit and needs Δτ λ_max(P̂H) < 2. With
`step_size=None` each step takes Δτ = ½ / (λ_max(P̂H) + λ_max(P̂P₀⁻¹)), at most ½ and at the end
0.05 (`limit_step`). Means that a longer step throws out are noticed (`divergence`).

With ρ > 0 the limit is not the posterior: E P̂ = (1−ρ) P + ρ diag P (maths.md, "The limit that
dropout has"). `dropout_schedule="settle"` lowers ρ to 0 as the spread settles, and has the
posterior's Gaussian as its limit, where J > D. Use this sampler to follow the paper
(`algorithm1_run` runs it); for the posterior itself, `variational` needs fewer steps.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.checks import check_choice, check_positive, fail
from lastlayer.compiling import Array, Bool, Float, Int, PRNGKey, compile_on_call
from lastlayer.divergence import Watch, look, note_thrown
from lastlayer.ensembles import draw_standard_noise, find_largest_eigenvalue
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import Block, Rows, lay_out, sum_over_blocks

__all__ = ["DropoutConfig", "Likelihood", "Problem", "lay_out", "step", "take_literal_step"]

# `step`: no step is longer, and no more than this share of the stable length is taken.
LONGEST_STEP, STABLE_SHARE = 0.5, 0.5
# From this τ on, when e^(−τ) of the start is left, automatic steps are at most so long: at the
# fixed point of the steps variances are up to 1/(1 − Δτ) times too large.
LATE, LATE_STEP = 2.0, 0.05
# Relative change of the total variance in an automatic step, and a share of it in a shorter one; by
# what ρ is then multiplied. Not per unit of τ: on rows of a network steps are short while ρ > 0.
SETTLED, DECAY = 0.01, 0.9


def take_literal_step(
    particles: np.ndarray,
    features: np.ndarray,
    targets: np.ndarray,
    step_size: float,
    *,
    prior_mean: np.ndarray | float = 0.0,
    prior_variance: np.ndarray | float = 1.0,
    taming: str = "consistent",
) -> np.ndarray:
    """Return (J, D) particles of one output after a step as the paper has it: N³ + N²D, no dropout.

    Features are (N, D) and targets (N,); all is computed in the particles' own precision.
    """
    theta, psi, t, dt = particles, features, targets, particles.dtype.type(step_size)
    J = len(theta)

    m = theta.mean(axis=0)  # eq. 10
    P = (theta - m).T @ (theta - m) / (J - 1)  # eq. 11; eq. 14 with ρ = 0
    y = 1 / (1 + np.exp(-theta @ psi.T))  # eq. 6, (J, N)
    R = (y * (1 - y)).mean(axis=0)
    last = np.diag(R if taming == "printed" else 1 / R)
    M = np.linalg.inv(dt * (psi @ P @ psi.T) + last)  # eq. 16, (N, N)
    pulled = (theta - m) @ psi.T @ M + 2 * (y.mean(axis=0) - t)
    half = theta - dt / 2 * (pulled @ psi @ P)  # eq. 15

    m = half.mean(axis=0)
    P = (half - m).T @ (half - m) / (J - 1)
    # "inverting the diagonal only"
    shrunk = (half + m - 2 * np.asarray(prior_mean)) / (dt * np.diag(P) + prior_variance)
    moved: np.ndarray = half - dt / 2 * (shrunk @ P) + dt / 2 * (half - m)  # eq. 17
    return moved


class Taming(StrEnum):
    """Which M damps the deviations."""

    CONSISTENT = "consistent"  # (Δτ ΨP̂Ψᵀ + μ[R]⁻¹)⁻¹, consistent with the equation
    PRINTED = "printed"  # (Δτ ΨP̂Ψᵀ + μ[R])⁻¹, as printed in the paper


class Schedule(StrEnum):
    """How ρ goes on."""

    CONSTANT = "constant"  # as in the paper; its limit is not the posterior
    SETTLE = "settle"  # to 0 as the spread settles


@dataclass(frozen=True, kw_only=True)
class DropoutConfig:
    """Settings of Algorithm 1. The paper prints neither J, Δτ nor ε."""

    dropout_rate: float = 0.3  # ρ
    dropout_schedule: str = Schedule.CONSTANT
    step_size: float | None = None  # Δτ; None: the stable rule
    taming: str = Taming.CONSISTENT
    threshold: float = 1e-3  # ε, of the relative change of P̂ per unit of τ

    def __post_init__(self) -> None:
        if not (isinstance(self.dropout_rate, int | float) and 0 <= self.dropout_rate < 1):
            fail(f"dropout_rate must lie in [0, 1), got {self.dropout_rate!r}.")
        if self.step_size is not None:
            check_positive(self.step_size, "step_size")
        check_positive(self.threshold, "threshold")
        check_choice(self.taming, "taming", list(Taming))
        check_choice(self.dropout_schedule, "dropout_schedule", list(Schedule))


class DropoutState(NamedTuple):
    """The state that the next step reads."""

    particles: Float[Array, "K J D"]  # θ
    time: Float[Array, " K"]  # τ
    steps: Int[Array, " K"]
    step_size: Float[Array, " K"]  # Δτ of the last step
    share: Float[Array, " K"]  # Δτ of the last step over that of an automatic one, to lower ρ by
    factor: Float[Array, "K J D"]  # rows of F at the last step, for the stopping rule
    rate: Float[Array, " K"]  # ρ
    spread: Float[Array, " K"]  # trace(P) at the last step
    lost: Int[Array, " K"]  # particles reset so far
    watch: Watch


class DropoutInfo(NamedTuple):
    """Quantities for diagnostics; `step` does not read them."""

    step_size: Float[Array, " K"]  # Δτ taken
    change: Float[Array, " K"]  # ‖P̂_s − P̂_{s−1}‖₂ / (‖P̂_{s−1}‖₂ Δτ)


def init(keys: PRNGKey, num_particles: int, num_features: int, rate: float = 0.0) -> DropoutState:
    """Draw θ_j ~ N(m₀, P₀), one key per output."""
    return begin(draw_standard_noise(keys, num_particles, num_features).swapaxes(1, 2), rate)


def begin(particles: Float[Array, "K J D"], rate: float = 0.0) -> DropoutState:
    """Start from any ensemble."""
    theta = jnp.asarray(particles)
    zero, none = jnp.zeros(len(theta), theta.dtype), jnp.zeros(len(theta), int)
    return DropoutState(
        particles=theta,
        time=zero,
        steps=none,
        step_size=zero,
        share=zero,
        factor=jnp.zeros_like(theta),
        rate=zero + rate,
        spread=zero + jnp.inf,
        lost=none,
        watch=Watch(zero + jnp.inf, zero + theta.shape[2], zero, none, zero),
    )


def fill_up(state: DropoutState, num_features: int) -> DropoutState:
    """Return the state with weights for columns of zeros added, which stay at zero."""
    pad = ((0, 0), (0, 0), (0, num_features - state.particles.shape[-1]))
    return jax.tree.map(lambda leaf: jnp.pad(leaf, pad) if leaf.ndim == 3 else leaf, state)


def drop_entries(
    keys: PRNGKey, deviations: Float[Array, "K J D"], rate: float | Float[Array, " K"]
) -> Float[Array, "K J D"]:
    """Return Fᵀ, rows of deviations with a fraction `rate` of entries at zero; P̂ = F Fᵀ."""
    K, J, D = deviations.shape
    if isinstance(rate, float | int) and rate == 0:  # random numbers are a fifth of a step's time
        return deviations / jnp.sqrt(jnp.asarray(J - 1, deviations.dtype))
    rate = jnp.broadcast_to(jnp.asarray(rate, deviations.dtype), (K,))
    kept = jax.vmap(lambda key, r: jax.random.bernoulli(key, 1 - r, (J, D)))(keys, rate)
    scale = jnp.sqrt((1 - rate) * (J - 1))[:, None, None]
    return jnp.where(kept, deviations, 0) / scale  # maths (11), eq. 14


def _get_rate(state: DropoutState, config: DropoutConfig) -> float | Float[Array, " K"]:
    return state.rate if config.dropout_schedule == Schedule.SETTLE else config.dropout_rate


class Sums(NamedTuple):
    """Sums over the rows, with their counts."""

    gradient: Float[Array, "K D"]  # g = Ψᵀ(μ[y] − t)
    tamed: Float[Array, "K _ D"]  # FᵀΨᵀWΨ where J ≤ D, else ΨᵀWΨ, for (13)
    curvature: Float[Array, "K _ D"]  # the same with W = μ[R]: FᵀH or H
    loss: Float[Array, " K"]  # −μ[log p(t | θ)]


@compile_on_call(static_argnames="taming")
def sum_rows(
    rows: Rows, theta: Float[Array, "K particles D"], F: Float[Array, "K J D"], taming: str
) -> Sums:
    """Sum over the rows what a step, or the residuals, are made of."""
    J, D = F.shape[1:]

    def sum_block(block: Block) -> tuple[Array, ...]:
        logits = jnp.matmul(theta, block.features.T) + block.offsets[:, None]
        e = jnp.exp(-jnp.abs(logits))  # one exponential for both y and y(1 − y), no digits lost
        larger = 1 / (1 + e)
        y = jnp.where(logits > 0, larger, e * larger)
        R = (e * larger * larger).mean(axis=1)
        left = jnp.matmul(F, block.features.T) if J <= D else block.features.T
        g = (block.counts * y.mean(axis=1) - block.targets) @ block.features
        paid = (jnp.maximum(logits, 0) + jnp.log1p(e)).mean(axis=1)
        loss = (block.counts * paid - block.targets * logits.mean(axis=1)).sum(axis=1)
        # maths (12), eq. 16
        weights = [R] if taming == Taming.CONSISTENT else [1 / jnp.maximum(R, 1e-12), R]
        products = [jnp.matmul(left * (block.counts * W)[:, None], block.features) for W in weights]
        return g, loss, *products

    g, loss, tamed, *curvature = sum_over_blocks(sum_block, rows)
    return Sums(g, tamed, curvature[0] if curvature else tamed, loss)


def _tame(
    F: Float[Array, "K J D"],
    basis_H: Float[Array, "K r D"],
    deviations: Float[Array, "K J D"],
    dt: Float[Array, "K 1 1"],
) -> Float[Array, "K J D"]:
    """Return rows P̂ΨᵀMΨ(θ_j − m) by maths (13), from FᵀH where J ≤ D, else from H itself."""
    J, D = F.shape[1:]
    if J <= D:
        FH = basis_H
        S = jnp.eye(J, dtype=F.dtype) + dt * jnp.matmul(FH, F.swapaxes(1, 2))
        inner = jnp.linalg.solve(S, jnp.matmul(FH, deviations.swapaxes(1, 2)))
        return jnp.matmul(inner.swapaxes(1, 2), F)
    H, P = basis_H, jnp.matmul(F.swapaxes(1, 2), F)
    S = jnp.eye(D, dtype=F.dtype) + dt * jnp.matmul(H, P)
    inner = jnp.linalg.solve(S, H)  # for D right-hand sides rather than J
    return jnp.matmul(deviations, jnp.matmul(inner.swapaxes(1, 2), P))


def _apply_covariance(F: Float[Array, "K J D"], x: Float[Array, "K D"]) -> Float[Array, "K D"]:
    """Return P̂ x."""
    return jnp.matmul(jnp.matmul(x[:, None], F.swapaxes(1, 2)), F)[:, 0]


def _find_stiffness(F: Float[Array, "K J D"], basis_H: Float[Array, "K r D"]) -> Float[Array, " K"]:
    """Return λ_max(P̂H)."""
    if F.shape[1] <= F.shape[2]:  # P̂H and FHFᵀ share their largest eigenvalue
        S = jnp.matmul(basis_H, F.swapaxes(1, 2))
        return find_largest_eigenvalue(lambda x: jnp.matmul(S, x[..., None])[..., 0], F[:, :, 0])
    return find_largest_eigenvalue(
        lambda x: _apply_covariance(F, jnp.matmul(basis_H, x[..., None])[..., 0]), F[:, 0]
    )


def limit_step(stiffness: Float[Array, "..."], time: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the Δτ that keeps the mean's step stable, and the error at the end small.

    `stiffness` is λ_max(P̂H) + λ_max(P̂P₀⁻¹).
    """
    return jnp.minimum(STABLE_SHARE / stiffness, jnp.where(time < LATE, LONGEST_STEP, LATE_STEP))


def _measure_change(F: Float[Array, "K J D"], state: DropoutState) -> Float[Array, " K"]:
    """Return ‖P̂ − P̂_before‖₂ / (‖P̂_before‖₂ Δτ); the paper does not divide by Δτ."""
    P, P_before = (jnp.matmul(x.swapaxes(1, 2), x) for x in (F, state.factor))

    def norm(A: Float[Array, "K D D"]) -> Float[Array, " K"]:
        return find_largest_eigenvalue(lambda x: jnp.matmul(A, x[..., None])[..., 0], F[:, 0])

    difference, size = norm(P - P_before), norm(P_before) * state.step_size
    return jnp.where(size > 0, difference / jnp.maximum(size, 1e-30), jnp.inf)


@compile_on_call()
def _split(keys: PRNGKey) -> PRNGKey:
    return jax.vmap(jax.random.split)(keys)


@compile_on_call(static_argnames="config")
def _drop_first(
    keys: PRNGKey, state: DropoutState, config: DropoutConfig
) -> tuple[DropoutState, Float[Array, "K J D"]]:
    """Return the first F of a step, with ρ lowered where the spread has settled."""
    deviations = state.particles - state.particles.mean(axis=1, keepdims=True)
    if config.dropout_schedule == Schedule.SETTLE:
        spread = (deviations**2).sum(axis=(1, 2))
        settled = jnp.abs(spread / state.spread - 1) < SETTLED * state.share
        rate = jnp.where(settled, DECAY, 1) * state.rate
        state = state._replace(rate=rate, spread=spread)
    return state, drop_entries(keys, deviations, _get_rate(state, config))


@compile_on_call(static_argnames="config")
def _move(
    keys: PRNGKey,
    state: DropoutState,
    F: Float[Array, "K J D"],
    sums: Sums,
    config: DropoutConfig,
    radius: Float[Array, ""] | float,
) -> tuple[DropoutState, DropoutInfo]:
    """Take both half steps, given the sums over rows."""
    theta = state.particles
    stiffness = _find_stiffness(F, sums.curvature)
    same = config.taming == Taming.CONSISTENT
    stiff = stiffness if same else _find_stiffness(F, sums.tamed)
    dt = automatic = limit_step(
        stiff + find_largest_eigenvalue(lambda x: _apply_covariance(F, x), F[:, 0]), state.time
    )
    if config.step_size is not None:
        dt = jnp.full(len(F), config.step_size, F.dtype)
    h = dt[:, None, None]

    m = theta.mean(axis=1, keepdims=True)
    push = _apply_covariance(F, sums.gradient)[:, None]
    half = theta - h / 2 * (_tame(F, sums.tamed, theta - m, h) + 2 * push)  # maths (9), eq. 15

    m = half.mean(axis=1, keepdims=True)
    F2 = drop_entries(keys, half - m, _get_rate(state, config))
    diagonal = h * (F2**2).sum(axis=1, keepdims=True) + 1  # Δτ diag(P̂) + P₀, prior N(0, I)
    pull = jnp.matmul((half + m) / diagonal, jnp.matmul(F2.swapaxes(1, 2), F2))
    full = half - h / 2 * pull + h / 2 * (half - m)  # maths (10), eq. 17
    new, lost = repair(full, theta, radius)
    gone = lost.sum(axis=1)
    watch = look(state.watch, theta, sums.loss, state.steps)._replace(stiffness=stiffness)
    moved = state._replace(
        particles=new,
        time=state.time + dt,
        steps=state.steps + 1,
        step_size=dt,
        # otherwise XLA leaves out the automatic step where a step is given
        share=dt / automatic if config.dropout_schedule == Schedule.SETTLE else state.share,
        factor=F,
        lost=state.lost + gone,
        watch=note_thrown(watch, gone > 0, state.steps + 1),
    )
    return moved, DropoutInfo(dt, _measure_change(F, state))


def step(
    keys: PRNGKey,
    state: DropoutState,
    rows: Rows,
    config: DropoutConfig,
    radius: Float[Array, ""] | float = jnp.inf,
) -> tuple[DropoutState, DropoutInfo]:
    """Take both half steps, with fresh dropout in each; compiled in parts, as `flow_step` is."""
    halves = _split(keys)
    state, F = _drop_first(halves[:, 0], state, config)
    sums = sum_rows(rows, state.particles, F, config.taming)
    return _move(halves[:, 1], state, F, sums, config, radius)


def repair(
    new: Float[Array, "K J D"], old: Float[Array, "K J D"], radius: Float[Array, ""] | float
) -> tuple[Float[Array, "K J D"], Bool[Array, "K J"]]:
    """Reset particles that became non-finite or left the radius to their last position."""
    lost = ~(jnp.linalg.norm(new, axis=-1) <= radius)  # NaN is lost too
    return jnp.where(lost[..., None], old, new), lost
