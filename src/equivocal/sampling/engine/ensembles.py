"""What the samplers that carry particles share: their start, sums over rows, and the march in τ.

Particles are (K, J, D) in coordinates where the prior is N(0, I).
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.draws import standard_noise
from equivocal.sampling.engine.inputs import fail
from equivocal.sampling.engine.plan import Plan
from equivocal.sampling.engine.problem import Likelihood, Problem
from equivocal.sampling.engine.result import Outcome
from equivocal.sampling.engine.settings import RunSettings, Snapshot, output_keys
from equivocal.sampling.engine.shapes import Array, Bool, Float, Int, PRNGKey
from equivocal.sampling.engine.streaming import rows_by_outputs

__all__ = ["largest_eigenvalue", "prior_ensemble", "repaired", "require_bernoulli", "run_ensemble"]

PUT_BACK = "particles had to be put back on the way"
LEAPT = "a step was too long for the ensemble to follow"
POWER_ITERATIONS = 30  # to a few per cent, which is what a step-size rule or a stopping rule needs


def require_bernoulli(problem: Problem, method: str) -> None:
    """These samplers are written for yes/no outputs."""
    if problem.likelihood is Likelihood.SOFTMAX:
        fail(
            f"method {method!r} is for likelihood='bernoulli'; for a softmax use 'exact-flow', "
            "'mean-field' or 'laplace'."
        )


def prior_ensemble(keys: PRNGKey, num_particles: int, num_features: int) -> Float[Array, "K J D"]:
    """θ_j ~ N(0, I), independent."""
    return standard_noise(keys, num_particles, num_features).swapaxes(1, 2)


def largest_eigenvalue(
    apply: Callable[[Float[Array, "K n"]], Float[Array, "K n"]], like: Float[Array, "K n"]
) -> Float[Array, " K"]:
    """Of a positive operator (its own, or the modulus of a symmetric one's), by power iteration."""

    def iterate(_: Int[Array, ""], x: Float[Array, "K n"]) -> Float[Array, "K n"]:
        x = apply(x)
        return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-30)

    n = like.shape[-1]
    start = jnp.broadcast_to(jnp.cos(jnp.arange(n, dtype=like.dtype)), like.shape)  # no symmetry
    return jnp.linalg.norm(apply(jax.lax.fori_loop(0, POWER_ITERATIONS, iterate, start)), axis=-1)


def repaired(
    new: Float[Array, "K J D"], old: Float[Array, "K J D"], radius: Float[Array, ""] | float
) -> tuple[Float[Array, "K J D"], Bool[Array, "K J"]]:
    """Particles that left the numbers, or the posterior's reach, go back to where they were."""
    lost = ~(jnp.linalg.norm(new, axis=-1) <= radius)  # NaN is lost too
    return jnp.where(lost[..., None], old, new), lost


def run_ensemble(
    problem: Problem,
    plan: Plan,
    settings: RunSettings,
    start: Callable[[PRNGKey, range], Any],
    advance: Callable[[PRNGKey, Any, Any], tuple[Any, Bool[Array, " K"]]],
    num_steps: int,
    unfinished: str,
    leapt: Callable[[Any], Bool[Array, " K"]] | None = None,
) -> Outcome:
    """March all outputs; states hold `particles`, `time` and `lost`.

    An output has converged where `advance` said stop, no particle was ever put back, and the last
    state has not `leapt`. `unfinished` says in words what it means that it did not stop.
    """
    K, D, J = problem.num_outputs, problem.num_features, settings.num_particles
    particles = np.empty((K, J, D), problem.dtype)
    finished, steps, time = np.zeros(K, bool), np.zeros(K, int), np.zeros(K)
    lost, too_far = np.zeros(K, int), np.zeros(K, bool)
    for some, state, taken, done in _march(problem, plan, settings, start, advance, num_steps):
        outputs = slice(some.start, some.stop)
        particles[outputs], time[outputs] = state.particles[..., :D], state.time
        finished[outputs], steps[outputs] = done, taken
        lost[outputs] = state.lost
        too_far[outputs] = False if leapt is None else leapt(state)
    held = {unfinished: finished, PUT_BACK: lost == 0, LEAPT: ~too_far}
    return Outcome(
        mean=particles.mean(axis=1),
        particles=particles,
        converged=np.logical_and.reduce([*held.values()]),
        steps=steps,
        time=time,
        mean_residual=np.full(K, np.nan),
        covariance_residual=np.full(K, np.nan),
        repaired=int(lost.sum()),
        stop_reason=", and ".join(words for words, good in held.items() if not good.all()),
    )


def _march(
    problem: Problem,
    plan: Plan,
    settings: RunSettings,
    start: Callable[[PRNGKey, range], Any],
    advance: Callable[[PRNGKey, Any, Any], tuple[Any, Bool[Array, " K"]]],
    num_steps: int,
) -> Iterator[tuple[range, Any, np.ndarray, np.ndarray]]:
    """Advance groups of outputs until all of a group are finished, or for `num_steps`.

    Yields each group's outputs, last state, steps taken and whether each finished. A finished
    output stays where it is while its group goes on.
    """
    for some, rows in rows_by_outputs(problem, plan, plan.slots):
        keys = output_keys(settings.seed, some)
        state = start(jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys), some)
        _observe(problem, settings, some, 0, state)
        finished, steps = np.zeros(len(some), bool), np.zeros(len(some), int)
        for i in range(1, num_steps + 1):
            step_keys = jax.vmap(lambda key, i=i: jax.random.fold_in(key, i))(keys)
            moved, stop = advance(step_keys, state, rows)
            keep = jnp.asarray(finished)  # may be read later, so `finished` is never written to
            state = jax.tree.map(
                lambda new, old, keep=keep: jnp.where(
                    keep.reshape(-1, *[1] * (new.ndim - 1)), old, new
                ),
                moved,
                state,
            )
            steps = steps + ~finished
            finished = finished | np.asarray(stop)
            _observe(problem, settings, some, i, state)
            if finished.all():
                break
        yield some, state, steps, finished


def _observe(problem: Problem, settings: RunSettings, some: range, step: int, state: Any) -> None:
    if settings.observe is None:
        return
    outputs = slice(some.start, some.stop)
    particles = np.asarray(state.particles)[..., : problem.num_features]
    particles = problem.to_weights(particles, outputs)
    settings.observe(Snapshot(some, step, np.asarray(state.time), particles))
