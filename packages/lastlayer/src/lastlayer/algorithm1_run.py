"""Algorithm 1 for all outputs: group by group, until the spread settles; what the verdict is.

The paper stops when ‖P̂_{s+1} − P̂_s‖₂ / ‖P̂_s‖₂ < ε, which any ensemble meets if its steps are short
enough. Here that change is divided by Δτ, and an output has converged only if, besides, the
equations of the fixed point hold where it stopped (`divergence`). One step is in `algorithm1`,
maths.md (9) and (10).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.algorithm1 import (
    DropoutConfig,
    DropoutState,
    Schedule,
    Taming,
    fill_up,
    init,
    step,
    sum_rows,
)
from lastlayer.checks import fail
from lastlayer.compiling import Array, Bool, Int, PRNGKey, compile_on_call
from lastlayer.divergence import Ending, compute_residuals, judge, look
from lastlayer.outcome import Outcome, RunSettings, Snapshot, make_keys
from lastlayer.problem import Problem
from lastlayer.rows import Plan, Rows, iterate_outputs, make_plan

NUM_STEPS = 500


def plan_run(problem: Problem, settings: RunSettings) -> Plan:
    """Return how many rows and outputs are worked on at a time."""
    D, J = problem.num_features, settings.num_particles
    sizes = {"per_output": 6 * J * D + 6 * D * D, "per_row": 4 * J + 2 * D}
    return make_plan(problem, settings.memory_budget, **sizes)


def run(problem: Problem, config: DropoutConfig, settings: RunSettings) -> Outcome:
    """Run Algorithm 1 for all outputs."""
    K, D, J = problem.num_outputs, problem.num_features, settings.num_particles
    if config.dropout_schedule == Schedule.SETTLE and J <= D:
        fail(
            f"dropout_schedule='settle' needs num_particles > {D}, the number of features, got "
            f"{J}: once dropout ends, {J} particles stay in {J - 1} dimensions."
        )
    plan, endings = plan_run(problem, settings), []
    outcome = Outcome(
        mean=np.empty((K, D), problem.dtype),
        particles=np.empty((K, J, D), problem.dtype),
        along_time=True,
        in_subspace=config.dropout_rate == 0,
    )
    for outputs, rows in iterate_outputs(problem, plan):
        state, settled, steps = _run_group(problem, config, settings, plan, outputs, rows)
        own = outputs[: K - int(outputs[0])]  # without those that fill the last group up
        end = examine_end(state, rows, D)
        endings.append(Ending(*(part[: len(own)] for part in end)))
        particles = np.asarray(state.particles)[: len(own), :, :D]
        assert outcome.particles is not None
        outcome.particles[own], outcome.mean[own] = particles, particles.mean(axis=1)
        outcome.time[own] = np.asarray(state.time)[: len(own)]
        outcome.converged[own], outcome.steps[own] = settled[: len(own)], steps[: len(own)]
    if not outcome.converged.all():
        outcome.stop_reason = f"P̂ still changed by more than {config.threshold:g} per unit of τ"
    judge(outcome, endings)
    _advise(outcome, config, D)
    return outcome


def _run_group(
    problem: Problem,
    config: DropoutConfig,
    settings: RunSettings,
    plan: Plan,
    outputs: np.ndarray,
    rows: Rows,
) -> tuple[DropoutState, np.ndarray, np.ndarray]:
    """Return the last state of some outputs, which of them have settled, and their steps."""
    K, num_steps = problem.num_outputs, settings.num_steps or NUM_STEPS
    keys = make_keys(settings.seed, outputs)
    start = init(
        _fold_in(keys, 0), settings.num_particles, problem.num_features, config.dropout_rate
    )
    state = fill_up(start, plan.num_features)
    done, steps = np.zeros(len(outputs), bool), np.zeros(len(outputs), int)
    _observe(problem, settings, outputs, 0, state)
    for i in range(1, num_steps + 1):
        moved, info = step(_fold_in(keys, i), state, rows, config, problem.radius)
        small = (info.change < config.threshold) & (moved.lost == state.lost)
        # JAX may read this array later, so `done` is never written to
        state = _keep_finished(jnp.asarray(done), state, moved)
        steps = steps + ~done
        done = done | np.asarray(small)
        _observe(problem, settings, outputs, i, state)
        here = int(np.where(done, num_steps, i).sum())
        settings.tell(min(int(outputs[0]) * num_steps + here, K * num_steps), K * num_steps)
        if done.all():
            break
    return state, done & (np.asarray(state.lost) == 0), steps


def examine_end(state: DropoutState, rows: Rows, num_features: int) -> Ending:
    """Sum the rows once more, at the last ensembles; columns of padding are left out."""
    theta, D = state.particles, num_features
    whole = jnp.broadcast_to(
        jnp.eye(theta.shape[2], dtype=theta.dtype), (len(theta), *[theta.shape[2]] * 2)
    )
    sums = sum_rows(rows, theta, whole, Taming.CONSISTENT)  # with F = I its curvature is H
    watch = look(state.watch, theta, sums.loss, state.steps)
    w, g, H = (np.asarray(part, float) for part in (theta, sums.gradient, sums.curvature))
    mean, covariance, worst = compute_residuals(w[..., :D], g[:, :D], H[:, :D, :D])
    return Ending(
        mean=mean,
        covariance=covariance,
        worst=worst,
        thrown_at=np.asarray(watch.thrown_at),
        thrown_by=np.asarray(watch.thrown_by),
        lost=np.asarray(state.lost),
        rank=np.full(len(g), min(theta.shape[1] - 1, D)),
    )


def _advise(outcome: Outcome, config: DropoutConfig, num_features: int) -> None:
    """Say what helps against divergence, and that constant dropout has another limit."""
    outcome.remedy = "make step_size smaller"
    if config.step_size is not None:
        outcome.remedy = "leave step_size to the automatic rule or make it smaller"
    constant = config.dropout_rate > 0 and config.dropout_schedule == Schedule.CONSTANT
    # a variance alone loses nothing
    if constant and num_features > 1 and not outcome.diverged.any():
        excess = round(1 / (1 - config.dropout_rate), 2)
        outcome.notes.append(
            f"constant dropout does not tend to the posterior (covariances {excess:g} times too "
            "large, or no limit): dropout_schedule='settle' does, with num_particles > "
            f"{num_features}"
        )


@compile_on_call()
def _fold_in(keys: PRNGKey, step: int | Int[Array, ""]) -> PRNGKey:
    return jax.vmap(lambda key: jax.random.fold_in(key, step))(keys)


@compile_on_call()
def _keep_finished(finished: Bool[Array, " K"], state: Any, moved: Any) -> Any:
    """Return the moved state, with finished outputs of the group unchanged."""

    def keep(old: Array, new: Array) -> Array:
        return jnp.where(finished.reshape(-1, *[1] * (new.ndim - 1)), old, new)

    return jax.tree.map(keep, state, moved)


def _observe(
    problem: Problem, settings: RunSettings, outputs: np.ndarray, step: int, state: Any
) -> None:
    """Pass the ensemble to the caller's observer, if there is one."""
    if settings.observe is None:
        return
    own = range(int(outputs[0]), min(int(outputs[0]) + len(outputs), problem.num_outputs))
    particles = np.asarray(state.particles)[: len(own), :, : problem.num_features]
    particles = problem.to_weights(particles, slice(own.start, own.stop))
    settings.observe(Snapshot(own, step, np.asarray(state.time)[: len(own)], particles))
