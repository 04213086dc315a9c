"""Hamiltonian Monte Carlo of all outputs at once, and the verdict that rests on it."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

from lastlayer import Posterior
from lastlayer.convergence import compute_convergence
from lastlayer.trajectories import (
    Rule,
    compute_gradient,
    evaluate,
    make_target,
)
from lastlayer.verdict import CALLED_FAR
from problems import GOLD, assert_agree, reference, rows_of, sample_posterior, small
from test_references import distance, solve

DOSES = np.array([[-0.86], [-0.3], [-0.05], [0.73]]) @ [[1.0, 0.0]] + [[0.0, 1.0]]
DIED = np.array([0, 1, 3, 5])  # of five animals each: with a wide prior a skewed posterior
SKEWED = {"counts": [5, 5, 5, 5], "prior_variance": [100.0, 25.0]}


QUICK = [("iris_tiny", "5"), ("synth_separable", "1")]
LONGER = [pytest.param(*case, marks=pytest.mark.longer) for case in GOLD if case not in QUICK]


@pytest.mark.parametrize(("name", "variance"), [*QUICK, *LONGER])
def test_moments_are_those_of_the_references(name: str, variance: str) -> None:
    """Means to 0.03 sd and covariances to 3 %, and the Monte Carlo error that (23) leaves.

    ∇u has the variance `shift` in each direction, so that means have the error √(shift/ess) and
    covariances √(D shift/ess) in relative Frobenius norm; without (23) it would be √(D/ess), 25 %.
    """
    ref = reference(name, variance)
    N, D = ref.features.shape
    number = 12_800 if N < 1_000 else 1_600
    posterior = solve(name, variance, method="hmc", num_particles=number, dtype="float64")
    assert posterior.info.converged
    assert posterior.info.r_hat[0] <= 1.01
    assert posterior.info.ess[0] >= 400
    mean, covariance = distance(posterior, ref.answers["mean"], ref.answers["cov"])
    shift = solve(name, variance).info.covariance_shift[0] / posterior.info.ess[0]
    assert mean < 0.03 + 4 * np.sqrt(shift)
    assert covariance < 0.03 + np.sqrt(D * shift)


@pytest.fixture(scope="module")
def exact() -> Posterior:
    return sample_posterior(*small(), method="hmc", num_particles=8000)


@pytest.mark.longer
def test_nuts_agrees_with_counts_and_a_prior_about_given_weights() -> None:
    """Features as logistic units have them, sums of targets over repeated rows."""
    rng = np.random.default_rng(0)
    units = 1 / (1 + np.exp(-2 * rng.normal(size=(80, 6))))
    features = np.column_stack([units, np.ones(80)])
    counts, weights = rng.integers(1, 9, 80), rng.normal(size=(2, 7))
    targets = rng.binomial(counts[:, None], 1 / (1 + np.exp(-features @ weights.T)))
    data = {"counts": counts, "prior_mean": weights, "num_particles": 4000}
    ours, theirs = (
        sample_posterior(features, targets, method=method, dtype="float64", **data)
        for method in ("hmc", "nuts")
    )
    assert ours.info.converged
    assert_agree(ours, theirs, worth=400)


def test_counts_stand_for_repeated_rows() -> None:
    """The draws move along the same trajectories; sums of other lengths differ in round-off."""
    x, t = small()
    counts = np.tile([1, 2, 3], 20)
    options = {"method": "hmc", "num_particles": 800, "dtype": "float64"}
    counted = sample_posterior(x, t * counts[:, None], counts=counts, **options)
    repeated = sample_posterior(
        np.repeat(x, counts, axis=0), np.repeat(t, counts, axis=0), **options
    )
    np.testing.assert_allclose(counted.mean, repeated.mean, atol=1e-6)


def test_what_has_not_converged_is_named() -> None:
    posterior = sample_posterior(*small(), method="hmc", num_steps=5, num_particles=40)
    assert not posterior.info.converged
    for part in ("R-hat", "effective size", "outputs 0, 1", "num_steps"):
        assert part in posterior.info.message


@pytest.mark.parametrize(("num_steps", "num_particles", "taken"), [(60, 40, 60), (5, 490, 62)])
def test_chains_end_at_their_limit(num_steps: int, num_particles: int, taken: int) -> None:
    """Rounds are of 50 transitions, and neither a round nor growth may pass the limit."""
    given = {"num_steps": num_steps, "num_particles": num_particles}
    found = sample_posterior(*small(), method="hmc", **given)
    assert not found.info.converged
    assert found.info.steps.tolist() == [taken] * 2


def test_chains_are_kept_for_arviz(exact: Posterior) -> None:
    weights = exact.to_arviz().posterior["weights"]
    assert weights.shape == (8, 1000, 2, 4)
    values = weights.values[:, :, 0, 0]
    assert array_stats.rhat(values, chain_axis=0, draw_axis=1) < 1.01
    few = sample_posterior(*small(), method="hmc", num_particles=3)
    assert few.chains == 3


def test_potential_and_gradient_are_those_of_the_log_density() -> None:
    x, t = small()
    with jax.enable_x64(True):
        m, G = np.linspace(-1, 1, 8).reshape(2, 4), np.tril(np.full((2, 4, 4), 0.3))
        target = make_target(rows_of((x, t), prior_mean=m), m, G, 4)
        z = jax.random.normal(jax.random.key(0), (2, 3, 4))
        U, gradient = evaluate(target, z, Rule())

        def compute_loss(z: jax.Array) -> jax.Array:
            theta = m[:, None] + jnp.einsum("kij,kcj->kci", G, z)
            a = jnp.einsum("kci,ni->kcn", theta, x)
            losses = (jnp.logaddexp(0, a) - t.T[:, None] * a).sum(axis=-1)
            return losses + 0.5 * (theta**2).sum(axis=-1)

        expected = compute_loss(z) - compute_loss(jnp.zeros_like(z))
        slope = jax.grad(lambda z: compute_loss(z).sum())(z)
        np.testing.assert_allclose(U, expected, rtol=1e-9)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(gradient, compute_gradient(target, z, Rule()), rtol=1e-9)


@pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.5, 0.9])
def test_convergence_agrees_with_arviz(correlation: float) -> None:
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((3, 8, 200))
    for i in range(1, 200):
        draws[..., i] += correlation * draws[..., i - 1]
    draws[2] = np.exp(draws[2])  # heavy tails
    axes = {"chain_axis": 0, "draw_axis": 1}
    worst = max(array_stats.rhat(x, **axes) for x in draws)
    sizes = [
        array_stats.ess(x, method=method, **axes, **options)
        for x in draws
        for method, options in (("bulk", {}), ("tail", {"prob": (0.05, 0.95)}))
    ]
    r_hat, ess = compute_convergence(draws)
    assert float(r_hat) == pytest.approx(worst, abs=1e-4)
    assert float(ess) == pytest.approx(min(sizes), rel=0.05)


def test_verdict_finds_the_excess_of_variance() -> None:
    """Four doses with a wide prior, where long chains say by how much; and nothing but a prior."""
    gaussian = sample_posterior(DOSES, DIED, **SKEWED)
    long = sample_posterior(DOSES, DIED, **SKEWED, method="hmc", num_particles=16_000)
    shift = np.trace(np.linalg.solve(gaussian.covariance[0], long.covariance[0])) / 2 - 1
    assert shift > CALLED_FAR
    assert 1 / 1.5 < gaussian.info.covariance_shift[0] / shift < 1.5
    assert not gaussian.info.gaussian_enough
    unchecked = sample_posterior(DOSES, DIED, **SKEWED, diagnose=False)
    assert unchecked.info.gaussian_enough
    assert "whether a Gaussian is enough was not checked" in unchecked.info.message
    prior = sample_posterior(np.zeros((4, 3)), np.zeros(4))
    np.testing.assert_allclose(prior.info.covariance_shift, 0, atol=1e-12)


@pytest.fixture(scope="module")
def refined() -> Posterior:
    """Two outputs of which a Gaussian describes only the second well."""
    targets = np.stack([DIED, [2, 3, 2, 3]], axis=1)
    return sample_posterior(DOSES, targets, **SKEWED, refine=True, num_particles=1600)


def test_refine_samples_exactly_where_a_gaussian_is_not_enough(refined: Posterior) -> None:
    assert refined.info.refined.tolist() == [True, False]
    assert np.isfinite(refined.info.r_hat).tolist() == [True, False]
    assert np.isnan(refined.info.covariance_residual).tolist() == [True, False]
    for part in ("1 of 2 outputs", "not enough", "sampled exactly"):
        assert part in refined.info.message
    alone = sample_posterior(DOSES, DIED, **SKEWED, method="hmc", num_particles=1600)
    # about the same Gaussian, as far as it has converged
    np.testing.assert_allclose(refined.particles[0], alone.particles[0], atol=1e-5)
    np.testing.assert_allclose(refined.covariance[0], alone.covariance[0])
    second = sample_posterior(DOSES, [2, 3, 2, 3], **SKEWED)
    np.testing.assert_allclose(refined.mean[1], second.mean[0], rtol=1e-6)
    np.testing.assert_allclose(
        refined.predict_proba(DOSES),
        np.hstack([alone.predict_proba(DOSES), second.predict_proba(DOSES)]),
        rtol=1e-6,
    )
    low, high = refined.predict_interval(DOSES)
    np.testing.assert_allclose(low[:, 0], alone.predict_interval(DOSES)[0][:, 0])
    assert (low < high).all()
    assert refined.entropies(DOSES).total.shape == (4, 2)


def test_refined_outputs_survive_a_file(refined: Posterior, tmp_path: Path) -> None:
    refined.save(tmp_path / "p.safetensors")
    loaded = Posterior.load(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(loaded.info.refined, refined.info.refined)
    np.testing.assert_array_equal(loaded.predict_proba(DOSES), refined.predict_proba(DOSES))
    everything = replace(refined, info=replace(refined.info, refined=np.ones(2, bool)))
    assert everything.predict_sd(DOSES).shape == (4, 2)
