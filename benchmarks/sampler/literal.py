"""Algorithm 1 as printed, with its N×N matrices: the reference for tests and `versus_literal`.

    θ' = θ − ½Δτ P̂ Ψᵀ ( M Ψ(θ − m) + 2 (μ[y] − t) )                      docs/maths.md (9) and (12)
    θ" = θ' − ½Δτ P̂' (Δτ diag(P̂') + P₀)⁻¹ (θ' + m' − 2m₀) + ½Δτ (θ' − m')                  (10)

One output, NumPy, no dropout; see `samplers.dropout_deterministic` for the symbols and for the same
step without any N×N matrix. Costs N³ + N²D.
"""

import numpy as np
from scipy.special import expit

__all__ = ["take_literal_step"]


def take_literal_step(
    particles: np.ndarray,
    features: np.ndarray,
    targets: np.ndarray,
    step_size: float,
    *,
    prior_mean: np.ndarray | float = 0.0,
    prior_variance: np.ndarray | float = 1.0,
    taming: str = "consistent",
) -> np.ndarray:
    """Return (J, D) particles of one output after both half steps, in their own precision."""
    theta, psi, t, dt = particles, features, targets, particles.dtype.type(step_size)
    J = len(theta)

    m = theta.mean(axis=0)
    P = (theta - m).T @ (theta - m) / (J - 1)
    logits = theta @ psi.T  # (J, N)
    y = expit(logits)
    R = (y * expit(-logits)).mean(axis=0)
    last = np.diag(R if taming == "printed" else 1 / R)
    M = np.linalg.inv(dt * (psi @ P @ psi.T) + last)  # (N, N)
    pulled = (theta - m) @ psi.T @ M + 2 * (y.mean(axis=0) - t)
    half = theta - dt / 2 * (pulled @ psi @ P)

    m = half.mean(axis=0)
    P = (half - m).T @ (half - m) / (J - 1)
    # "inverting the diagonal only"
    shrunk = (half + m - 2 * np.asarray(prior_mean)) / (dt * np.diag(P) + prior_variance)
    moved: np.ndarray = half - dt / 2 * (shrunk @ P) + dt / 2 * (half - m)
    return moved
