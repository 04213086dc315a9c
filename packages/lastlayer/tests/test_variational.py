"""One fixed point, wherever its sums are made: in NumPy, by shared products, or by blocks."""

import logging
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from lastlayer import Posterior, variational
from lastlayer.covariance import make_triangular
from lastlayer.errors import UserError
from lastlayer.logits import compute_moments
from lastlayer.outcome import Outcome, RunSettings
from lastlayer.problem import Likelihood, Problem
from lastlayer.shared import share_rows
from lastlayer.variational import RULE, _flow_by_blocks, _flow_in_numpy, fit_gaussian
from problems import sample_compiled, sample_posterior

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


SETTINGS = RunSettings(num_particles=20, num_steps=None, tolerance=5e-4, seed=0, memory_budget=None)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing to NumPy."""
    monkeypatch.setattr(variational, "MOST_NUMPY_WORK", 0)
    monkeypatch.setattr(variational, "LAST_SHARE", 10**9)


@pytest.mark.parametrize("name", CASES)
def test_numpy_has_the_posterior_of_compiled_programs(name: str) -> None:
    """Both stop within 1e-7 (float32: 5e-4) posterior sd of the fixed point: twice that is near."""
    asked = {"features": PSI, "diagnose": False} | CASES[name]
    near = 1e-3 if "dtype" in asked else 2e-7
    quick, plain = sample_posterior(**asked), sample_compiled(**asked)
    assert quick.info.converged
    assert plain.info.converged
    sd = np.sqrt(np.diagonal(plain.covariance, axis1=1, axis2=2))
    assert np.abs((quick.mean - plain.mean) / sd).max() < near
    ratio = np.matmul(np.linalg.inv(plain.covariance.astype(float)), quick.covariance)
    assert np.linalg.norm(ratio - np.eye(D), axis=(1, 2)).max() < 3 * near


def test_small_problems_compile_no_program(caplog: pytest.LogCaptureFixture) -> None:
    """New sizes, so that no earlier test compiled."""
    with jax.log_compiles(True), caplog.at_level(logging.WARNING, "jax"):
        sample_posterior(PSI[:97, :3], LABELS[:97], diagnose=False).predict_proba(PSI[:31, :3])
    assert "Finished XLA compilation" not in caplog.text


@pytest.mark.parametrize(
    ("dtype", "near", "least"), [(np.float32, 5e-6, 1e-12), (np.float64, 1e-13, 1e-100)]
)
def test_moments_in_numpy_are_those_of_the_program(dtype: type, near: float, least: float) -> None:
    """Relative, but for tails e^(−z²/2) so thin that the rounding of z²/2 shows."""
    mean = np.concatenate([np.linspace(-40, 40, 81), 10 ** np.linspace(-3, 3, 40)])
    mu, v = (x.ravel().astype(dtype) for x in np.meshgrid(mean, 10.0 ** np.arange(-6, 9)))
    with jax.enable_x64(dtype is np.float64):
        expected = jax.device_get(jax.jit(compute_moments)(mu, v))
    for found, other in zip(compute_moments(mu, v), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=near, atol=least)


def make_problem(
    num_outputs: int = 3, variance: float = 1.0, strength: float = 1.0, dtype: str = "float32"
) -> Problem:
    """Rows whose classes overlap (strength 1) or are separable (100), with counts."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones((300, 1)), rng.normal(size=(300, 6))], axis=1).astype(dtype)
    counts = rng.integers(1, 20, 300)
    rate = expit(strength * x @ rng.normal(size=(7, num_outputs)))
    targets = rng.binomial(counts[:, None], rate)
    return Problem.build(x, targets, counts, 0.0, variance, Likelihood.BERNOULLI, dtype)


def assert_same(found: Outcome, expected: Outcome, tolerance: float) -> None:
    assert found.converged.all()
    assert expected.converged.all()
    sd = np.linalg.norm(expected.factor, axis=2)
    assert (np.abs(found.mean - expected.mean) / sd).max() < tolerance
    np.testing.assert_allclose(np.linalg.norm(found.factor, axis=2), sd, rtol=tolerance)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("variance", "strength"), [(1.0, 1.0), (5.0, 100.0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shared_products_blocks_and_numpy_give_one_posterior(
    variance: float, strength: float, dtype: str
) -> None:
    """Each run is within its tolerance of the fixed point, so within twice that of each other."""
    problem = make_problem(variance=variance, strength=strength, dtype=dtype)
    settings = replace(SETTINGS, tolerance=5e-4 if dtype == "float32" else 1e-7)
    with jax.enable_x64(dtype == "float64"), jax.default_matmul_precision("highest"):
        found = fit_gaussian(problem, settings)
        blocks = _flow_by_blocks(problem, settings, RULE, None)
        in_numpy = _flow_in_numpy(problem, settings, RULE, None)
    for other in (blocks, in_numpy):
        other.factor = make_triangular(other.factor)
        assert_same(found, other, 2 * settings.tolerance)
    assert found.steps.max() <= blocks.steps.max() + 1


@pytest.mark.usefixtures("compiled")
def test_outputs_that_shared_products_cannot_solve_go_on_by_blocks() -> None:
    """Features of sizes 1 and 1e9: in float32 H has no digit left of the small ones."""
    problem = make_problem()
    features = problem.features * np.array([1e9, 1, 1, 1, 1, 1, 1], np.float32)
    problem = replace(problem, features=features)
    with jax.default_matmul_precision("highest"):
        found = fit_gaussian(problem, SETTINGS)
        expected = _flow_by_blocks(problem, SETTINGS, RULE, None)
        expected.factor = make_triangular(expected.factor)
    assert_same(found, expected, 2e-3)


@pytest.mark.parametrize("products", [True, False])
def test_products_give_variances_and_curvatures(products: bool) -> None:
    """(26) against the plain formulas; float64, so that only round-off is allowed."""
    rng = np.random.default_rng(0)
    psi, G, w = rng.normal(size=(40, 5)), rng.normal(size=(3, 5, 5)), rng.random((3, 40))
    with jax.enable_x64(True):
        shared = share_rows(jnp.asarray(psi)[None], products)
        v = shared.compute_variances(jnp.asarray(G))
        H = shared.compute_curvatures(jnp.asarray(w))
    P = G @ G.swapaxes(1, 2)
    np.testing.assert_allclose(v, np.einsum("ni,kij,nj->kn", psi, P, psi), rtol=1e-12)
    np.testing.assert_allclose(H, np.einsum("kn,ni,nj->kij", w, psi, psi), rtol=1e-12, atol=1e-12)


def test_the_last_outputs_end_in_numpy_where_compiled_programs_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to six of 48 may be left over; in float64, so that nothing but the way can differ."""
    rng = np.random.default_rng(1)
    psi = rng.standard_normal((3_000, 24))
    strength = np.geomspace(0.1, 8, 48)  # the strongest take more steps
    targets = rng.random((3_000, 48)) < 1 / (1 + np.exp(-psi[:, :1] * strength))
    problem = Problem.build(psi, targets, None, 0.0, 9.0, Likelihood.BERNOULLI, np.float64)
    told: list[tuple[int, int]] = []
    settings = replace(SETTINGS, tolerance=1e-7, report=lambda *progress: told.append(progress))
    with jax.enable_x64(True):
        ended = fit_gaussian(problem, settings)
        monkeypatch.setattr(variational, "LAST_SHARE", 10**9)
        compiled = fit_gaussian(problem, settings)
    assert told[-1] == (48, 48)
    assert compiled.converged.all()
    assert ended.converged.all()
    assert not np.array_equal(ended.mean, compiled.mean), "or no output was left to NumPy"
    np.testing.assert_allclose(ended.mean, compiled.mean, atol=1e-6)
    np.testing.assert_allclose(ended.factor, compiled.factor, atol=1e-6)


def test_many_rows_begin_with_a_share_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same fixed point, in no more steps over all rows than from the prior."""
    rng = np.random.default_rng(0)
    x = np.concatenate([np.ones((4_001, 1)), rng.normal(size=(4_001, 7))], axis=1)
    t = (rng.random(4_001) < 1 / (1 + np.exp(9 - 4 * x[:, 1]))).astype(float)
    given = x.astype(np.float32), np.stack([t] * 3, 1), None, 0.0, 100.0
    problem = Problem.build(*given, Likelihood.BERNOULLI, None)
    expected = fit_gaussian(problem, replace(SETTINGS, num_steps=1_000))  # by blocks, from there
    monkeypatch.setattr(variational, "MANY_ROWS", 4_000)
    monkeypatch.setattr(variational, "ROW_SHARE", 2)
    found = fit_gaussian(problem, SETTINGS)
    assert found.steps.max() <= expected.steps.max()
    assert_same(found, expected, 1e-3)


def test_a_small_budget_gives_the_same_posterior_or_is_refused() -> None:
    """Two copies of 16,001 × 16 numbers are 2.1 MB; one output at a time takes 0.3 MB more."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16_001, 16)).astype(np.float32)
    t = rng.random((16_001, 3)) < expit(x @ rng.normal(size=(16, 3)))
    counts = rng.integers(1, 5, t.shape).astype(np.float32)
    given = {"features": x, "targets": t * counts, "counts": counts, "num_particles": 20}
    given |= {"prior_mean": rng.normal(size=(3, 16)), "diagnose": False}
    small = sample_compiled(**given, memory_budget=3_000_000)
    plain = sample_compiled(**given)
    sd = np.sqrt(np.diagonal(plain.covariance, axis1=1, axis2=2))
    assert (np.abs(small.mean - plain.mean) / sd).max() < 1e-3
    np.testing.assert_allclose(small.covariance, plain.covariance, rtol=2e-3, atol=1e-6)
    with pytest.raises(UserError, match=r"16,001 rows × 16 features need at least 2,\d{3},\d{3}"):
        sample_compiled(**given, memory_budget=2_000_000)


def test_factors_that_stay_on_a_device_give_the_same_answers(tmp_path: Path) -> None:
    """As on a GPU: no factor is copied, and predictions, draws and files are those of the host."""
    problem = make_problem(num_outputs=3)
    asked = {name: getattr(problem, name) for name in ("features", "targets", "counts")}
    asked |= {"tolerance": 1e-4}
    host = sample_compiled(**asked)
    asked |= {"keep_on_device": True}
    device = sample_compiled(**asked)
    assert isinstance(device.root.inner, jax.Array)
    psi = problem.features[:50]
    np.testing.assert_allclose(device.predict_proba(psi), host.predict_proba(psi), atol=1e-5)
    np.testing.assert_allclose(device.logits(psi)[1], host.logits(psi)[1], rtol=1e-4)
    assert max(device.info.covariance_shift.max(), host.info.covariance_shift.max()) < 0.01
    np.testing.assert_allclose(device.particles, host.particles, atol=1e-3)
    device.save(tmp_path / "p.safetensors")
    again = Posterior.load(tmp_path / "p.safetensors")
    np.testing.assert_allclose(again.logits(psi)[1], host.logits(psi)[1], rtol=1e-4)
    exact = sample_compiled(**asked, method="hmc")
    np.testing.assert_allclose(exact.logits(psi)[0], host.logits(psi)[0], atol=0.02)
