"""Ensembles of particles, drawn from a Gaussian with exactly its moments.

Draws from N(m, GGᵀ) are

    θ_j = m + √(J−1) G e_j,   E = (e_1 … e_J),  E 1 = 0,  E Eᵀ = I          maths.md (16)

E is the orthonormal factor of a centred Gaussian matrix, so it is uniformly distributed over all
such matrices, and the ensemble's mean and covariance are m and GGᵀ to round-off. That needs J > r,
the rank of G; otherwise draws are independent.

Particles are (K, J, D) in coordinates where the prior is N(0, I).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from lastlayer.compiling import Array, Float, Int, PRNGKey, compile_on_call
from lastlayer.outcome import Outcome, RunSettings, make_keys

POWER_ITERATIONS = 30  # accurate to a few per cent, enough for step sizes and stopping rules
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
        root = jnp.linalg.cholesky(gram)
        noise = _forward(root, noise)
    return noise


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


def draw_particles(outcome: Outcome, settings: RunSettings, outputs: np.ndarray | None) -> None:
    """Give a Gaussian the particles and the covariance that other outcomes have."""
    if outcome.particles is None and outcome.factor is not None:
        G = np.asarray(outcome.factor)
        draws = outcome.mean, G, settings.num_particles, settings.seed
        outcome.particles = draw(*draws, outputs)
        outcome.covariance = np.matmul(G, G.swapaxes(1, 2))
