"""Small problems in NumPy: the answers of the compiled programs, without compiling."""

import logging

import jax
import numpy as np
import pytest

from lastlayer import logits as expectations
from lastlayer import sample_posterior, small
from lastlayer.logits import compute_moments
from lastlayer.sklearn import EnsembleKalmanClassifier, EnsembleKalmanMultilabel

RNG = np.random.default_rng(0)
N, D, K = 120, 5, 4
PSI = RNG.standard_normal((N, D))
LOGITS = 1.5 * PSI @ RNG.standard_normal((D, K)) + RNG.logistic(size=(N, K))
LABELS = (LOGITS > 0).astype(float)
WEIGHED = RNG.integers(0, 3, (N, K)).astype(float)
SOME = np.array([1.0, 0.0, 1.0, 1.0])  # the second output has no labels
CASES = {
    "labels": {"targets": LABELS},
    "single precision": {"targets": LABELS, "dtype": "float32"},
    "counts of rows": {"targets": 2 * LABELS, "counts": np.full(N, 2.0)},
    "counts of targets": {"targets": LABELS * WEIGHED, "counts": WEIGHED},
    "means of their own": {"targets": LABELS, "prior_mean": RNG.standard_normal((K, D))},
    "few rows, wide prior": {
        "features": PSI[:3],
        "targets": LABELS[:3],
        "prior_variance": 100.0,
    },
    "separable": {"targets": (PSI[:, :2] > 0).astype(float), "prior_variance": 100.0},
    "variances of their own": {"targets": LABELS, "prior_variance": [[0.1], [1], [1], [9]]},
    "no row that counts": {"targets": 0 * LABELS, "counts": np.zeros(N)},
    "an output without labels": {
        "targets": LABELS * SOME,
        "counts": np.tile(SOME, (N, 1)),
        "prior_variance": [[0.1], [1], [1], [9]],
    },
}


@pytest.mark.parametrize("name", CASES)
def test_same_posterior_as_by_compiled_programs(name: str) -> None:
    """Both stop within 1e-7 (float32: 5e-4) posterior sd of the fixed point: twice that is near."""
    asked = {"features": PSI, "diagnose": False} | CASES[name]
    near = 1e-3 if "dtype" in asked else 2e-7
    quick = sample_posterior(**asked)
    plain = sample_posterior(**asked, compiled=True)
    assert quick.info.converged
    assert plain.info.converged
    sd = np.sqrt(np.diagonal(plain.covariance, axis1=1, axis2=2))
    assert np.abs((quick.mean - plain.mean) / sd).max() < near
    ratio = np.matmul(np.linalg.inv(plain.covariance.astype(float)), quick.covariance)
    assert np.linalg.norm(ratio - np.eye(D), axis=(1, 2)).max() < 3 * near
    assert (quick.info.time[plain.info.time > 0] > 0).all()


def test_no_program_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    """Neither to choose the prior nor to predict; new sizes, so that no earlier test compiled."""
    with jax.log_compiles(True), caplog.at_level(logging.WARNING, "jax"):
        labels = EnsembleKalmanMultilabel().fit(PSI[:97, :3], LABELS[:97])
        labels.predict_proba(PSI[:31, :3])
        labels.entropies(PSI[:31, :3])
        EnsembleKalmanClassifier().fit(PSI[:97, :3], LABELS[:97, 0])
    assert "Finished XLA compilation" not in caplog.text


def test_same_bits_again() -> None:
    asked = {"prior_variance": "auto", "diagnose": False}
    first, second = (sample_posterior(PSI, LABELS, **asked) for _ in range(2))
    np.testing.assert_array_equal(first.mean, second.mean)
    np.testing.assert_array_equal(first.covariance, second.covariance)


def test_outputs_that_do_not_converge_are_solved_by_compiled_programs() -> None:
    """From a prior far off, two of these outputs need more steps than are taken in NumPy."""
    asked = {"prior_mean": 50.0, "prior_variance": 100.0, "diagnose": False}
    found = sample_posterior(PSI, LABELS, **asked)
    plain = sample_posterior(PSI, LABELS, **asked, compiled=True)
    assert found.info.converged
    assert (found.info.steps > small.STEPS).tolist() == [False, True, True, False]
    assert (plain.info.steps < small.STEPS).all(), "steps in NumPy are counted, too"
    sd = np.sqrt(np.diagonal(plain.covariance, axis1=1, axis2=2))
    assert np.abs((found.mean - plain.mean) / sd).max() < 2e-7


@pytest.mark.parametrize(
    ("dtype", "near", "least"), [(np.float32, 5e-6, 1e-12), (np.float64, 1e-13, 1e-100)]
)
def test_moments_are_those_of_the_compiled_program(dtype: type, near: float, least: float) -> None:
    """Relative, but for tails e^(−z²/2) so thin that the rounding of z²/2 shows."""
    mean = np.concatenate([np.linspace(-40, 40, 81), 10 ** np.linspace(-3, 3, 40)])
    mu, v = (x.ravel().astype(dtype) for x in np.meshgrid(mean, 10.0 ** np.arange(-6, 9)))
    with jax.enable_x64(dtype is np.float64):
        expected = jax.device_get(jax.jit(compute_moments)(mu, v))
    for name, found in expectations.compute_small_moments(mu, v)._asdict().items():
        lost = 100 if name == "excess" else 1  # a difference of terms that are alike for large |μ|
        np.testing.assert_allclose(found, getattr(expected, name), rtol=lost * near, atol=least)
