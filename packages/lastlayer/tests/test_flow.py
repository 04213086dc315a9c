"""Exact flow and its mean-field limit: what must coincide does, and rates are as derived."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lastlayer.flow import flow_step, start_flow
from lastlayer.variational import RULE
from problems import rows_of, sample_compiled, small


def moments_at(mean: np.ndarray, covariance: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """E[σ] and E[σ'] along each row by 120-point Gauss–Hermite: another way than ours."""
    z, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    sd = np.sqrt(np.einsum("nd,de,ne->n", x, covariance, x))
    y = 1 / (1 + np.exp(-(x @ mean)[:, None] - sd[:, None] * z))
    return y @ w, (y * (1 - y)) @ w


@pytest.mark.parametrize("method", ["exact-flow"])
def test_fixed_point_equations_hold(method: str) -> None:
    """P⁻¹ = Ψᵀ E[R] Ψ + P₀⁻¹ and Ψᵀ(E[y] − t) + P₀⁻¹(m − m₀) = 0, checked from outside."""
    x, t = small()
    m0, v = np.array([0.2, -1.0, 0.0, 1.0]), np.array([0.5, 2.0, 1.0, 9.0])
    posterior = sample_compiled(x, t, prior_mean=m0, prior_variance=v, method=method)
    for k in range(2):
        y, r = moments_at(posterior.mean[k], posterior.covariance[k], x)
        precision = x.T @ (r[:, None] * x) + np.diag(1 / v)
        # the residual that is expected after the last step is at most 1e-7
        np.testing.assert_allclose(posterior.covariance[k] @ precision, np.eye(4), atol=1e-6)
        gradient = x.T @ (y - t[:, k]) + (posterior.mean[k] - m0) / v
        assert np.abs(posterior.covariance[k] @ gradient).max() < 1e-6


def test_bound_rises_and_is_the_evidence_bound() -> None:
    """Steps never lower maths (4), which is below the evidence, here by importance sampling."""
    x, t = small()
    rows = rows_of(small())
    bounds = []
    with jax.enable_x64(True):
        state = start_flow(jnp.zeros((2, 4)), jnp.broadcast_to(jnp.eye(4), (2, 4, 4)))
        for _ in range(12):
            state, _ = flow_step(state, rows, RULE)
            bounds.append(np.asarray(state.bound))
        mean, factor = np.asarray(state.mean), np.asarray(state.factor)
    assert (np.diff(bounds, axis=0) > -1e-9).all()
    z = np.random.default_rng(0).normal(size=(20_000, 4))
    for k in range(2):
        theta = mean[k] + z @ factor[k].T
        a = theta @ x.T
        log_p = (t[:, k] * a - np.logaddexp(0, a)).sum(axis=1) - (theta**2).sum(axis=1) / 2
        log_q = -(z**2).sum(axis=1) / 2 - np.linalg.slogdet(factor[k])[1]
        log_w = log_p - log_q
        evidence = np.log(np.exp(log_w - log_w.max()).mean()) + log_w.max()
        # the bound leaves out D/2, the entropy's constant
        gap = evidence - (bounds[-1][k] + 2)
        assert 0 < gap < 0.05  # KL(q | p) of a mild posterior; Monte Carlo error 0.002
        assert abs(log_w.mean() - (bounds[-1][k] + 2)) < 5 * log_w.std() / np.sqrt(20_000)


@pytest.mark.parametrize("method", ["exact-flow", "laplace"])
def test_linear_gaussian_limit(method: str) -> None:
    """Rows ε ψ seen 1/ε² times: log p is quadratic up to O(ε), and the answer is linear algebra."""
    x, _ = small()
    epsilon = 1e-3
    counts = np.full(60, 1 / epsilon**2)
    t = counts[:, None] / 2 + np.random.default_rng(3).normal(size=(60, 2)) / epsilon
    posterior = sample_compiled(epsilon * x, t, counts=counts, method=method)
    precision = x.T @ x / 4 + np.eye(4)
    mean = np.linalg.solve(precision, epsilon * x.T @ (t - counts[:, None] / 2)).T
    np.testing.assert_allclose(posterior.covariance[0], np.linalg.inv(precision), rtol=1e-4)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("scale", "variance"), [(1.0, 25.0), (1e3, 1.0), (1.0, 1e8)])
def test_separable_rows_converge_without_tuning(scale: float, variance: float, dtype: str) -> None:
    x, _ = small()
    t = np.stack([x[:, 1] > 0, x[:, 2] > 0.5], axis=1)
    posterior = sample_compiled(scale * x, t, prior_variance=variance, dtype=dtype)
    assert posterior.info.converged
    assert (posterior.predict_proba(scale * x)[t] > 0.5).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e4, 1e12, "mixed"])
def test_astronomical_features_converge(scale: object, dtype: str) -> None:
    """Overlapping classes; a column may be 1e24 times another."""
    x, t = small()
    factors = np.array([1e-12, 1e12, 1.0, 1e5]) if scale == "mixed" else np.full(4, scale)
    posterior = sample_compiled(factors * x, t, prior_variance=1 / factors**2, dtype=dtype)
    plain = sample_compiled(x, t, dtype=dtype)
    assert posterior.info.converged
    # the prior is scaled along, so this is the same problem in other units
    np.testing.assert_allclose(factors * posterior.mean, plain.mean, rtol=1e-3, atol=1e-4)
    fixed = sample_compiled(factors * x, t, dtype=dtype)
    assert fixed.info.converged


def test_too_few_particles_are_flagged_and_lose_only_the_ensemble() -> None:
    x, t = small()
    whole = sample_compiled(x, t)
    quadrature = sample_compiled(x, t, num_particles=3)
    np.testing.assert_array_equal(quadrature.mean, whole.mean)
    assert "span only 2 of 4" in quadrature.info.message


def test_running_out_of_steps_is_said() -> None:
    posterior = sample_compiled(*small(), num_steps=2)
    assert not posterior.info.converged
    np.testing.assert_array_equal(posterior.info.steps, [2, 2])
    assert "do not trust this yet" in posterior.info.message
    assert "the number of steps ran out" in posterior.info.message


@pytest.mark.parametrize("seed", [2, 5, 21])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_surely_wrong_priors_and_large_counts_converge(seed: int, dtype: str) -> None:
    """Logits of ±30 that thousands of observations contradict: means overshoot unless watched."""
    rng = np.random.default_rng(seed)
    x = 1 / (1 + np.exp(-3 * rng.normal(size=(60, 20))))
    x[:, -1] = 1
    theta = 5 * rng.normal(size=20)
    counts = rng.integers(1, 1_000, 60)
    yes = rng.binomial(counts, 1 / (1 + np.exp(-(x @ theta + 3 * rng.normal(size=60)))))
    posterior = sample_compiled(
        x.astype(dtype),
        yes,
        counts=counts,
        prior_mean=theta + 2.5 * rng.normal(size=20),
        prior_variance=5.0,
    )
    assert posterior.info.converged, posterior.info.message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("variance", [0.01, 1.0, 25.0])
def test_what_is_returned_is_within_the_tolerance(dtype: str, variance: float) -> None:
    """The last step is not evaluated; the residuals after it are within the tolerance, too."""
    data = small(num_outputs=20)
    tolerance = 1e-3 if dtype == "float32" else 1e-6
    posterior = sample_compiled(
        *data, dtype=dtype, prior_variance=variance, tolerance=tolerance, diagnose=False
    )
    assert posterior.info.converged
    for residual in (posterior.info.mean_residual, posterior.info.covariance_residual):
        assert (residual <= tolerance).all()
    with jax.enable_x64(True):
        rows = rows_of(data, prior_variance=variance)
        factor = np.linalg.cholesky(posterior.covariance.astype(float) / variance)
        mean = posterior.mean.astype(float) / variance**0.5
        state = start_flow(jnp.asarray(mean), jnp.asarray(factor))
        state, _ = flow_step(state, rows, RULE)
        _, info = flow_step(state, rows, RULE)
    # beside the tolerance: round-off of a float32 covariance
    assert np.maximum(*map(np.asarray, info)).max() <= tolerance + (dtype == "float32") * 2e-5
