"""Ensembles of particles: drawn from a Gaussian with exactly its moments, and moved along τ.

Draws from N(m, GGᵀ) are

    θ_j = m + √(J−1) G e_j,   E = (e_1 … e_J),  E 1 = 0,  E Eᵀ = I          docs/maths.md (16)

E is the orthonormal factor of a centred Gaussian matrix, so it is uniformly distributed over all
such matrices, and the ensemble's mean and covariance are m and GGᵀ to round-off. That needs J > r,
the rank of G; otherwise draws are independent.

Particles are (K, J, D) in coordinates where the prior is N(0, I).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Bool, Float, Int, PRNGKey, compile_on_call
from lastlayer.devices import apply_one_by_one
from lastlayer.outcome import Outcome, RunSettings, Snapshot, make_keys
from lastlayer.plan import Plan
from lastlayer.problem import Problem
from lastlayer.streaming import iterate_outputs

POWER_ITERATIONS = 30  # accurate to a few per cent, enough for step sizes and stopping rules
# `Start` returns the first state of an ensemble, `Advance` the next one and which outputs stop
# there. A state holds `particles`, `time` and `lost`.
Start = Callable[[PRNGKey, range], Any]
Advance = Callable[[PRNGKey, Any, Any], tuple[Any, Bool[Array, " K"]]]
_forward = partial(jax.lax.linalg.triangular_solve, left_side=True, lower=True)


@compile_on_call(static_argnums=(1, 2))
def draw_standard_noise(keys: PRNGKey, num_particles: int, rank: int) -> Float[Array, "K r J"]:
    """Draw independent N(0, 1) numbers."""
    return jax.vmap(lambda key: jax.random.normal(key, (rank, num_particles)))(keys)


@compile_on_call(static_argnums=(1, 2))
def draw_whitened_noise(keys: PRNGKey, num_particles: int, rank: int) -> Float[Array, "K r J"]:
    """Draw √(J−1) E, maths (16): N(0, 1) numbers with mean 0 and covariance I exactly."""
    noise = draw_standard_noise(keys, num_particles, rank)
    # with hardly more draws than dimensions, a second round removes the round-off of the first
    for _ in range(1 if num_particles >= 1.5 * rank else 2):
        noise = noise - noise.mean(axis=-1, keepdims=True)
        gram = jnp.matmul(noise, noise.swapaxes(1, 2)) / (num_particles - 1)
        root = apply_one_by_one(jnp.linalg.cholesky, gram)
        noise = apply_one_by_one(_forward, root, noise)
    return noise


def draw_noise(seed: int, outputs: range | np.ndarray, num_particles: int, rank: int) -> np.ndarray:
    """Draw the noise of some outputs, always in double precision, which J = r + 1 requires."""
    with jax.enable_x64(True):
        return np.asarray(_draw_any_noise(make_keys(seed, outputs), num_particles, rank))


def _draw_any_noise(keys: PRNGKey, num_particles: int, rank: int) -> Float[Array, "K r J"]:
    """Draw whitened noise where there are enough particles for it, else independent noise."""
    make = draw_whitened_noise if num_particles > rank else draw_standard_noise
    return make(keys, num_particles, rank)


@compile_on_call(static_argnums=3)
def _draw(
    keys: PRNGKey, mean: Float[Array, "K D"], factor: Float[Array, "K D r"], num_particles: int
) -> Float[Array, "K J D"]:
    noise = _draw_any_noise(keys, num_particles, factor.shape[-1]).astype(mean.dtype)
    return mean[:, None] + jnp.matmul(factor, noise).swapaxes(1, 2)


def draw(
    mean: np.ndarray,
    factor: np.ndarray,
    num_particles: int,
    seed: int,
    numbers: np.ndarray | None = None,
) -> np.ndarray:
    """Draw (K, J, D) particles of N(m, GGᵀ) by maths (16); a few outputs at a time.

    `numbers` are those of the outputs among the caller's, where these are some of them.
    """
    K, D, r = factor.shape
    numbers = np.arange(K) if numbers is None else numbers
    particles = np.empty((K, num_particles, D), mean.dtype)
    together = max(1, (1 << 25) // (8 * r * max(r, num_particles)))
    for first in range(0, K, together):
        some = slice(first, min(first + together, K))
        with jax.enable_x64(True):
            keys = make_keys(seed, numbers[some])
            particles[some] = _draw(keys, mean[some], factor[some], num_particles)
    return particles


def find_largest_eigenvalue(
    apply: Callable[[Float[Array, "K n"]], Float[Array, "K n"]],
    like: Float[Array, "K n"],
    start: Float[Array, "K n"] | None = None,
) -> Float[Array, " K"]:
    """Find the largest modulus among the (real) eigenvalues of an operator, by power iteration.

    The operator takes arrays of the shape of `like`. The default of `start` has no symmetry, which
    would hide an eigenvector.
    """

    def iterate(_: Int[Array, ""], x: Float[Array, "K n"]) -> Float[Array, "K n"]:
        x = apply(x)
        return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-30)

    if start is None:
        start = jnp.broadcast_to(jnp.cos(jnp.arange(like.shape[-1], dtype=like.dtype)), like.shape)
    return jnp.linalg.norm(apply(jax.lax.fori_loop(0, POWER_ITERATIONS, iterate, start)), axis=-1)


def repair(
    new: Float[Array, "K J D"], old: Float[Array, "K J D"], radius: Float[Array, ""] | float
) -> tuple[Float[Array, "K J D"], Bool[Array, "K J"]]:
    """Reset particles that became non-finite or left the radius to their last position."""
    lost = ~(jnp.linalg.norm(new, axis=-1) <= radius)  # NaN is lost too
    return jnp.where(lost[..., None], old, new), lost


def run_ensemble(
    problem: Problem,
    plan: Plan,
    settings: RunSettings,
    start: Start,
    advance: Advance,
    *,
    num_steps: int,
    unfinished: str,
    finish: Callable[[Any, Any], None] | None = None,
) -> Outcome:
    """Move all outputs, one group after another, until they stop or have taken `num_steps`.

    An output has converged if `advance` stopped it (`unfinished` is the reason to report if not),
    and diverged if a particle had to be reset. `finish` is called with the last state of a group
    and its rows.
    """
    K, D, J = problem.num_outputs, problem.num_features, settings.num_particles
    particles = np.empty((K, J, D), problem.dtype)
    finished, steps, time = np.zeros(K, bool), np.zeros(K, int), np.zeros(K)
    lost = np.zeros(K, int)
    for some, rows in iterate_outputs(problem, plan, plan.slots):
        outputs = slice(some.start, some.stop)
        keys = make_keys(settings.seed, some)
        state = start(_fold_in(keys, 0), some)
        _observe(problem, settings, some, 0, state)
        done, taken = np.zeros(len(some), bool), np.zeros(len(some), int)
        for i in range(1, num_steps + 1):
            moved, stop = advance(_fold_in(keys, i), state, rows)
            # JAX may read this array later, so `done` is never written to
            state = _keep_finished(jnp.asarray(done), state, moved)
            taken = taken + ~done
            done = done | np.asarray(stop)
            _observe(problem, settings, some, i, state)
            here = int(np.where(done, num_steps, i).sum())
            settings.tell(some.start * num_steps + here, K * num_steps)
            if done.all():
                break
        finished[outputs], steps[outputs] = done, taken
        particles[outputs], time[outputs] = state.particles[..., :D], state.time
        lost[outputs] = state.lost
        if finish is not None:
            finish(state, rows)
    return Outcome(
        mean=particles.mean(axis=1),
        particles=particles,
        converged=finished & (lost == 0),
        diverged=lost > 0,
        divergence=f"diverged, and {lost.sum()} particles had to be reset: the step was too long",
        steps=steps,
        time=time,
        along_time=True,
        repaired=int(lost.sum()),
        stop_reason=unfinished if not finished.all() else "",
    )


@compile_on_call()
def _fold_in(keys: PRNGKey, step: int | Int[Array, ""]) -> PRNGKey:
    return jax.vmap(lambda key: jax.random.fold_in(key, step))(keys)


@compile_on_call()
def _keep_finished(finished: Bool[Array, " K"], state: Any, moved: Any) -> Any:
    """Return the moved state, with finished outputs of the group unchanged."""

    def pick(old: Array, new: Array) -> Array:
        return jnp.where(finished.reshape(-1, *[1] * (new.ndim - 1)), old, new)

    return jax.tree.map(pick, state, moved)


def _observe(problem: Problem, settings: RunSettings, some: range, step: int, state: Any) -> None:
    """Pass the ensemble to the caller's observer, if there is one."""
    if settings.observe is None:
        return
    outputs = slice(some.start, some.stop)
    particles = np.asarray(state.particles)[..., : problem.num_features]
    particles = problem.to_weights(particles, outputs)
    settings.observe(Snapshot(some, step, np.asarray(state.time), particles))
