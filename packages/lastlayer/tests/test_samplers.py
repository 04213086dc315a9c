"""Homotopy, ALDI and NUTS against each other and against what is known."""

import inspect

import jax
import numpy as np
import pytest

from lastlayer import METHODS, Posterior, Snapshot, sample_posterior
from lastlayer.samplers import aldi, exact_flow, homotopy, laplace, mean_field
from lastlayer.samplers import nuts as nuts_module
from lastlayer.samplers.aldi import AldiConfig
from lastlayer.samplers.homotopy import HomotopyConfig
from lastlayer.samplers.nuts import NutsConfig
from problems import rows_of, small


@pytest.fixture(scope="module")
def nuts() -> Posterior:
    return sample_posterior(*small(), method="nuts", num_particles=8000)


def standard_errors(chains: np.ndarray) -> np.ndarray:
    """Standard errors of the mean of each weight, from 8 batches of the draws, (D,)."""
    batches = np.stack([part.mean(axis=0) for part in np.array_split(chains, 8)])
    return batches.std(axis=0, ddof=1) / np.sqrt(8)


def assert_agree(one: Posterior, other: Posterior, worth: int) -> None:
    """Check that two samplers' moments differ by Monte Carlo error, each `worth` so many draws."""
    for k in range(2):
        error = np.hypot(standard_errors(one.particles[k]), standard_errors(other.particles[k]))
        # errors of 8 batches: P(|t₁₄| > 7) = 6e-6 for each of 8 weights
        assert (np.abs(one.mean[k] - other.mean[k]) < 7 * error).all()
        ratio = np.diag(one.covariance[k]) / np.diag(other.covariance[k])
        assert (np.abs(ratio - 1) < 5 * np.sqrt(4 / worth)).all()


def test_nuts_converges_and_needs_no_gaussian(nuts: Posterior) -> None:
    assert nuts.info.converged
    assert nuts.particles.shape == (2, 8000, 4)
    assert np.isnan(nuts.info.covariance_shift).all()
    gaussian = sample_posterior(*small())
    sd = np.sqrt(np.diagonal(gaussian.covariance, axis1=1, axis2=2))
    # the Gaussian's own distance on this mild posterior is below 0.02 sd; Monte Carlo adds 0.02
    assert (np.abs(nuts.mean - gaussian.mean) / sd < 0.1).all()
    tree = nuts.to_arviz()
    assert tree.posterior["weights"].shape == (4, 2000, 2, 4)


def test_preconditioned_nuts_has_the_same_posterior(nuts: Posterior) -> None:
    other = sample_posterior(*small(), method="nuts", num_particles=8000, preconditioned=True)
    assert other.info.converged
    assert not np.array_equal(other.particles, nuts.particles)
    assert_agree(other, nuts, worth=2000)


@pytest.mark.slow
def test_aldi_and_nuts_agree(nuts: Posterior) -> None:
    """Both have the exact posterior as their law; ALDI up to its Euler bias."""
    posterior = sample_posterior(*small(), method="aldi", num_particles=100, num_steps=3000)
    assert posterior.info.converged
    for k in range(2):
        sd = np.sqrt(np.diag(nuts.covariance[k]))
        error = standard_errors(nuts.particles[k])
        # ALDI: 100 particles × 30 time units, autocorrelation about one unit: 3,000 draws' worth
        allowed = 5 * np.sqrt(error**2 + sd**2 / 3000) + 0.02 * sd
        assert (np.abs(posterior.mean[k] - nuts.mean[k]) < allowed).all()
        ratio = np.diag(posterior.covariance[k]) / sd**2
        # variance: √(2/3000) and √(2/4000) relative, and Δt/2 = 1 % of bias; without (D+1)/J: 0.95
        assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / 3000 + 2 / 4000) + 0.02).all()


@pytest.mark.slow
def test_aldi_has_the_right_variance_with_few_particles() -> None:
    """Nothing but the prior: Var = I even for J = 7 > D + 1; without (D+1)/J it would be 0.4."""
    posterior = sample_posterior(
        np.zeros((4, 4)),
        np.zeros((4, 16)),
        method="aldi",
        num_particles=7,
        num_steps=1500,
        step_size=0.05,
    )
    variance = np.diagonal(posterior.covariance, axis1=1, axis2=2)
    error = variance.std(ddof=1) / np.sqrt(variance.size)
    assert error < 0.08
    assert abs(variance.mean() - 1) < 5 * error + 0.03  # Euler–Maruyama: Δt/2


def test_aldi_step_commutes_with_rotations() -> None:
    """Noise lives in ensemble space, so one key gives one path in any coordinates."""
    x, t = small()
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    theta = np.random.default_rng(1).normal(size=(2, 9, 4))
    config = AldiConfig()
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 2)
        plain, _ = aldi.step(
            keys, aldi.init(jax.numpy.asarray(theta)), rows_of(small()), config, 10
        )
        turned, _ = aldi.step(
            keys,
            aldi.init(jax.numpy.asarray(theta @ Q)),
            rows_of(type(small())(x @ Q, t)),
            config,
            10,
        )
    np.testing.assert_allclose(turned.particles, np.asarray(plain.particles) @ Q, atol=1e-10)


def test_homotopy_is_exact_for_linear_gaussian_rows() -> None:
    """There the frozen equation is the whole one: the start's own moments meet Bayes' rule."""
    x, _ = small()
    epsilon = 1e-4
    counts = np.full(60, 1 / epsilon**2)
    t = counts[:, None] / 2 + np.random.default_rng(3).normal(size=(60, 2)) / epsilon
    seen: list[Snapshot] = []
    posterior = sample_posterior(
        epsilon * x, t, counts=counts, method="homotopy", num_particles=50, observe=seen.append
    )
    for k in range(2):
        start = seen[0].particles[k]
        prior = np.linalg.inv(np.cov(start.T))
        covariance = np.linalg.inv(prior + x.T @ x / 4)
        push = epsilon * x.T @ (t[:, k] - counts / 2)
        mean = covariance @ (prior @ start.mean(axis=0) + push)
        # what is left is the logistic function's own curvature over logits of size ε
        np.testing.assert_allclose(posterior.covariance[k], covariance, atol=1e-3)
        np.testing.assert_allclose(posterior.mean[k], mean, atol=1e-3)
    np.testing.assert_allclose(posterior.info.time, 1, atol=1e-6)


def test_homotopy_converges_with_its_step() -> None:
    """First order in κ: halving it halves the distance to a fine path."""
    ends = [
        sample_posterior(*small(), method="homotopy", num_particles=50, step_size=kappa).particles
        for kappa in (0.2, 0.1, 0.0125)
    ]
    coarse, fine = (np.abs(end - ends[2]).max() for end in ends[:2])
    assert 1.6 < coarse / fine < 2.8


@pytest.mark.parametrize("scale", [1, 1e3, 3e3, 1e4, 1e8])
def test_homotopy_reports_steps_that_were_too_long(scale: float) -> None:
    """Features that saturate every particle leave no rate to go by, and the first leap is wild."""
    x, t = small()
    info = sample_posterior(scale * x, t, method="homotopy", num_particles=50).info
    assert info.converged == (scale <= 1e3)
    assert info.diverged.any() != info.converged
    assert info.message.startswith("converged" if info.converged else "do not trust this: ")
    assert "did not converge" not in info.message
    assert info.converged or "method='exact-flow'" in info.message
    assert "step_size" not in info.message  # homotopy has no automatic rule to go back to
    assert not (info.repaired and info.converged)


def test_short_aldi_does_not_claim_to_have_converged() -> None:
    options = {"method": "aldi", "num_particles": 20, "num_steps": 4, "step_size": 0.02}
    info = sample_posterior(*small(), **options).info
    assert not info.converged
    assert "0.08 is too short to tell, it takes 5: raise num_steps" in info.message


def test_permuted_particles_give_permuted_particles() -> None:
    order = np.random.default_rng(2).permutation(9)
    theta = np.random.default_rng(1).normal(size=(2, 9, 4))
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 2)
        zero = jax.numpy.zeros(2)
        ends = [
            np.asarray(
                homotopy.step(
                    keys,
                    homotopy.HomotopyState(jax.numpy.asarray(start), zero, zero.astype(int), zero),
                    rows_of(small()),
                    HomotopyConfig(),
                )[0].particles
            )
            for start in (theta, theta[:, order])
        ]
    np.testing.assert_allclose(ends[1], ends[0][:, order], atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_module_with_init_and_step(name: str) -> None:
    """One protocol: `init` makes a state, `step(key, state, …)` gives a state and an info."""
    module = inspect.getmodule(METHODS[name].run)
    assert module.__name__.endswith(name.replace("-", "_"))
    assert list(inspect.signature(module.step).parameters)[:2] in (
        ["key", "state"],
        ["keys", "state"],
    )
    assert callable(module.init)
    assert module.__doc__


@pytest.mark.parametrize("name", ["exact-flow", "mean-field", "laplace"])
def test_single_steps_give_the_result_of_sample_posterior(name: str) -> None:
    module = inspect.getmodule(METHODS[name].run)
    with jax.enable_x64(True):
        start = mean_field.init(2, 4)  # the prior N(0, I)
        state = start if name != "exact-flow" else exact_flow.init(start.mean, start.factor)
        rule = laplace.RULE if name == "laplace" else mean_field.RULE
        for _ in range(30):
            state, info = module.step(jax.random.key(0), state, rows_of(small()), rule)
        assert (np.asarray(info.mean_residual) < 1e-7).all()
        covariance = np.asarray(state.factor @ state.factor.mT)
    posterior = sample_posterior(*small(), method=name, dtype="float64")
    np.testing.assert_allclose(state.mean, posterior.mean, atol=1e-6)
    np.testing.assert_allclose(covariance, posterior.covariance, atol=1e-6)


def test_nuts_moves_by_hand(nuts: Posterior) -> None:
    """A short chain of `init` and `step` stays where the posterior is."""
    x, t = small()
    zero = np.zeros(60)
    with jax.enable_x64(True):
        data = (x, zero + 1, t[:, 0], zero, np.zeros(4), np.eye(4))
        data = jax.tree.map(jax.numpy.asarray, data)
        state = nuts_module.init(jax.random.key(1), data, NutsConfig(), 50)
        advance = jax.jit(
            lambda chain: nuts_module.step(chain.rng_key, (state[0], chain), data)[0][1]
        )
        chain, draws = state[1], []
        for _ in range(250):
            chain = advance(chain)
            draws.append(np.asarray(chain.z["z"]))
    sd = np.sqrt(np.diag(nuts.covariance[0]))
    # 200 draws after the warm-up, at least 20 of them independent: five standard errors
    assert (np.abs(np.mean(draws[50:], axis=0) - nuts.mean[0]) < 5 * sd / np.sqrt(20)).all()
    assert (np.std(draws[50:], axis=0) > sd / 3).all()
