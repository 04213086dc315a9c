"""Algorithm 1 as it is printed, N×N matrices and all: slow, literal, for one output."""

import numpy as np


def literal_step(
    theta: np.ndarray,  # (J, D), as everywhere
    features: np.ndarray,  # (N, D)
    targets: np.ndarray,  # (N,)
    prior_mean: np.ndarray,
    prior_variance: np.ndarray,
    step_size: float,
    taming: str,
) -> np.ndarray:
    """Both half steps without dropout (ρ = 0), in the paper's coordinates: columns of θ."""
    J = len(theta)
    Psi, t, th, dt = features.T, targets, theta.T, step_size
    m0, P0 = prior_mean[:, None], np.diag(prior_variance)

    m = th.mean(axis=1, keepdims=True)
    P = (th - m) @ (th - m).T / (J - 1)
    y = 1 / (1 + np.exp(-Psi.T @ th))
    R = np.diag((y * (1 - y)).mean(axis=1))
    last = R if taming == "printed" else np.linalg.inv(R)
    M = np.linalg.inv(dt * Psi.T @ P @ Psi + last)
    error = (y.mean(axis=1) - t)[:, None]
    half = th - dt / 2 * P @ Psi @ (M @ Psi.T @ (th - m) + 2 * error)

    m = half.mean(axis=1, keepdims=True)
    P = (half - m) @ (half - m).T / (J - 1)
    inverse = np.linalg.inv(np.diag(np.diag(dt * P + P0)))  # "inverting the diagonal only"
    return (half - dt / 2 * P @ inverse @ (half + m - 2 * m0) + dt / 2 * (half - m)).T


def ode_right_hand_side(
    theta: np.ndarray, features: np.ndarray, targets: np.ndarray, prior_variance: np.ndarray
) -> np.ndarray:
    """eqn:sampler_ode with prior mean zero, particles as rows."""
    J = len(theta)
    m = theta.mean(axis=0)
    d = theta - m
    P = d.T @ d / (J - 1)
    y = 1 / (1 + np.exp(-features @ theta.T))
    H = features.T @ ((y * (1 - y)).mean(axis=1)[:, None] * features)
    g = features.T @ (y.mean(axis=1) - targets)
    return -0.5 * (d @ H + 2 * g) @ P - 0.5 * ((theta + m) / prior_variance) @ P + 0.5 * d
