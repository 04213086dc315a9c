"""Draws from the Gaussian N(m, GGᵀ), with exactly its moments where there are enough of them.

    θ_j = m + √(J−1) G e_j,   E = (e_1 … e_J),  E 1 = 0,  E Eᵀ = I          docs/maths.md (16)

E is the orthonormal factor of a centred Gaussian matrix, so it is uniformly distributed over all
such matrices, and the ensemble's mean and covariance are m and GGᵀ to round-off. That needs J > r
(the rank of G); fewer draws are plain independent ones.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from equivocal.sampling.engine.placement import apply_one_by_one
from equivocal.sampling.engine.programs import compile_on_call
from equivocal.sampling.engine.settings import make_keys
from equivocal.sampling.engine.shapes import Array, Float, PRNGKey


@compile_on_call(static_argnums=(1, 2))
def draw_standard_noise(keys: PRNGKey, num_particles: int, rank: int) -> Float[Array, "K r J"]:
    """Draw independent N(0, 1) numbers."""
    return jax.vmap(lambda key: jax.random.normal(key, (rank, num_particles)))(keys)


_forward = partial(jax.lax.linalg.triangular_solve, left_side=True, lower=True)


@compile_on_call(static_argnums=(1, 2))
def draw_whitened_noise(keys: PRNGKey, num_particles: int, rank: int) -> Float[Array, "K r J"]:
    """Draw √(J−1) E, maths (16): N(0, 1) numbers with mean 0 and covariance I exactly."""
    noise = draw_standard_noise(keys, num_particles, rank)
    # where there are hardly more draws than dimensions, a second round removes what round-off left
    for _ in range(1 if num_particles >= 1.5 * rank else 2):
        noise = noise - noise.mean(axis=-1, keepdims=True)
        gram = jnp.matmul(noise, noise.swapaxes(1, 2)) / (num_particles - 1)
        root = apply_one_by_one(jnp.linalg.cholesky, gram)
        noise = apply_one_by_one(_forward, root, noise)
    return noise


def draw_noise(seed: int, outputs: range, num_particles: int, rank: int) -> np.ndarray:
    """Draw the noise of some outputs, always in double precision: J = r + 1 needs it."""
    with jax.enable_x64(True):
        return np.asarray(_draw_any_noise(make_keys(seed, outputs), num_particles, rank))


def _draw_any_noise(keys: PRNGKey, num_particles: int, rank: int) -> Float[Array, "K r J"]:
    make = draw_whitened_noise if num_particles > rank else draw_standard_noise
    return make(keys, num_particles, rank)


@compile_on_call(static_argnums=3)
def _draw(
    keys: PRNGKey, mean: Float[Array, "K D"], factor: Float[Array, "K D r"], num_particles: int
) -> Float[Array, "K J D"]:
    noise = _draw_any_noise(keys, num_particles, factor.shape[-1]).astype(mean.dtype)
    return mean[:, None] + jnp.matmul(factor, noise).swapaxes(1, 2)


def draw(mean: np.ndarray, factor: np.ndarray, num_particles: int, seed: int) -> np.ndarray:
    """Draw (K, J, D) particles of N(m, GGᵀ) by maths (16); a few outputs at a time."""
    K, D, r = factor.shape
    particles = np.empty((K, num_particles, D), mean.dtype)
    together = max(1, (1 << 25) // (8 * r * max(r, num_particles)))
    for first in range(0, K, together):
        some = slice(first, min(first + together, K))
        with jax.enable_x64(True):
            keys = make_keys(seed, range(some.start, some.stop))
            particles[some] = _draw(keys, mean[some], factor[some], num_particles)
    return particles
