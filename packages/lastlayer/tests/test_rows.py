"""Rows in blocks: nothing depends on how they are handed over, and memory stays in its budget."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.sampler import BenchSettings, linearity

from lastlayer.ensembles import repair
from lastlayer.problem import Likelihood, Problem
from lastlayer.rows import lay_out
from problems import small


def test_features_handed_over_in_parts_are_the_same() -> None:
    """60 rows in 8 blocks, of which three, three and two go together; the last is filled up."""
    data = small()
    with jax.enable_x64(True):
        problem = Problem.build(*data, None, 0.0, [1, 4, 9, 16], Likelihood.BERNOULLI, "float64")
        whole = lay_out(problem, slice(None), 8, num_features=6)
        parts = lay_out(problem, slice(None), 8, num_features=6, handed_over=3 * 8 * 6 * 8)
    np.testing.assert_array_equal(parts.features, whole.features)
    flat = np.asarray(parts.features).reshape(64, 6)
    np.testing.assert_array_equal(flat[:60, :4], data.features * [1, 2, 3, 4])
    assert not flat[60:].any()
    assert not flat[:, 4:].any()


@pytest.mark.slow
def test_memory_stays_within_the_budget() -> None:
    """A process of its own, 100,000 rows: features once are 40 MB, for eight outputs 320 MB more.

    The budget is for working space; compiled programs take up to 100 MB beside it, as
    docs/scaling.md says. Seen: 265 and 304 MB.
    """
    settings = replace(BenchSettings(), num_particles=20, linear_steps=1, memory_budget=250_000_000)
    found = linearity.measure_in_child(100_000, 8, settings)
    assert "failed" not in found, found
    assert 40e6 < found["peak_bytes"] < settings.memory_budget + 100e6


def test_particles_that_are_not_finite_are_reset() -> None:
    old = np.zeros((1, 4, 2))
    new = np.array([[[1.0, 1.0], [np.nan, 0.0], [np.inf, 0.0], [50.0, 0.0]]])
    kept, lost = repair(jnp.asarray(new), jnp.asarray(old), radius=10.0)
    np.testing.assert_array_equal(lost, [[False, True, True, True]])
    np.testing.assert_array_equal(kept[0], [[1, 1], [0, 0], [0, 0], [0, 0]])
