"""The verdict on Gaussianity: by draws where that is enough, else by chains, and without noise."""

import numpy as np
import pytest

from lastlayer.outcome import RunSettings
from lastlayer.problem import Likelihood, Problem
from lastlayer.variational import fit_gaussian
from lastlayer.verdict import SLIGHT_SHIFT, diagnose_gaussian, shrink_to_mean

SETTINGS = RunSettings(
    num_particles=200, num_steps=None, tolerance=5e-4, seed=0, memory_budget=None
)
RNG = np.random.default_rng(0)
N, D, K = 200, 6, 5
PSI = RNG.standard_normal((N, D)).astype(np.float32)
TARGETS = (RNG.random((N, K)) < 1 / (1 + np.exp(-PSI @ RNG.standard_normal((D, K))))).astype(float)


def _find_shifts(
    features: np.ndarray, targets: np.ndarray, variance: float, slight: float = SLIGHT_SHIFT
) -> np.ndarray:
    """Return the covariance shift of each output: by draws where it is slight, else by chains."""
    problem = Problem.build(
        features, targets, None, 0.0, variance, Likelihood.BERNOULLI, np.float32
    )
    return diagnose_gaussian(problem, fit_gaussian(problem, SETTINGS), SETTINGS, slight=slight)


@pytest.mark.parametrize("variance", [0.01, 0.1])
def test_draws_tell_a_slight_shift_as_chains_do(variance: float) -> None:
    """Within a factor of 1.5 or 0.002, as the verdict promises."""
    by_draws = _find_shifts(PSI[:60], TARGETS[:60], variance)
    assert (by_draws < SLIGHT_SHIFT).all(), "or chains were asked after all"
    by_chains = _find_shifts(PSI[:60], TARGETS[:60], variance, slight=0.0)
    near = np.abs(by_draws - by_chains) < 0.002
    near |= np.abs(np.log(by_draws / by_chains)) < np.log(1.5)
    assert near.all(), (by_draws, by_chains)


def test_doubtful_outputs_alone_get_chains() -> None:
    """Their shifts are those that they have where all outputs get chains."""
    wide = 3 * PSI[:30], np.column_stack([TARGETS[:30], np.full(30, 0.5)]), 9.0
    some, every = _find_shifts(*wide), _find_shifts(*wide, slight=0.0)
    doubtful = some >= SLIGHT_SHIFT
    assert 0 < doubtful.sum() < len(some)
    np.testing.assert_allclose(some[doubtful], every[doubtful], rtol=1e-3)


def test_identical_outputs_get_one_verdict() -> None:
    """Ten outputs without a yes, and another: chains of their own would differ by their noise."""
    targets = np.column_stack([np.zeros((30, 10)), TARGETS[:30, :1]])
    shifts = _find_shifts(PSI[:30], targets, 1.0, slight=0.0)
    assert len(np.unique(shifts[:10])) == 1
    assert shifts[10] != shifts[0]


def test_estimates_are_drawn_together_by_their_noise_alone() -> None:
    """Equal shifts with noise become nearly equal; what differs by more than noise hardly moves."""
    noise = np.exp(0.2 * RNG.standard_normal(200))
    few = 18  # trajectories: a relative variance of 0.75 / 18 = 0.2²
    drawn = shrink_to_mean(0.1 * noise, few)
    assert np.abs(np.log(drawn / 0.1)).max() < 0.15 < np.abs(np.log(noise)).max()
    apart = np.geomspace(0.01, 1.0, 200)
    np.testing.assert_allclose(shrink_to_mean(apart, few), apart, rtol=0.1)
    np.testing.assert_array_equal(shrink_to_mean(apart[:2], few), apart[:2])
