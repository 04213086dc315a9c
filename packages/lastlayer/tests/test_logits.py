"""Averages of the logistic function over a Gaussian, against adaptive integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr

from lastlayer.logits import (
    FITTED,
    PROGRAM_CACHE,
    choose_nodes,
    compute_moments,
    make_kolmogorov_nodes,
)

MEANS = [0.0, 0.3, -2.0, 7.0, -15.0, 40.0]
SDS = [0.0, 0.1, 1.0, 4.0, 25.0, 1e3]


def integrate(function: object, mean: float, sd: float) -> float:
    """∫ f(μ + s z) φ(z) dz, split where the function bends."""
    if sd == 0:
        return float(function(mean))
    points = np.clip([(c - mean) / sd for c in (-40, -5, 0, 5, 40)], -11, 11)

    def density(z: float) -> float:
        return function(mean + sd * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    return quad(density, -12, 12, points=sorted(set(points)), limit=400, epsabs=1e-15)[0]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 2e-14), ("float32", 4e-7)])
def test_moments_match_adaptive_integration(dtype: str, tolerance: float) -> None:
    """Tolerance: the quadrature's own error (2e-15, 7e-8) plus round-off of 24 or 7 terms."""
    mean, sd = (grid.ravel() for grid in np.meshgrid(MEANS, SDS))
    with jax.enable_x64(dtype == "float64"):
        moments = compute_moments(jnp.asarray(mean, dtype), jnp.asarray(sd**2, dtype))
        moments = [np.asarray(leaf, np.float64) for leaf in moments]
    for i, (mu, s) in enumerate(zip(mean, sd, strict=True)):
        assert abs(moments[0][i] - integrate(expit, -abs(mu), s)) < tolerance
        assert abs(moments[1][i] - integrate(lambda a: expit(a) * expit(-a), mu, s)) < tolerance
        exact = integrate(lambda a: np.logaddexp(0, a), mu, s) - max(mu, 0)
        # E log(1+e^a) grows with s, and with it the integration's own error
        assert abs(moments[2][i] - exact) < 10 * tolerance * max(1, s)


def test_fitted_nodes_are_as_good_as_more_nodes_of_the_quadrature() -> None:
    """The error of σ is largest where the logit has no variance."""
    a = np.linspace(0, 40, 4_001)[:, None]
    pairs = make_kolmogorov_nodes(np.float32), FITTED.T
    nine, seven = (
        np.abs((weights * ndtr(-a / scales)).sum(axis=1) - expit(-a[:, 0])).max()
        for scales, weights in (np.asarray(pair, np.float64) for pair in pairs)
    )
    assert seven < 2e-8
    assert seven < 1.1 * nine
    np.testing.assert_array_equal(choose_nodes(np.float32), FITTED.T.astype(np.float32))


def test_slope_is_the_derivative_of_the_probability() -> None:
    """The fixed-point equations need it of each other: d E[σ]/dμ = E[σ'], for the sums as coded."""
    with jax.enable_x64(True):
        variance = jnp.asarray([0.0, 0.5, 30.0])
        mean = jnp.asarray([0.7, -1.0, 5.0])
        tail = jax.vmap(jax.grad(lambda mu, v: compute_moments(mu[None], v[None]).tail[0]))
        slopes = -jnp.sign(mean) * tail(mean, variance)  # the tail is E σ(−a) where μ > 0
        direct = compute_moments(mean, variance).slope
        np.testing.assert_allclose(slopes, direct, rtol=1e-12)


def test_large_arrays_are_cut_without_a_trace() -> None:
    """Outputs that do not divide into equal parts are filled up; nothing of that may remain."""
    rng = np.random.default_rng(0)
    mean = rng.normal(0, 5, (7, PROGRAM_CACHE // 3)).astype(np.float32)
    variance = rng.gamma(1, 2, mean.shape).astype(np.float32)
    whole = compute_moments(jnp.asarray(mean), jnp.asarray(variance))
    for row in (0, 3, 6):
        alone = compute_moments(jnp.asarray(mean[row]), jnp.asarray(variance[row]))
        for found, expected in zip(whole, alone, strict=True):
            np.testing.assert_allclose(found[row], expected, rtol=1e-6, atol=1e-30)
