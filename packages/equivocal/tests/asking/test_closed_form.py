"""Closed forms of Gaussian logits against brute force, for one network and for several."""

import numpy as np
import pytest
from scipy.special import expit, ndtr, ndtri

from equivocal.asking.ensembles import NODES, QUANTILE, compute_beliefs
from lastlayer.logits import make_kolmogorov_nodes

MEAN = np.array([-9.0, -2.0, 0.0, 0.3, 4.0, 7.0], np.float32)
SD = np.array([2.0, 0.1, 16.0, 1.0, 3.0, 0.0], np.float32)
SHARES = (np.arange(400_000) + 0.5) / 400_000  # a fine rule in place of draws


def integrate(mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[y] and E[H(y)], by the midpoint rule over quantiles."""
    y = expit(mean.astype(float)[:, None] + sd[:, None] * ndtri(SHARES))
    entropy = -y * np.log(np.maximum(y, 1e-300)) - (1 - y) * np.log(np.maximum(1 - y, 1e-300))
    return y.mean(axis=1), entropy.mean(axis=1)


def test_nodes_are_those_of_the_samplers() -> None:
    np.testing.assert_allclose(NODES.T, make_kolmogorov_nodes(np.float32), rtol=1e-6)
    assert pytest.approx(ndtri(0.95), abs=1e-12) == QUANTILE


def test_one_network() -> None:
    found = compute_beliefs(MEAN[None], SD[None])
    bayes, expected = integrate(MEAN, SD)
    np.testing.assert_allclose(found.bayes, bayes, atol=2e-6)
    np.testing.assert_allclose(found.entropy - found.epistemic, expected, atol=1e-5)
    np.testing.assert_allclose(found.low, expit(MEAN - ndtri(0.95) * SD), rtol=1e-5)
    np.testing.assert_allclose(found.high, expit(MEAN + ndtri(0.95) * SD), rtol=1e-5)
    assert (found.epistemic >= 0).all()


def test_several_networks_are_a_mixture() -> None:
    mean, sd = np.stack([MEAN, -MEAN, MEAN + 1]), np.stack([SD, SD[::-1], SD + 0.5])
    each = [compute_beliefs(one[None], of[None]) for one, of in zip(mean, sd, strict=True)]
    found = compute_beliefs(mean, sd)
    np.testing.assert_allclose(found.bayes, np.mean([one.bayes for one in each], axis=0))
    coarse = SHARES[::40]
    pooled = [mean[:, u, None] + sd[:, u, None] * ndtri(coarse) for u in range(len(MEAN))]
    for ours, share in ((found.low, 0.05), (found.high, 0.95)):
        exact = expit([np.quantile(one, share) for one in pooled])
        np.testing.assert_allclose(ours, exact, atol=2e-3)
    within = np.mean([one.epistemic for one in each], axis=0)
    between = found.epistemic - within
    own = np.mean([one.entropy for one in each], axis=0)
    np.testing.assert_allclose(between, found.entropy - own, atol=1e-5)
    assert (between > -1e-5).all()
    copies = np.stack([MEAN] * 3), np.stack([SD] * 3)
    one, same = compute_beliefs(MEAN[None], SD[None]), compute_beliefs(*copies)
    for ours, alone in zip(same, one, strict=True):  # copies of one network are that network
        np.testing.assert_allclose(ours, alone, atol=1e-5)


@pytest.mark.parametrize("networks", [2, 3, 7])
def test_quantiles_of_any_mixture_are_found(networks: int) -> None:
    """Narrow beside wide, near beside far, and no spread at all, against the definition."""
    rng = np.random.default_rng(networks)
    mean = rng.normal(0, 6, (networks, 4000)).astype(np.float32)
    sd = (10 ** rng.uniform(-4, 1.5, mean.shape)).astype(np.float32)
    sd[:, :20] = 0
    found = compute_beliefs(mean, sd)
    low, high = np.full((2, 4000), -200.0), np.full((2, 4000), 200.0)
    wanted = np.array([0.05, 0.95])[:, None]
    for _ in range(60):
        middle = (low + high) / 2
        below = ndtr((middle[:, None] - mean) / np.maximum(sd, 1e-6)).mean(axis=1) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    np.testing.assert_allclose([found.low, found.high], expit(low), atol=5e-6)
