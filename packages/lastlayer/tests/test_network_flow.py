"""The network flow against the exact flow where they must agree, and against its own equations."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lastlayer import Posterior, sample_network
from lastlayer.errors import UserError
from lastlayer.network_flow import Ensemble, NetworkPosterior, move_part
from problems import sample_posterior

N, K, D = 60, 5, 4  # a last layer of 20 weights in all
BY_OUTPUT = [np.arange(K * D).reshape(K, D)]
RNG = np.random.default_rng(1)
COUNTS = RNG.integers(1, 4, N).astype(np.float32)
MEAN = RNG.normal(0, 0.5, (K, D))
VARIANCE = np.array([1.0, 0.5, 2.0, 1.5])
X = RNG.normal(size=(N, D)).astype(np.float32)
TARGETS = RNG.binomial(COUNTS.astype(int)[:, None], 1 / (1 + np.exp(-X @ RNG.normal(size=(D, K)))))


def linear(weights: jax.Array, x: jax.Array) -> jax.Array:
    """A network that is nothing but a last layer."""
    return x @ weights.reshape(-1, D).T


@cache
def exact() -> Posterior:
    return sample_posterior(
        X, TARGETS, counts=COUNTS, prior_mean=MEAN, prior_variance=VARIANCE, tolerance=1e-4
    )


def flow(**options: object) -> NetworkPosterior:
    usual: dict = {"counts": COUNTS, "prior_variance": np.tile(VARIANCE, K), "tolerance": 1e-3}
    return sample_network(linear, X, TARGETS, MEAN.ravel(), **(usual | options))


def errors(found: NetworkPosterior) -> tuple[float, float]:
    """Distances of means in posterior sd and of covariances (Frobenius, relative), at worst."""
    d = (found.particles - found.mean).reshape(-1, K, D)
    covariance = np.einsum("jka,jkb->kab", d, d) / (len(d) - 1)
    truth = exact().covariance
    sd = np.sqrt(np.diagonal(truth, axis1=1, axis2=2))
    size = np.linalg.norm(truth, axis=(1, 2))
    return (
        float(np.abs((found.mean.reshape(K, D) - exact().mean) / sd).max()),
        float((np.linalg.norm(covariance - truth, axis=(1, 2)) / size).max()),
    )


@pytest.mark.parametrize("particles", [K * D + 1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_linear_network_has_the_exact_flows_posterior(particles: int) -> None:
    """J > D, in float32. Seen: 3e-4 in both; with R left out of S, 1.0."""
    found = flow(num_particles=particles)
    assert found.info.converged
    assert max(errors(found)) < 2e-3
    assert "understated" not in found.info.message


def test_parts_by_output_cure_an_ensemble_smaller_than_the_number_of_weights() -> None:
    """Six particles for 20 weights: exact with the four weights of each output as its own part."""
    cured, confined = flow(num_particles=6, parts=BY_OUTPUT), flow(num_particles=6)
    assert max(errors(cured)) < 2e-3
    assert "understated" not in cured.info.message
    mean, covariance = errors(confined)
    assert mean > 1  # standard deviations
    assert covariance > 0.5
    assert "6 particles span 5 directions of a part with 20 weights" in confined.info.message


def test_a_weight_in_no_part_stays_as_trained() -> None:
    found = flow(num_particles=6, parts=[BY_OUTPUT[0][:, 1:]])
    fixed = found.particles.reshape(-1, K, D)[:, :, 0]
    np.testing.assert_allclose(fixed, np.broadcast_to(MEAN[:, 0], fixed.shape), rtol=1e-6)
    assert found.particles.reshape(-1, K, D)[:, :, 1:].std(axis=0).min() > 0.05


def test_rows_may_come_in_blocks_of_any_size() -> None:
    """60 rows in blocks of 24, the last filled up; sums in another order differ by round-off."""
    whole = flow(num_particles=6, parts=BY_OUTPUT)
    cut = flow(num_particles=6, parts=BY_OUTPUT, memory_budget=12 * K * 6 * 24)
    np.testing.assert_allclose(cut.particles, whole.particles, atol=2e-3)


def test_one_step_is_the_closed_form_solution() -> None:
    """Written with c = e^Δτ − 1, in double precision, and with an orthogonal V from elsewhere."""
    J, s = 6, 0.7
    rng = np.random.default_rng(0)
    deviations = rng.normal(size=(J, D))
    deviations -= deviations.mean(axis=0)
    m, Z = rng.normal(size=D), deviations @ rng.normal(size=(D, 30))
    R, e = rng.random(30), rng.normal(size=30)
    d, c = deviations.T / np.sqrt(J - 1), s / (1 - s)
    values, V = np.linalg.eigh(Z * R @ Z.T + d.T @ d)
    wanted_mean = m - d @ V @ (c / (1 + c * values) * (V.T @ (Z @ e + d.T @ m)))
    wanted = d @ V @ np.diag(np.sqrt((1 + c) / (1 + c * values))) @ V.T * np.sqrt(J - 1)
    single = [jnp.asarray(x, jnp.float32) for x in (m, deviations, Z * R @ Z.T, Z @ e, s)]
    moved, step = move_part(
        Ensemble(*single[:2]), np.arange(D)[None], *(x[None] for x in single[2:])
    )
    np.testing.assert_allclose(moved.mean, wanted_mean, atol=1e-5)
    np.testing.assert_allclose(moved.deviations, wanted.T, atol=1e-5)
    np.testing.assert_allclose(np.asarray(moved.deviations).sum(axis=0), 0, atol=1e-5)
    log_det = np.log(np.linalg.det(wanted @ wanted.T) / np.linalg.det(d @ d.T * (J - 1)))
    smaller = (d**2).sum() + m @ m - (wanted**2).sum() / (J - 1) - wanted_mean @ wanted_mean
    np.testing.assert_allclose(step.gain, [0.5 * (smaller + log_det)], rtol=1e-4)


def bent(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Three hidden units and two outputs: 4·3 + 3·2 weights."""
    hidden = jnp.tanh(x @ weights[: 3 * D].reshape(D, 3))
    return hidden @ weights[3 * D :].reshape(3, 2)


def test_at_rest_the_equations_hold_for_a_network_that_bends() -> None:
    """P⁻¹ = H + P₀⁻¹ and no gradient, with slopes by regression, worked out in double precision."""
    trained = np.random.default_rng(3).normal(size=18)
    targets, parts = TARGETS[:, :2], [np.arange(12), 12 + np.arange(6).reshape(3, 2).T]
    found = sample_network(
        bent, X, targets, trained, counts=COUNTS, parts=parts, num_particles=40, tolerance=0.01
    )
    assert found.info.converged
    every = np.stack([np.asarray(bent(w, X), float) for w in found.particles])
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    a = every.mean(axis=0)[..., None] + every.std(axis=0, ddof=1)[..., None] * nodes
    y, weights = 1 / (1 + np.exp(-a)), weights / weights.sum()
    error, R = COUNTS[:, None] * (y @ weights) - targets, COUNTS[:, None] * (y * (1 - y) @ weights)
    alone = np.tile(found.mean, (40, 1))
    alone[:, :12] = found.particles[:, :12]
    Z = np.stack([np.asarray(bent(w, X), float) for w in alone])
    Z = ((Z - Z.mean(axis=0)) / np.sqrt(39)).reshape(40, -1)
    d = (found.particles[:, :12] - found.mean[:12]) / np.sqrt(39)
    slopes = np.linalg.lstsq(d, Z)[0]  # of the logits in the weights, (12, rows × outputs)
    precision = slopes * R.ravel() @ slopes.T + np.eye(12)
    np.testing.assert_allclose(np.linalg.eigvalsh(d @ precision @ d.T)[-12:], 1, atol=0.03)
    gradient = slopes @ error.ravel() + (found.mean - trained)[:12]
    assert np.linalg.norm(d @ gradient) < 0.03  # in posterior standard deviations
    np.testing.assert_allclose(
        found.predict_proba(X), (1 / (1 + np.exp(-every))).mean(axis=0), atol=1e-5
    )


def test_a_run_that_was_stopped_early_says_so() -> None:
    found = flow(num_particles=6, parts=BY_OUTPUT, num_steps=1)
    assert not found.info.converged
    assert "do not trust this yet: after 1 round" in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_particles": 2}, "num_particles must be a whole number ≥ 3"),
        ({"parts": [np.arange(21)]}, "whole numbers from 0 to 19"),
        ({"parts": [np.arange(3), np.arange(2, 5)]}, "none of them twice"),
        ({"parts": []}, "must be arrays of whole numbers"),
        ({"parts": [np.arange(8).reshape(2, 4)]}, "with 5 outputs"),
        ({"prior_variance": 0}, "prior_variance must lie between"),
        ({"counts": COUNTS[1:]}, "counts must have shape"),
        ({"tolerance": -1.0}, "tolerance must be > 0"),
        ({"memory_budget": 0}, "memory_budget must be"),
    ],
)
def test_a_mistake_is_one_sentence(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        flow(**options)


def test_a_network_of_another_shape_is_refused() -> None:
    with pytest.raises(UserError, match=r"logits must return \(rows, outputs\), here \(60, 5\)"):
        sample_network(lambda w, x: x @ w[:D], X, TARGETS > 0, MEAN.ravel())
    with pytest.raises(UserError, match="one flat vector"):
        sample_network(linear, X, TARGETS > 0, MEAN)
    with pytest.raises(UserError, match="the same number of rows"):
        sample_network(linear, {"x": X, "y": X[1:]}, TARGETS > 0, MEAN.ravel())
