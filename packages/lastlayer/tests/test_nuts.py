"""NUTS against the Gaussian."""

import numpy as np
import pytest

from lastlayer import Posterior
from problems import sample_posterior, small


@pytest.fixture(scope="module")
def nuts() -> Posterior:
    return sample_posterior(*small(), method="nuts", num_particles=8000)


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
