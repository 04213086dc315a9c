"""Simulation-based calibration: truths drawn from the prior must rank uniformly among the draws.

All simulations are outputs of one problem: they share the features, each has its own truth and
targets, so one call samples them all. A few by default; 1,000 with `make test-slow`.
"""

import numpy as np
import pytest
from scipy import stats

from problems import sample_posterior

D, N = 5, 30


def ranks(method: str, simulations: int, num_particles: int, **options: object) -> np.ndarray:
    """(simulations, quantities) ranks in [0, 1] of weights, log-likelihood, product and logit."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(N, D))
    truth = rng.normal(size=(simulations, D))
    t = (rng.random((N, simulations)) < 1 / (1 + np.exp(-x @ truth.T))).astype(float)
    posterior = sample_posterior(x, t, method=method, num_particles=num_particles, **options)
    new = rng.normal(size=D)

    def quantities(theta: np.ndarray) -> np.ndarray:  # (simulations, ..., D)
        a = np.einsum("...d,nd->...n", theta, x)
        shape = (simulations, *[1] * (theta.ndim - 2), N)
        log_likelihood = (t.T.reshape(shape) * a - np.logaddexp(0, a)).sum(axis=-1)
        extra = [log_likelihood, theta[..., 0] * theta[..., 1], theta @ new]
        return np.concatenate([theta, np.stack(extra, axis=-1)], axis=-1)

    below = quantities(posterior.particles) < quantities(truth)[:, None]
    noise = rng.random((simulations, D + 3))  # randomised ranks are exactly uniform
    return (below.sum(axis=1) + noise) / (num_particles + 1)


def p_values(values: np.ndarray) -> np.ndarray:
    """Kolmogorov–Smirnov of each quantity's ranks against the uniform law."""
    return np.array([stats.kstest(column, "uniform").pvalue for column in values.T])


@pytest.mark.parametrize(("method", "number"), [("exact-flow", 63), ("hmc", 64)])
def test_ranks_are_nearly_uniform(method: str, number: int) -> None:
    """128 simulations see a gross error (a wrong prior, a lost factor), not the Gaussian's own."""
    values = ranks(method, 128, number)
    assert (p_values(values) > 1e-4).all()  # 8 quantities: a false alarm in 1,000 runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [("hmc", {}), ("nuts", {"num_steps": 300})],
)
def test_exact_samplers_have_uniform_ranks(method: str, options: dict[str, float]) -> None:
    """1,000 simulations; draws that are nearly independent (64 of each posterior)."""
    values = ranks(method, 1000, 64, **options)
    assert (p_values(values) > 1e-4).all()


@pytest.mark.slow
def test_gaussian_family_shows_its_mild_deviation() -> None:
    """Skewness that a Gaussian cannot have: ranks of the weights stay within 0.08 of uniform,
    and the log-likelihood, which sees it most, is where the distance is largest.
    """
    values = ranks("exact-flow", 1000, 63)
    distance = np.array([stats.kstest(column, "uniform").statistic for column in values.T])
    assert (distance[:D] < 0.08).all()
    assert distance.max() < 0.2
