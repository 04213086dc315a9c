"""ALDI: Langevin dynamics preconditioned by the ensemble's own covariance.

    dθ_j = [ C ∇log π(θ_j) + (D+1)/J (θ_j − m) ] dt + √2 C^{1/2} dW_j       docs/maths.md (22)

θ_j: particle j of J in ℝᴰ.  m: ensemble mean.  C = (1/J) Σ_j (θ_j − m)(θ_j − m)ᵀ.
C^{1/2} is the D×J matrix of θ_j − m over √J, so W_j ∈ ℝᴶ and no matrix root is taken.
π: the posterior, with ∇log π = Ψᵀ(t − c y) − P₀⁻¹(θ − m₀).
Garbuno-Inigo, Nüsken and Reich (2020), arXiv:1912.02859.

Its long-run law is the exact posterior (J > D + 1), up to the O(Δt) bias of the Euler–Maruyama
step, so it represents skewness, which no Gaussian method does. The ensemble starts at the Gaussian
of `mean_field`, where C is right from the first step on. Mean and covariance are averages over the
second half of the run; the particles are the last ensemble. It is suited to problems of small and
moderate size: each step costs N·D·J.

An output counts as converged if the means of the last two quarters agree to 0.2 posterior standard
deviations, no particle was reset, and the run was long enough to judge that: a total time
num_steps·Δt of at least 5, since with C right every direction forgets its start as e^(−t).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.engine.ensembles import draw_standard_noise, repair, run_ensemble
from lastlayer.engine.inputs import check_positive, fail
from lastlayer.engine.plan import Plan, make_plan
from lastlayer.engine.problem import Problem
from lastlayer.engine.programs import Array, Float, Int, PRNGKey, compile_on_call
from lastlayer.engine.rows import Block, Blocks, Rows, sum_over_blocks
from lastlayer.engine.settings import Outcome, RunSettings
from lastlayer.samplers import mean_field

NUM_STEPS = 2_000
SHORTEST_TIME = 5.0  # num_steps·Δt; e^(−5) of the start is left
STEADY = 0.2  # posterior sd by which the means of the last two quarters may differ


@dataclass(frozen=True, kw_only=True)
class AldiConfig:
    """Settings of the discretisation."""

    step_size: float = 0.02  # Δt; variances come out about Δt/2 too large

    def __post_init__(self) -> None:
        check_positive(self.step_size, "step_size", below=1.0)


class AldiState(NamedTuple):
    """The state that the next step reads, and sums over the second half of the run."""

    particles: Float[Array, "K J D"]  # θ
    time: Float[Array, " K"]  # t
    steps: Int[Array, " K"]
    lost: Int[Array, " K"]  # particles reset so far
    third: Float[Array, "K D"]  # Σ of ensemble means over the third quarter
    fourth: Float[Array, "K D"]  # … and the fourth
    second_moment: Float[Array, "K D D"]  # Σ of (1/J) Σ_j θ_j θ_jᵀ over both


class AldiInfo(NamedTuple):
    """Quantities for diagnostics; `step` does not read them."""

    mean: Float[Array, "K D"]  # m
    spread: Float[Array, " K"]  # trace(C); falls to 0 if the ensemble collapses


def init(particles: Float[Array, "K J D"]) -> AldiState:
    """Start from any ensemble of J > D + 1 particles."""
    K, _, D = particles.shape
    zero, zeros = jnp.zeros(K, particles.dtype), jnp.zeros((K, D), particles.dtype)
    count = jnp.zeros(K, int)
    return AldiState(
        particles, zero, count, count, zeros, zeros, jnp.zeros((K, D, D), particles.dtype)
    )


@compile_on_call(static_argnames=("config", "num_steps"))
def step(
    keys: PRNGKey,
    state: AldiState,
    rows: Rows | Blocks,
    config: AldiConfig,
    num_steps: int,
    radius: Float[Array, ""] | float = jnp.inf,
) -> tuple[AldiState, AldiInfo]:
    """Take one Euler–Maruyama step of maths (22); `num_steps` says where quarters of a run end."""
    theta, dt = state.particles, config.step_size
    J, D = theta.shape[1:]

    def gradient(block: Block) -> Array:
        y = jax.nn.sigmoid(jnp.matmul(theta, block.features.T) + block.offsets[:, None])
        return jnp.matmul(block.targets[:, None] - block.counts * y, block.features)

    grad = sum_over_blocks(gradient, rows) - theta
    m = theta.mean(axis=1, keepdims=True)
    centred = theta - m  # rows θ_j − m
    C = jnp.matmul(centred.swapaxes(1, 2), centred) / J
    drift = jnp.matmul(grad, C) + (D + 1) / J * centred
    # noise lives in ensemble space (J×J), so one key gives one path in any coordinates
    noise = jnp.matmul(draw_standard_noise(keys, J, J), centred) / jnp.sqrt(J)
    new, lost = repair(theta + dt * drift + jnp.sqrt(2 * dt) * noise, theta, radius)

    count = state.steps[0]
    third = jnp.where((count >= num_steps // 2) & (count < 3 * num_steps // 4), 1, 0)
    fourth = jnp.where(count >= 3 * num_steps // 4, 1, 0)
    moment = jnp.matmul(new.swapaxes(1, 2), new) / J
    moved = AldiState(
        particles=new,
        time=state.time + dt,
        steps=state.steps + 1,
        lost=state.lost + lost.sum(axis=1),
        third=state.third + third * new.mean(axis=1),
        fourth=state.fourth + fourth * new.mean(axis=1),
        second_moment=state.second_moment + (third + fourth) * moment,
    )
    return moved, AldiInfo(m[:, 0], (centred**2).sum(axis=(1, 2)) / J)


def plan_run(problem: Problem, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time."""
    D, J = problem.num_features, settings.num_particles
    per_output = 8 * J * D + 2 * J * J + 4 * D * D
    return make_plan(problem, settings.memory_budget, per_output=per_output, per_row=4 * J)


def run(problem: Problem, config: AldiConfig, settings: RunSettings) -> Outcome:
    """Run ALDI for all outputs, from the Gaussian of `mean_field`."""
    D, J = problem.num_features, settings.num_particles
    num_steps = settings.num_steps or NUM_STEPS
    if J <= D + 1:
        fail(
            f"num_particles must exceed D + 1 = {D + 1} for method 'aldi', got {J}: fewer "
            f"particles cannot leave the subspace they start in. Use num_particles >= {D + 2}."
        )
    unlimited = replace(settings, num_steps=None, report=None)
    gaussian = mean_field.run_gaussian(problem, mean_field.RULE, unlimited)
    mean, factor = gaussian.mean, gaussian.factor
    assert factor is not None, "mean-field gives a factor"
    plan = plan_run(problem, settings)
    last: list[AldiState] = []

    def start(keys: PRNGKey, outputs: range) -> AldiState:
        some = slice(outputs.start, outputs.stop)
        moved = jnp.matmul(factor[some], draw_standard_noise(keys, J, D)).swapaxes(1, 2)
        return init(jnp.asarray(mean)[some, None] + moved)

    def advance(keys: PRNGKey, state: AldiState, rows: Rows | Blocks) -> tuple[AldiState, Array]:
        state, _ = step(keys, state, rows, config, num_steps, problem.radius)
        done = int(state.steps[0]) == num_steps
        if done:
            last.append(state)
        return state, jnp.full(len(state.steps), done)

    unfinished = "the number of steps ran out"  # never reported: `advance` stops at num_steps
    given = (problem, plan, settings, start, advance)
    outcome = run_ensemble(*given, num_steps=num_steps, unfinished=unfinished)
    outcome.remedy = "make step_size smaller, the prior narrower, or use method='exact-flow'"
    _summarise(outcome, last, num_steps, num_steps * config.step_size)
    return outcome


def _summarise(outcome: Outcome, last: list[AldiState], num_steps: int, time: float) -> None:
    """Average over the second half of the run, and judge whether it has converged."""
    third_size = 3 * num_steps // 4 - num_steps // 2
    fourth_size = num_steps - 3 * num_steps // 4
    sums = ((state.third, state.fourth, state.second_moment) for state in last)
    third, fourth, moment = (np.concatenate(part) for part in zip(*sums, strict=True))
    size = third_size + fourth_size
    outcome.mean = (third + fourth) / size
    outer = outcome.mean[:, :, None] * outcome.mean[:, None, :]
    outcome.covariance = moment / size - outer
    sd = np.sqrt(np.maximum(np.diagonal(outcome.covariance, axis1=1, axis2=2), 1e-30))
    gap = np.abs(third / max(third_size, 1) - fourth / max(fourth_size, 1)) / sd
    outcome.mean_residual = gap.max(axis=1)
    steady = outcome.mean_residual < STEADY
    long_enough = time >= SHORTEST_TIME * (1 - 1e-9)
    reasons = [outcome.stop_reason] * bool(outcome.stop_reason)
    if not steady.all():
        reasons.append("the means of the last two quarters of the run still differ")
    if not long_enough:
        reasons.append(
            f"a time num_steps × step_size of {time:g} is too short to tell, it takes "
            f"{SHORTEST_TIME:g}: raise num_steps"
        )
    outcome.converged = outcome.converged & steady & long_enough
    outcome.stop_reason = ", and ".join(reasons)
