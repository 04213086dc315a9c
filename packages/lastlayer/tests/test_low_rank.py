"""Posteriors in the principal subspace of the features: how far off, and what is said of it."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lastlayer import Posterior
from lastlayer.errors import UserError
from problems import sample_posterior

RNG = np.random.default_rng(0)
N, D, K = 600, 40, 3
BASIS = np.linalg.qr(RNG.normal(size=(D, D)))[0]
# directions of very different length, as features of a network have them
X = np.column_stack([RNG.normal(size=(N, D)) * np.geomspace(3, 2e-3, D) @ BASIS, np.ones(N)])
T = (RNG.random((N, K)) < 1 / (1 + np.exp(-X @ RNG.normal(size=(D + 1, K))))).astype(float)


@cache
def sample(**options: object) -> Posterior:
    return sample_posterior(X, T, diagnose=False, **options)


def measure_excess(found: Posterior, full: Posterior) -> float:
    """The excess of the variances of logits, summed over rows, at the worst output."""
    sums = [(posterior.logits(X)[1] ** 2).sum(axis=0) for posterior in (found, full)]
    return float((sums[0] / sums[1] - 1).max())


@pytest.mark.parametrize("method", ["exact-flow", "hmc"])
def test_auto_keeps_variances_within_its_tolerance(method: str) -> None:
    full, found = sample(method=method), sample(method=method, rank="auto")
    assert 10 < found.info.rank < 35
    assert 0 < found.info.rank_error <= 0.01
    noise = 0.0 if method == "exact-flow" else 0.05  # of 1,600 draws
    assert abs(measure_excess(found, full)) < 0.01 + noise
    away = (found.logits(X)[0] - full.logits(X)[0]) / full.logits(X)[1]
    assert np.sqrt((away**2).mean()) < 0.05 + noise
    covariance = np.stack([np.cov(w.T) for w in found.particles])
    np.testing.assert_allclose(covariance, found.covariance, atol=1e-6 if noise == 0 else 0.2)


@pytest.mark.parametrize("rank", [10, 20])
def test_the_stated_error_bounds_the_excess(rank: int) -> None:
    """And the other directions keep their prior: no variance is below the full posterior's."""
    found = sample(rank=rank)
    assert found.info.rank == rank
    assert 0 < measure_excess(found, sample()) <= found.info.rank_error
    assert f"fitted in {rank} of 41 directions" in found.info.message
    assert ("do not trust this" in found.info.message) == (found.info.rank_error > 1 / 8)
    others = np.linalg.eigh(X.T @ X)[1][:, : 41 - rank]
    along = np.einsum("ai,kij,jb->kab", others.T, found.covariance, others)
    np.testing.assert_allclose(along, np.broadcast_to(np.eye(41 - rank), along.shape), atol=1e-8)


def test_all_directions_are_the_full_posterior() -> None:
    found = sample(rank=99)
    np.testing.assert_allclose(found.mean, sample().mean, atol=1e-5)
    np.testing.assert_allclose(found.covariance, sample().covariance, atol=1e-6)
    assert found.info.rank_error == 0
    assert sample().info.rank is None


@pytest.mark.parametrize(
    "options", [{"rank": 0}, {"rank": "all"}, {"rank": 3, "prior_mean": 1.0}], ids=str
)
def test_impossible_ranks_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match="rank"):
        sample_posterior(X, T, **options)


def test_numbers_of_all_directions_are_not_stored(tmp_path: Path) -> None:
    """Predictions, a file and PyTorch take r² numbers per output, and say what all D² would."""
    found = sample(rank="auto")
    r = found.info.rank
    assert found.root.triangles.shape == (K, r, r)
    sd = np.sqrt(np.einsum("nd,kde,ne->nk", X, found.covariance, X))
    np.testing.assert_allclose(found.logits(X)[1], sd, rtol=1e-10)
    found.save(tmp_path / "p.safetensors")
    again = Posterior.load(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(again.logits(X)[1], found.logits(X)[1])
    np.testing.assert_array_equal(again.particles, found.particles)


@pytest.mark.parametrize("method", ["exact-flow", "laplace"])
def test_outputs_with_priors_of_their_own_have_subspaces_of_their_own(method: str) -> None:
    v = np.array([[0.1], [1.0], [0.1]])
    found = sample_posterior(X, T, method=method, prior_variance=v, rank=15, diagnose=False)
    for k in range(K):
        alone = sample_posterior(
            X, T[:, k], method=method, prior_variance=v[k, 0], rank=15, diagnose=False
        )
        np.testing.assert_allclose(found.covariance[k], alone.covariance[0], atol=1e-6)
        np.testing.assert_allclose(found.mean[k], alone.mean[0], atol=1e-6)
