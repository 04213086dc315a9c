"""The homotopy method: from the prior at τ = 0 to the posterior at τ = 1, by the likelihood alone.

    dθ/dτ = −½ P Ψᵀ ( μ[R] Ψ(θ − m) + 2 (μ[y] − t) )                        docs/maths.md (20)

Pidstrigach and Reich, arXiv:2104.08061 (there with dropout and a tamed step). Over a step
H = Ψᵀ μ[R] Ψ is held fixed and g moves with m by H; with d = deviations/√(J−1), Z = Ψd and
S = ZᵀRZ = dᵀHd = V Λ Vᵀ this is solved by

    m ← m − d V diag(Δτ / (1 + ΔτΛ)) Vᵀ dᵀ g        d ← d V diag((1 + ΔτΛ)^(−½)) Vᵀ        (21)

A step is Δτ = κ/λ_max(S), so that each changes the ensemble by about the same share; the more
informative the data, the shorter the first steps. It stops at τ = 1, where errors can no longer be
corrected: an approximation even for infinitely many particles, good when the posterior is near the
prior. With J ≤ D the ensemble stays in its subspace.

Where the rows are saturated for every particle, S does not limit the step, and one step reaches
τ = 1. So an output counts as diverged if a particle was reset, or a step moved the mean by more
than `LONGEST_MOVE` of the ensemble's standard deviations; else as converged if it reached τ = 1.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.engine.ensembles import draw_standard_noise, repair, run_ensemble
from lastlayer.engine.inputs import check_positive
from lastlayer.engine.placement import apply_one_by_one
from lastlayer.engine.plan import Plan, make_plan
from lastlayer.engine.problem import Problem
from lastlayer.engine.programs import Array, Float, Int, PRNGKey, compile_on_call
from lastlayer.engine.rows import Block, Blocks, Rows, sum_over_blocks
from lastlayer.engine.settings import Outcome, RunSettings

NUM_STEPS = 1_000
LONGEST_MOVE = 10.0


@dataclass(frozen=True, kw_only=True)
class HomotopyConfig:
    """How fine the steps are."""

    step_size: float = 0.2  # κ, in units of 1/λ_max

    def __post_init__(self) -> None:
        # a step of 1/λ_max would not resolve the fastest rate
        check_positive(self.step_size, "step_size", below=1.0)


class HomotopyState(NamedTuple):
    """The state that the next step reads."""

    particles: Float[Array, "K J D"]  # θ
    time: Float[Array, " K"]  # τ in [0, 1]
    lost: Int[Array, " K"]  # particles reset so far
    longest: Float[Array, " K"]  # the mean's longest step so far, in sd of the ensemble


class HomotopyInfo(NamedTuple):
    """Quantities for diagnostics; `step` does not read them."""

    step_size: Float[Array, " K"]  # Δτ taken


def init(keys: PRNGKey, num_particles: int, num_features: int) -> HomotopyState:
    """Draw θ_j ~ N(m₀, P₀), one key per output."""
    theta = draw_standard_noise(keys, num_particles, num_features).swapaxes(1, 2)
    zero = jnp.zeros(len(theta), theta.dtype)
    return HomotopyState(theta, zero, jnp.zeros(len(theta), int), zero)


@compile_on_call(static_argnames="config")
def step(
    keys: PRNGKey,
    state: HomotopyState,
    rows: Rows | Blocks,
    config: HomotopyConfig,
    radius: Float[Array, ""] | float = jnp.inf,
) -> tuple[HomotopyState, HomotopyInfo]:
    """Take one step towards τ = 1, maths (20), (21); it is deterministic, the keys are not used."""
    del keys
    theta = state.particles
    J = theta.shape[1]
    m = theta.mean(axis=1)
    d = (theta - m[:, None]) / jnp.sqrt(J - 1)

    def sum_block(block: Block) -> tuple[Array, Array]:
        logits = jnp.matmul(theta, block.features.T) + block.offsets[:, None]
        y = jax.nn.sigmoid(logits)
        R = (y * jax.nn.sigmoid(-logits)).mean(axis=1)
        Z = jnp.matmul(d, block.features.T)  # rows are particles: Zᵀ of the docstring
        S = jnp.matmul(Z * (block.counts * R)[:, None], Z.swapaxes(1, 2))
        return S, jnp.matmul(Z, (block.counts * y.mean(axis=1) - block.targets)[..., None])[..., 0]

    S, dg = sum_over_blocks(sum_block, rows)
    lam, V = apply_one_by_one(jnp.linalg.eigh, S)
    lam = jnp.maximum(lam, 0)
    steepest = jnp.maximum(lam[:, -1], np.finfo(lam.dtype).tiny)
    dt = jnp.minimum(1 - state.time, config.step_size / steepest)
    shrink = 1 / (1 + dt[:, None] * lam)
    along = jnp.matmul(dg[:, None], V)[:, 0]
    push = jnp.matmul(V, (dt[:, None] * shrink * along)[..., None])[..., 0]
    root = jnp.matmul(V * jnp.sqrt(shrink)[:, None], V.swapaxes(1, 2))
    m = m - jnp.matmul(push[:, None], d)[:, 0]
    new, lost = repair(m[:, None] + jnp.sqrt(J - 1) * jnp.matmul(root, d), theta, radius)
    moved = HomotopyState(
        particles=new,
        time=state.time + dt,
        lost=state.lost + lost.sum(axis=1),
        longest=jnp.maximum(state.longest, jnp.linalg.norm(push, axis=1)),  # d dᵀ is P
    )
    return moved, HomotopyInfo(dt)


def plan_run(problem: Problem, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time."""
    D, J = problem.num_features, settings.num_particles
    per_output = 4 * J * D + 6 * J * J
    return make_plan(problem, settings.memory_budget, per_output=per_output, per_row=5 * J)


def run(problem: Problem, config: HomotopyConfig, settings: RunSettings) -> Outcome:
    """Carry all outputs from the prior to the posterior."""
    D, J = problem.num_features, settings.num_particles

    def advance(
        keys: PRNGKey, state: HomotopyState, rows: Rows | Blocks
    ) -> tuple[HomotopyState, Array]:
        state, _ = step(keys, state, rows, config, problem.radius)
        return state, state.time >= 1 - 1e-6

    longest: list[np.ndarray] = []
    outcome = run_ensemble(
        problem,
        plan_run(problem, settings),
        settings,
        lambda keys, _: init(keys, J, D),
        advance,
        num_steps=settings.num_steps or NUM_STEPS,
        unfinished="the number of steps ran out before τ = 1",
        finish=lambda state, _: longest.append(np.asarray(state.longest)),
    )
    outcome.in_subspace = True
    leapt = ~(np.concatenate(longest) <= LONGEST_MOVE)
    outcome.converged = outcome.converged & ~leapt
    outcome.diverged = outcome.diverged | leapt
    outcome.divergence = "diverged: a step was too long for the ensemble to follow"
    return outcome
