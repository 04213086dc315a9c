"""Algorithm 1 against its printed equations, its differential equation, and at its limits."""

import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from lastlayer import Snapshot
from lastlayer.algorithm1 import (
    DropoutConfig,
    begin,
    step,
    take_literal_step,
)
from problems import Data, rows_of, sample_posterior, small

MANY, FEW = 12, 3  # particles: more and fewer than the 4 features


def ode_right_hand_side(
    theta: np.ndarray, features: np.ndarray, targets: np.ndarray, prior_variance: np.ndarray
) -> np.ndarray:
    """Return maths.md (7) for prior mean zero, particles as rows."""
    J = len(theta)
    m = theta.mean(axis=0)
    d = theta - m
    P = d.T @ d / (J - 1)
    y = 1 / (1 + np.exp(-features @ theta.T))
    H = features.T @ ((y * (1 - y)).mean(axis=1)[:, None] * features)
    g = features.T @ (y.mean(axis=1) - targets)
    return -0.5 * (d @ H + 2 * g) @ P - 0.5 * ((theta + m) / prior_variance) @ P + 0.5 * d


def ensemble(num_particles: int, num_outputs: int = 2) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(num_outputs, num_particles, 4))


@pytest.mark.parametrize("taming", ["consistent", "printed"])
@pytest.mark.parametrize("num_particles", [MANY, FEW])
def test_step_is_the_printed_one(num_particles: int, taming: str) -> None:
    """No dropout, a prior that is neither centred nor of unit size, both ways to avoid N×N."""
    data = small()
    m0, v = np.array([0.5, -1.0, 0.0, 2.0]), np.array([0.5, 2.0, 1.0, 3.0])
    config = DropoutConfig(dropout_rate=0.0, step_size=0.05, taming=taming)
    w = ensemble(num_particles)
    rows = rows_of(data, prior_mean=m0, prior_variance=v)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(0), 2)
        moved, _ = step(keys, begin(jnp.asarray(w)), rows, config)
    for k in range(2):
        literal = take_literal_step(
            m0 + np.sqrt(v) * w[k],
            data.features,
            data.targets[:, k],
            0.05,
            prior_mean=m0,
            prior_variance=v,
            taming=taming,
        )
        # Round-off: the literal N×N inverse has a condition number of at most 1e4 here.
        np.testing.assert_allclose(
            m0 + np.sqrt(v) * np.asarray(moved.particles[k]), literal, rtol=1e-10, atol=1e-10
        )


def distance_to_ode(taming: str, step_size: float, num_particles: int) -> float:
    """Largest distance of the particles at τ = 0.2 from the finely integrated equation."""
    data = small()
    v = np.ones(4)
    w = ensemble(num_particles)[:1]
    exact = solve_ivp(
        lambda _, x: ode_right_hand_side(
            x.reshape(-1, 4), data.features, data.targets[:, 0], v
        ).ravel(),
        (0, 0.2),
        w[0].ravel(),
        rtol=1e-9,
        atol=1e-11,
    ).y[:, -1]
    config = DropoutConfig(dropout_rate=0.0, step_size=step_size, taming=taming)
    rows = rows_of(Data(data.features, data.targets[:, :1]))
    with jax.enable_x64(True):
        state, keys = begin(jnp.asarray(w)), jax.random.split(jax.random.key(0), 1)
        for _ in range(round(0.2 / step_size)):
            state, _ = step(keys, state, rows, config)
    return float(np.abs(np.asarray(state.particles[0]).ravel() - exact).max())


@pytest.mark.parametrize("num_particles", [MANY, FEW])
def test_consistent_taming_tends_to_the_equation_with_order_one(num_particles: int) -> None:
    """Lie–Trotter splitting and a linearly implicit step are of first order: halves halve."""
    coarse, fine = (distance_to_ode("consistent", h, num_particles) for h in (0.01, 0.005))
    # Order p gives coarse/fine = 2^p; second-order terms leave ± 15 % at these steps.
    assert 1.7 < coarse / fine < 2.3
    assert fine < 0.05


def test_printed_taming_does_not_tend_to_the_equation() -> None:
    """M → μ[R]⁻¹ instead of μ[R]: the distance stays, whatever the step."""
    coarse, fine = (distance_to_ode("printed", h, MANY) for h in (0.01, 0.005))
    assert fine > 0.2
    assert coarse / fine < 1.3


def test_dropout_covariance_is_unbiased_and_leaves_the_subspace() -> None:
    """Over many masks P̂ has diagonal P (1/(1−ρ) makes up for what is dropped)."""
    from lastlayer.algorithm1 import drop_entries

    with jax.enable_x64(True):
        deviations = np.repeat(ensemble(FEW, 1) - ensemble(FEW, 1).mean(axis=1), 4000, axis=0)
        keys = jax.random.split(jax.random.key(0), 4000)
        F = np.asarray(drop_entries(keys, jnp.asarray(deviations), 0.3))
    covariance = np.matmul(F.swapaxes(1, 2), F)
    exact = deviations[0].T @ deviations[0] / (FEW - 1)
    error = covariance.std(axis=0) / np.sqrt(4000)
    diagonal = np.abs((covariance.mean(axis=0) - exact)[np.diag_indices(4)])
    assert (diagonal < 5 * error[np.diag_indices(4)]).all()  # P(|z| > 5) < 1e-6 each
    # Off the diagonal both entries must survive: (1−ρ)² / (1−ρ), as the formula implies.
    off = ~np.eye(4, dtype=bool)
    assert (np.abs(covariance.mean(axis=0) - 0.7 * exact)[off] < 5 * error[off] + 1e-12).all()
    assert np.linalg.matrix_rank(covariance[0]) == 3
    assert np.linalg.matrix_rank(deviations[0]) == 2


def test_automatic_step_is_stable_where_a_fixed_one_is_not() -> None:
    """λ_max(P̂H) starts near 1e3 here: Δτ = 5 throws the mean out of reach, the rule does not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 4)) * 3
    t = (rng.random(2000) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    options = {"method": "dropout-deterministic", "num_particles": 12, "num_steps": 60}
    fixed = sample_posterior(x, t, step_size=5.0, **options)
    automatic = sample_posterior(x, t, **options)
    exact = sample_posterior(x, t)
    assert fixed.info.repaired > 0
    assert not fixed.info.converged
    assert fixed.info.diverged.all()
    assert "Δτ is too long" in fixed.info.message
    assert "leave step_size to the automatic rule" in fixed.info.message
    assert np.isfinite(fixed.particles).all()
    assert automatic.info.repaired == 0
    sd = np.sqrt(np.diagonal(exact.covariance[0]))
    assert (np.abs(automatic.mean - exact.mean)[0] < 5 * sd).all()


def test_ensemble_can_be_watched_along_tau() -> None:
    """Snapshots are in the caller's coordinates, start at the prior and end at the result.

    What the observer holds is the caller's own: a lock, for one, cannot be copied.
    """
    seen: list[Snapshot] = []

    def note(lock: threading.Lock, snapshot: Snapshot) -> None:
        with lock:
            seen.append(snapshot)

    posterior = sample_posterior(
        *small(),
        prior_mean=3.0,
        method="dropout-deterministic",
        num_particles=12,
        num_steps=5,
        observe=partial(note, threading.Lock()),
    )
    assert [snapshot.step for snapshot in seen] == list(range(6))
    assert abs(seen[0].particles.mean() - 3) < 1
    assert (np.diff([snapshot.time[0] for snapshot in seen]) > 0).all()
    np.testing.assert_array_equal(seen[-1].particles, posterior.particles)
