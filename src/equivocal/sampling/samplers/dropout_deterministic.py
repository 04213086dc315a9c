"""The dropout deterministic sampler: Algorithm 1 of "Ensemble Kalman filter for uncertainty in
human language comprehension" (its equations are named by label below), after arXiv:2309.04742.

An ensemble θ¹ … θᴶ with mean m follows, by Trotter splitting with step Δτ,

    θ' = θ − ½Δτ P̂ Ψᵀ ( M Ψ(θ − m) + 2 (μ[y] − t) )                    (9), eqn:homotopy_stepping
    θ" = θ' − ½Δτ P̂' (Δτ diag(P̂') + P₀)⁻¹ (θ' + m' − 2m₀) + ½Δτ (θ' − m')
                                                                      (10), eqn:sampler_stepping

of docs/maths.md, where P̂ = Θ̂Θ̂ᵀ / ((1−ρ)(J−1)), (11), eqn:dropout_cov, is the covariance of
deviations of which a fraction ρ is set to zero, redrawn for each half step; μ[·] averages over the
ensemble, R holds y(1−y), and Ψ has a row for each row of data (the paper's Ψ is its transpose).
Inverting the diagonal alone in the second line is the paper's choice. It stops when the relative
change of P̂ from step to step, ‖P̂_{s+1} − P̂_s‖₂ / ‖P̂_s‖₂, falls below ε.

M tames the deviations, (12), eqn:K. `taming="consistent"` is M = (Δτ ΨP̂Ψᵀ + μ[R]⁻¹)⁻¹, which tends
to μ[R] as Δτ → 0, as the equation needs. `taming="printed"` is the paper's M = (Δτ ΨP̂Ψᵀ +
μ[R])⁻¹, which tends to μ[R]⁻¹. No N×N matrix is built: with P̂ = FFᵀ, docs/maths.md (13), the first
line needs F (I + Δτ FᵀHF)⁻¹ FᵀH(θ − m) with H = Ψᵀ W Ψ, W = μ[R] or μ[R]⁻¹; where J > D the same
is P̂ (I + Δτ H P̂)⁻¹ H (θ − m).

Only the deviations are tamed: the mean's step is explicit and needs Δτ λ_max(P̂H) < 2. With
`step_size=None` each step takes Δτ = ½ / (λ_max(P̂H) + λ_max(P̂P₀⁻¹)), at most ½. A fixed step that
is too long makes particles diverge; they are reset and counted, and an output that lost any has not
converged. Use this sampler to follow the paper; for the posterior itself, `exact_flow` needs
fewer steps and detects convergence.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp

from equivocal.sampling.engine.ensembles import (
    draw_standard_noise,
    find_largest_eigenvalue,
    repair,
    run_ensemble,
)
from equivocal.sampling.engine.inputs import check_choice, check_positive, fail
from equivocal.sampling.engine.placement import apply_one_by_one
from equivocal.sampling.engine.plan import Plan, make_plan
from equivocal.sampling.engine.problem import Problem
from equivocal.sampling.engine.programs import Array, Float, Int, PRNGKey, compile_on_call
from equivocal.sampling.engine.rows import Block, Blocks, Rows, sum_over_blocks
from equivocal.sampling.engine.settings import Outcome, RunSettings

__all__ = ["NUM_STEPS", "DropoutConfig"]

NUM_STEPS = 500
PADDED_FROM = 32  # weights; with fewer, padding costs more than it gains
LONGEST_STEP, SAFETY = 0.5, 0.5


class Taming(StrEnum):
    """Which M damps the deviations."""

    CONSISTENT = "consistent"  # (Δτ ΨP̂Ψᵀ + μ[R]⁻¹)⁻¹, consistent with the equation
    PRINTED = "printed"  # (Δτ ΨP̂Ψᵀ + μ[R])⁻¹, as printed in the paper


@dataclass(frozen=True, kw_only=True)
class DropoutConfig:
    """Settings of Algorithm 1. The paper prints neither J, Δτ nor ε."""

    dropout_rate: float = 0.3  # ρ
    step_size: float | None = None  # Δτ; None: the stable rule
    taming: str = Taming.CONSISTENT
    threshold: float = 1e-3  # ε

    def __post_init__(self) -> None:
        if not (isinstance(self.dropout_rate, int | float) and 0 <= self.dropout_rate < 1):
            fail(f"dropout_rate must lie in [0, 1), got {self.dropout_rate!r}.")
        if self.step_size is not None:
            check_positive(self.step_size, "step_size")
        check_positive(self.threshold, "threshold")
        check_choice(self.taming, "taming", list(Taming))


class DropoutState(NamedTuple):
    """The state that the next step reads."""

    particles: Float[Array, "K J D"]  # θ
    time: Float[Array, " K"]  # τ
    factor: Float[Array, "K J D"]  # rows of F at the last step, for the stopping rule
    lost: Int[Array, " K"]  # particles reset so far


class DropoutInfo(NamedTuple):
    """Quantities for diagnostics; `step` does not read them."""

    step_size: Float[Array, " K"]  # Δτ taken
    change: Float[Array, " K"]  # ‖P̂_s − P̂_{s−1}‖₂ / ‖P̂_{s−1}‖₂


def init(keys: PRNGKey, num_particles: int, num_features: int) -> DropoutState:
    """Draw θ_j ~ N(m₀, P₀), one key per output."""
    theta = draw_standard_noise(keys, num_particles, num_features).swapaxes(1, 2)
    zero = jnp.zeros(len(theta), theta.dtype)
    return DropoutState(theta, zero, jnp.zeros_like(theta), jnp.zeros(len(theta), int))


def fill_up(state: DropoutState, num_features: int) -> DropoutState:
    """Return the state with weights for columns of zeros added, which stay at zero."""
    pad = ((0, 0), (0, 0), (0, num_features - state.particles.shape[-1]))
    return jax.tree.map(lambda leaf: jnp.pad(leaf, pad) if leaf.ndim == 3 else leaf, state)


def drop_entries(
    keys: PRNGKey, deviations: Float[Array, "K J D"], rate: float
) -> Float[Array, "K J D"]:
    """Return Fᵀ, rows of deviations with a fraction `rate` of entries at zero; P̂ = F Fᵀ."""
    J = deviations.shape[1]
    if rate == 0:  # random numbers are a fifth of a step's time
        return deviations / jnp.sqrt(jnp.asarray(J - 1, deviations.dtype))
    kept = jax.vmap(lambda key: jax.random.bernoulli(key, 1 - rate, deviations.shape[1:]))(keys)
    return jnp.where(kept, deviations, 0) / jnp.sqrt((1 - rate) * (J - 1))  # maths (11)


@compile_on_call(static_argnames="config")
def _sum_rows(
    rows: Rows | Blocks,
    theta: Float[Array, "K J D"],
    F: Float[Array, "K J D"],
    config: DropoutConfig,
) -> tuple[Float[Array, "K D"], Float[Array, "K _ D"]]:
    """Return g = Ψᵀ(μ[y] − t), and FᵀH where J ≤ D, else H = ΨᵀWΨ, with row counts."""
    J, D = F.shape[1:]

    def sum_block(block: Block) -> tuple[Array, Array]:
        logits = jnp.matmul(theta, block.features.T) + block.offsets[:, None]
        e = jnp.exp(-jnp.abs(logits))  # one exponential for both y and y(1 − y), no digits lost
        larger = 1 / (1 + e)
        y = jnp.where(logits > 0, larger, e * larger)
        R = (e * larger * larger).mean(axis=1)
        W = R if config.taming == Taming.CONSISTENT else 1 / jnp.maximum(R, 1e-12)  # maths (12)
        left = jnp.matmul(F, block.features.T) if J <= D else block.features.T
        weighted = left * (block.counts * W)[:, None]
        g = (block.counts * y.mean(axis=1) - block.targets) @ block.features
        return g, jnp.matmul(weighted, block.features)

    return sum_over_blocks(sum_block, rows)


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
        inner = apply_one_by_one(jnp.linalg.solve, S, jnp.matmul(FH, deviations.swapaxes(1, 2)))
        return jnp.matmul(inner.swapaxes(1, 2), F)
    H, P = basis_H, jnp.matmul(F.swapaxes(1, 2), F)
    S = jnp.eye(D, dtype=F.dtype) + dt * jnp.matmul(H, P)
    inner = apply_one_by_one(jnp.linalg.solve, S, H)  # for D right-hand sides rather than J
    return jnp.matmul(deviations, jnp.matmul(inner.swapaxes(1, 2), P))


def _apply_covariance(F: Float[Array, "K J D"], x: Float[Array, "K D"]) -> Float[Array, "K D"]:
    """Return P̂ x."""
    return jnp.matmul(jnp.matmul(x[:, None], F.swapaxes(1, 2)), F)[:, 0]


def _choose_stable_step(
    F: Float[Array, "K J D"], basis_H: Float[Array, "K r D"]
) -> Float[Array, " K"]:
    """Return the Δτ that keeps the explicit step of the mean stable."""
    if F.shape[1] <= F.shape[2]:  # P̂H and FHFᵀ share their largest eigenvalue
        S = jnp.matmul(basis_H, F.swapaxes(1, 2))
        stiff = find_largest_eigenvalue(lambda x: jnp.matmul(S, x[..., None])[..., 0], F[:, :, 0])
    else:
        stiff = find_largest_eigenvalue(
            lambda x: _apply_covariance(F, jnp.matmul(basis_H, x[..., None])[..., 0]), F[:, 0]
        )
    prior = find_largest_eigenvalue(lambda x: _apply_covariance(F, x), F[:, 0])
    return jnp.minimum(SAFETY / (stiff + prior), LONGEST_STEP)


def _measure_change(F: Float[Array, "K J D"], before: Float[Array, "K J D"]) -> Float[Array, " K"]:
    """Return ‖P̂ − P̂_before‖₂ / ‖P̂_before‖₂."""
    P, P_before = (jnp.matmul(x.swapaxes(1, 2), x) for x in (F, before))

    def norm(A: Float[Array, "K D D"]) -> Float[Array, " K"]:
        return find_largest_eigenvalue(lambda x: jnp.matmul(A, x[..., None])[..., 0], F[:, 0])

    difference, size = norm(P - P_before), norm(P_before)
    return jnp.where(size > 0, difference / jnp.maximum(size, 1e-30), jnp.inf)


@compile_on_call()
def _split(keys: PRNGKey) -> PRNGKey:
    return jax.vmap(jax.random.split)(keys)


@compile_on_call(static_argnames="config")
def _drop_first(
    keys: PRNGKey, theta: Float[Array, "K J D"], config: DropoutConfig
) -> Float[Array, "K J D"]:
    return drop_entries(keys, theta - theta.mean(axis=1, keepdims=True), config.dropout_rate)


@compile_on_call(static_argnames="config")
def _move(
    keys: PRNGKey,
    state: DropoutState,
    F: Float[Array, "K J D"],
    g: Float[Array, "K D"],
    basis_H: Float[Array, "K _ D"],
    config: DropoutConfig,
    radius: Float[Array, ""] | float,
) -> tuple[DropoutState, DropoutInfo]:
    """Take both half steps, given the sums over rows."""
    theta = state.particles
    if config.step_size is None:
        dt = _choose_stable_step(F, basis_H)
    else:
        dt = jnp.full(len(F), config.step_size, F.dtype)
    h = dt[:, None, None]

    m = theta.mean(axis=1, keepdims=True)
    push = _apply_covariance(F, g)[:, None]
    half = theta - h / 2 * (_tame(F, basis_H, theta - m, h) + 2 * push)  # maths (9)

    m = half.mean(axis=1, keepdims=True)
    F2 = drop_entries(keys, half - m, config.dropout_rate)
    diagonal = h * (F2**2).sum(axis=1, keepdims=True) + 1  # Δτ diag(P̂) + P₀, prior N(0, I)
    pull = jnp.matmul((half + m) / diagonal, jnp.matmul(F2.swapaxes(1, 2), F2))
    full = half - h / 2 * pull + h / 2 * (half - m)  # maths (10)
    new, lost = repair(full, theta, radius)
    moved = DropoutState(new, state.time + dt, F, state.lost + lost.sum(axis=1))
    return moved, DropoutInfo(dt, _measure_change(F, state.factor))


def step(
    keys: PRNGKey,
    state: DropoutState,
    rows: Rows | Blocks,
    config: DropoutConfig,
    radius: Float[Array, ""] | float = jnp.inf,
) -> tuple[DropoutState, DropoutInfo]:
    """Take both half steps, with fresh dropout in each; compiled in parts, as `flow_step` is."""
    halves = _split(keys)
    F = _drop_first(halves[:, 0], state.particles, config)
    g, basis_H = _sum_rows(rows, state.particles, F, config)
    return _move(halves[:, 1], state, F, g, basis_H, config, radius)


def plan_run(problem: Problem, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time."""
    D, J = problem.num_features, settings.num_particles
    return make_plan(
        problem,
        settings.memory_budget,
        per_output=6 * J * D + 6 * D * D,
        per_row=4 * J + 2 * D,
        pad=D >= PADDED_FROM,
    )


def run(problem: Problem, config: DropoutConfig, settings: RunSettings) -> Outcome:
    """Run Algorithm 1 for all outputs."""
    D, J = problem.num_features, settings.num_particles
    plan = plan_run(problem, settings)

    def start(keys: PRNGKey, _: range) -> DropoutState:
        return fill_up(init(keys, J, D), plan.num_features)

    def advance(
        keys: PRNGKey, state: DropoutState, rows: Rows | Blocks
    ) -> tuple[DropoutState, Array]:
        moved, info = step(keys, state, rows, config, problem.radius)
        return moved, (info.change < config.threshold) & (moved.lost == state.lost)

    num_steps = settings.num_steps or NUM_STEPS
    unfinished = f"P̂ still changed by more than {config.threshold:g} per step"
    given = (problem, plan, settings, start, advance)
    outcome = run_ensemble(*given, num_steps=num_steps, unfinished=unfinished)
    outcome.in_subspace = config.dropout_rate == 0
    if config.step_size is not None:
        outcome.remedy = "leave step_size to the automatic rule or make it smaller"
    return outcome
