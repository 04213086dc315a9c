"""Rows that the budget has no room to lay out at once, or that are in a file, chunk by chunk."""

from pathlib import Path

import numpy as np
import pytest

from lastlayer import Posterior
from lastlayer.plan import Plan
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import CHUNK, StreamedRows, iterate_outputs
from problems import Data, sample_compiled, small

# Bytes: 16,001 rows of 16 features are 1 MB, of which two copies would be held; three outputs in
# flight take 1.7 MB.
SMALL_BUDGET = 2_000_000


@pytest.fixture(scope="module")
def data() -> Data:
    features, targets = small(num_outputs=3, num_rows=16_001, num_features=16)
    return Data(features.astype(np.float32), targets)


def assert_same(found: Posterior, expected: Posterior) -> None:
    """To round-off of float32: other sums come in another order."""
    assert found.info.converged
    sd = np.sqrt(np.diagonal(expected.covariance, axis1=1, axis2=2))
    assert (np.abs(found.mean - expected.mean) / sd).max() < 1e-3
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=2e-3, atol=1e-6)


def test_a_memory_mapped_file_gives_the_same_posterior(tmp_path: Path, data: Data) -> None:
    np.save(tmp_path / "array.npy", data.features)
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    found = sample_compiled(mapped, data.targets, num_particles=20, memory_budget=SMALL_BUDGET)
    assert_same(found, sample_compiled(*data, num_particles=20))


def test_counts_and_a_prior_mean(data: Data) -> None:
    """Counts of each target; every output its own prior mean."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, (16_001, 3)).astype(np.float32)
    given = {"features": data.features, "targets": data.targets * counts, "counts": counts}
    given |= {"prior_mean": rng.normal(size=(3, 16)), "prior_variance": 2.0, "num_particles": 20}
    assert_same(sample_compiled(**given, memory_budget=SMALL_BUDGET), sample_compiled(**given))


@pytest.mark.longer
def test_double_precision_comes_through(data: Data) -> None:
    """JAX's callbacks run in a thread of their own, which would round to float32."""
    x, t = data.features.astype(np.float64), data.targets
    expected = sample_compiled(x, t, num_particles=20)
    found = sample_compiled(x, t, num_particles=20, memory_budget=2 * SMALL_BUDGET)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    assert found.mean.dtype == np.float64


def test_the_last_chunk_is_filled_up() -> None:
    """A chunk and ten rows: the second chunk holds ten, and rows that count zero times."""
    number = CHUNK // (8 * 4)
    features, targets = small(num_outputs=1, num_rows=number + 10, num_features=8)
    given = features, targets, None, 0.0, 1.0, Likelihood.BERNOULLI, np.float32
    plan = Plan(block_rows=512, slots=1, num_features=8, streamed=True)
    rows = next(iterate_outputs(Problem.build(*given), plan))[1]
    assert isinstance(rows, StreamedRows)
    assert rows.num_chunks == 2
    psi, counts, t, _ = rows.read_chunk(1)
    np.testing.assert_allclose(psi[0, :10], features[number:], rtol=1e-6)
    np.testing.assert_array_equal(t[0, 0, :10], targets[number:, 0])
    assert counts.sum() == 10
