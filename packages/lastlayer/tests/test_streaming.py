"""Rows read from files, and products of few digits: how far from rows in memory and float64."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from lastlayer import Posterior
from lastlayer.errors import UserError
from lastlayer.problem import Likelihood
from lastlayer.streaming import CHUNK, StreamedProblem
from problems import Data, Stored, sample_compiled, small

# Bytes: 16,001 rows of 16 features are 1 MB, of which two copies would be held; three outputs in
# flight take 1.7 MB.
SMALL_BUDGET = 2_000_000


@pytest.fixture(scope="module")
def data() -> Data:
    features, targets = small(num_outputs=3, num_rows=16_001, num_features=16)
    return Data(features.astype(np.float32), targets)


@pytest.fixture(scope="module")
def in_memory(data: Data) -> Posterior:
    return sample_compiled(*data, num_particles=20)


def mapped(folder: Path, array: np.ndarray) -> np.ndarray:
    np.save(folder / "array.npy", array)
    return np.load(folder / "array.npy", mmap_mode="r")


def assert_same(found: Posterior, expected: Posterior) -> None:
    """To round-off of float32: other sums come in another order."""
    assert found.info.converged
    sd = np.sqrt(np.diagonal(expected.covariance, axis1=1, axis2=2))
    assert (np.abs(found.mean - expected.mean) / sd).max() < 1e-3
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=2e-3, atol=1e-6)


CHUNK_ROWS = CHUNK // (8 * 4)


@pytest.fixture(scope="module")
def large() -> Data:
    """A chunk and ten rows."""
    features, targets = small(num_outputs=1, num_rows=CHUNK_ROWS + 10, num_features=8)
    return Data(features.astype(np.float32), targets)


@pytest.mark.longer
def test_double_precision_comes_through(data: Data) -> None:
    """JAX's callbacks run in a thread of their own, which would round to float32."""
    x, t = data.features.astype(np.float64), data.targets
    expected = sample_compiled(x, t, num_particles=20)
    found = sample_compiled(Stored(x), t, num_particles=20, memory_budget=2 * SMALL_BUDGET)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    assert found.mean.dtype == np.float64


@pytest.mark.longer
def test_a_file_is_read_in_chunks(large: Data) -> None:
    """The second chunk holds ten rows and is filled up."""
    stored, few = Stored(large.features), {"num_particles": 20, "num_steps": 8}
    found = sample_compiled(stored, large.targets, memory_budget=8_000_000, **few)
    assert_same(found, sample_compiled(*large, **few))
    assert len(stored.read) > 2 * 2  # one pass of checks, and the sums
    assert max(stored.read) == CHUNK_ROWS


def test_a_memory_mapped_file_gives_the_same_posterior(
    tmp_path: Path, data: Data, in_memory: Posterior
) -> None:
    found = sample_compiled(
        mapped(tmp_path, data.features), data.targets, num_particles=20, memory_budget=SMALL_BUDGET
    )
    assert_same(found, in_memory)


@pytest.mark.longer
def test_hdf5_with_counts_and_a_prior_mean(tmp_path: Path, data: Data) -> None:
    """Targets, counts and features in stores; sums over repetitions; every output its own prior."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 5, len(data.features)).astype(np.float32)
    given = {"features": data.features, "targets": data.targets * counts[:, None], "counts": counts}
    file = h5py.File(tmp_path / "given.h5", "w")
    stored = {
        name: file.create_dataset(name, data=array, chunks=(64, *array.shape[1:]))
        for name, array in given.items()
    }
    prior = {"prior_mean": rng.normal(size=(3, 16)), "prior_variance": 2.0, "num_particles": 20}
    expected = sample_compiled(**given, **prior)
    assert_same(sample_compiled(**stored, **prior, memory_budget=SMALL_BUDGET), expected)
    plenty = sample_compiled(**stored, **prior)  # loaded: the very same run
    np.testing.assert_array_equal(plenty.mean, expected.mean)


def test_errors_in_a_file_are_found_before_computing(tmp_path: Path, data: Data) -> None:
    spoilt = data.features.copy()
    spoilt[500, 2] = np.nan
    features = mapped(tmp_path, spoilt)
    with pytest.raises(UserError, match="must be finite, got nan"):
        sample_compiled(features, data.targets, memory_budget=SMALL_BUDGET)
    with pytest.raises(UserError, match="one row for each of the 16001"):
        sample_compiled(features, data.targets[:9], memory_budget=SMALL_BUDGET)
    with pytest.raises(UserError, match="'nuts' needs its rows in memory"):
        sample_compiled(features, data.targets, method="nuts", memory_budget=SMALL_BUDGET)
    with pytest.raises(UserError, match="load them for softmax"):
        sample_compiled(features, data.targets, likelihood="softmax", memory_budget=SMALL_BUDGET)


def test_a_row_of_a_later_chunk_is_named_by_the_chunk_it_is_in(large: Data) -> None:
    spoilt = large.features.copy()
    spoilt[CHUNK_ROWS + 6, 2] = np.inf
    with pytest.raises(UserError, match=rf"\(6, 2\).*from row {CHUNK_ROWS:,} of the file"):
        sample_compiled(Stored(spoilt), large.targets, memory_budget=8_000_000)


def test_changes_in_a_private_memory_map_are_read_and_kept(tmp_path: Path, data: Data) -> None:
    """`mmap_mode="c"`: changes are the process' own, and not in the file."""
    np.save(tmp_path / "array.npy", np.zeros_like(data.features))
    features = np.load(tmp_path / "array.npy", mmap_mode="c")
    features[:] = data.features
    given = (features, data.targets, None, 0.0, 1.0, Likelihood.BERNOULLI, None)
    problem = StreamedProblem.build(*given)
    for start in (0, 1_000, 0):  # pages that were read are forgotten
        psi, _, _ = problem.read(start, start + 500)
        np.testing.assert_array_equal(psi, data.features[start : start + 500])


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, data: Data) -> None:
    options = {"chunks": (500, 16), "fletcher32": True}  # a checksum for each chunk
    with h5py.File(tmp_path / "x.h5", "w") as file:
        begin = file.create_dataset("x", data=data.features, **options).id.get_chunk_info(3)
    with (tmp_path / "x.h5").open("r+b") as damaged:
        damaged.seek(begin.byte_offset)
        damaged.write(b"garbage")
    store = h5py.File(tmp_path / "x.h5")["x"]
    for budget, said in ((SMALL_BUDGET, "rows 0 to 16,"), (None, "features cannot be read")):
        with pytest.raises(UserError, match=rf"{said}.*; restore the file\."):
            sample_compiled(store, data.targets, memory_budget=budget)
