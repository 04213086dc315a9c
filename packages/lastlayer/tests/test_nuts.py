"""NUTS against the Gaussian, and against itself in other coordinates."""

import jax
import numpy as np
import pytest

from lastlayer import (
    Posterior,
    sample_posterior,
)
from lastlayer import nuts as nuts_module
from lastlayer.nuts import NutsConfig
from problems import small


@pytest.fixture(scope="module")
def nuts() -> Posterior:
    return sample_posterior(*small(), method="nuts", num_particles=8000)


def standard_errors(chains: np.ndarray) -> np.ndarray:
    """Standard errors of the mean of each weight, from 8 batches of the draws, (D,)."""
    batches = np.stack([part.mean(axis=0) for part in np.array_split(chains, 8)])
    return batches.std(axis=0, ddof=1) / np.sqrt(8)


def assert_agree(one: Posterior, other: Posterior, worth: int) -> None:
    """Check that two samplers' moments differ by Monte Carlo error, each `worth` so many draws."""
    for k in range(2):
        error = np.hypot(standard_errors(one.particles[k]), standard_errors(other.particles[k]))
        # errors of 8 batches: P(|t₁₄| > 7) = 6e-6 for each of 8 weights
        assert (np.abs(one.mean[k] - other.mean[k]) < 7 * error).all()
        ratio = np.diag(one.covariance[k]) / np.diag(other.covariance[k])
        assert (np.abs(ratio - 1) < 5 * np.sqrt(4 / worth)).all()


def test_nuts_converges_and_needs_no_gaussian(nuts: Posterior) -> None:
    assert nuts.info.converged
    assert nuts.particles.shape == (2, 8000, 4)
    assert np.isnan(nuts.info.covariance_shift).all()
    gaussian = sample_posterior(*small())
    sd = np.sqrt(np.diagonal(gaussian.covariance, axis1=1, axis2=2))
    # the Gaussian's own distance on this mild posterior is below 0.02 sd; Monte Carlo adds 0.02
    assert (np.abs(nuts.mean - gaussian.mean) / sd < 0.1).all()
    tree = nuts.to_arviz()
    assert tree.posterior["weights"].shape == (4, 2000, 2, 4)


def test_preconditioned_nuts_has_the_same_posterior(nuts: Posterior) -> None:
    other = sample_posterior(*small(), method="nuts", num_particles=8000, preconditioned=True)
    assert other.info.converged
    assert not np.array_equal(other.particles, nuts.particles)
    assert_agree(other, nuts, worth=2000)


def test_nuts_moves_by_hand(nuts: Posterior) -> None:
    """A short chain of `init` and `step` stays where the posterior is."""
    x, t = small()
    zero = np.zeros(60)
    with jax.enable_x64(True):
        data = (x, zero + 1, t[:, 0], zero, np.zeros(4), np.eye(4))
        data = jax.tree.map(jax.numpy.asarray, data)
        state = nuts_module.init(jax.random.key(1), data, NutsConfig(), 50)
        advance = jax.jit(
            lambda chain: nuts_module.step(chain.rng_key, (state[0], chain), data)[0][1]
        )
        chain, draws = state[1], []
        for _ in range(250):
            chain = advance(chain)
            draws.append(np.asarray(chain.z["z"]))
    sd = np.sqrt(np.diag(nuts.covariance[0]))
    # 200 draws after the warm-up, at least 20 of them independent: five standard errors
    assert (np.abs(np.mean(draws[50:], axis=0) - nuts.mean[0]) < 5 * sd / np.sqrt(20)).all()
    assert (np.std(draws[50:], axis=0) > sd / 3).all()
