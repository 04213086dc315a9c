"""What must hold for any data (hypothesis), and that nothing finite ever comes out as NaN.

Sizes are drawn from few values: JAX compiles per shape, and the properties do not depend on it.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lastlayer
from lastlayer import Posterior
from lastlayer.errors import UserError

# A run stops at a residual of 1e-7 posterior sd: means and covariances of two runs on what must be
# the same posterior differ by no more than a few times that.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
PROBLEMS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=12, deadline=None)
# the verdict on a Gaussian takes as long as the rest and is no subject here
sample_posterior = partial(lastlayer.sample_posterior, prior_variance=1.0, diagnose=False)


def problem(seed: int, num_rows: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, 3)) * 10 ** rng.uniform(-1, 1)
    return x, (rng.random((num_rows, 2)) < rng.uniform(0.1, 0.9, 2)).astype(float)


def assert_same(one: Posterior, other: Posterior) -> None:
    np.testing.assert_allclose(one.mean, other.mean, **CLOSE)
    np.testing.assert_allclose(one.covariance, other.covariance, **CLOSE)


@FEW
@given(PROBLEMS)
def test_order_of_rows_columns_and_outputs_does_not_matter(seed: int) -> None:
    x, t = problem(seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(40), rng.permutation(3)
    plain = sample_posterior(x, t, diagnose=True)
    assert np.isfinite(plain.info.covariance_shift).all()
    assert_same(plain, sample_posterior(x[rows], t[rows]))
    permuted = sample_posterior(x[:, columns], t[:, ::-1])
    np.testing.assert_allclose(permuted.mean[::-1], plain.mean[:, columns], **CLOSE)


@FEW
@given(PROBLEMS)
def test_flipped_labels_flip_the_sign(seed: int) -> None:
    x, t = problem(seed)
    plain, flipped = sample_posterior(x, t), sample_posterior(x, 1 - t)
    np.testing.assert_allclose(flipped.mean, -plain.mean, **CLOSE)
    np.testing.assert_allclose(flipped.covariance, plain.covariance, **CLOSE)


@FEW
@given(PROBLEMS, st.floats(0.01, 100))
def test_feature_scale_is_prior_scale(seed: int, scale: float) -> None:
    x, t = problem(seed)
    scaled = sample_posterior(scale * x, t)
    wider = sample_posterior(x, t, prior_variance=scale**2)
    np.testing.assert_allclose(scale * scaled.mean, wider.mean, rtol=1e-4, atol=1e-4)


@FEW
@given(PROBLEMS)
def test_rotations_rotate_under_an_isotropic_prior(seed: int) -> None:
    x, t = problem(seed)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    plain, rotated = sample_posterior(x, t), sample_posterior(x @ Q, t)
    np.testing.assert_allclose(rotated.mean @ Q.T, plain.mean, **CLOSE)
    np.testing.assert_allclose(Q @ rotated.covariance @ Q.T, plain.covariance, **CLOSE)


@FEW
@given(PROBLEMS)
def test_counts_are_repetitions_and_zero_rows_change_nothing(seed: int) -> None:
    x, t = problem(seed)
    # as many rows each time, so that JAX compiles their sampler once
    repeats = np.random.default_rng(seed).permutation(np.resize([0, 1, 2], 40))
    repeated = sample_posterior(np.repeat(x, repeats, axis=0), np.repeat(t, repeats, axis=0))
    counted = sample_posterior(x, t * repeats[:, None], counts=repeats)
    assert_same(repeated, counted)
    padded = sample_posterior(
        np.concatenate([x, np.zeros((5, 3))]), np.concatenate([t, np.ones((5, 2))])
    )
    assert_same(sample_posterior(x, t), padded)


@pytest.mark.parametrize("method", ["exact-flow", "dropout-deterministic"])
def test_an_output_does_not_depend_on_other_outputs(method: str) -> None:
    """Other outputs beside: the same answer, to round-off."""
    x, t = problem(2, num_rows=300)
    options = {"method": method, "num_particles": 8, "num_steps": 20}
    plain = sample_posterior(x, t, **options)
    alone = sample_posterior(x, t[:, :1], **options)
    np.testing.assert_allclose(alone.particles[0], plain.particles[0], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    PROBLEMS,
    st.sampled_from([1, 2, 40]),
    st.floats(-12, 12),
    st.floats(-8, 8),
    st.sampled_from([0.0, 1e2, -1e4]),
    st.sampled_from(["float32", "float64"]),
)
def test_a_result_or_a_clear_error_never_nan(
    seed: int, num_rows: int, scale: float, variance: float, logit: float, dtype: str
) -> None:
    """Features from 1e-12 to 1e12, prior variances from 1e-8 to 1e8, logits of ±1e4."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_rows, 3)) * 10**scale
    t = rng.integers(0, 2, size=(num_rows, 2))
    m0 = logit / 10**scale
    try:
        posterior = lastlayer.sample_posterior(
            x, t, prior_mean=m0, prior_variance=10**variance, dtype=dtype, num_steps=50
        )
    except UserError:
        return
    for array in (posterior.particles, posterior.mean, posterior.covariance):
        assert np.isfinite(array).all()
    probability = posterior.predict_proba(x)
    assert ((probability >= 0) & (probability <= 1)).all()
    assert posterior.info.message
