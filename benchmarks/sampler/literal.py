"""Algorithm 1 as one would write it down first: the reference for `versus_literal`.

    θ' = θ − ½Δτ P̂ Ψ ( M Ψᵀ(θ − m) + 2 (μ[y] − t) )         M = (Δτ ΨᵀP̂Ψ + μ[R]⁻¹)⁻¹, N×N
    θ" = θ' − ½Δτ P̂' (Δτ diag(P̂') + P₀)⁻¹ (θ' + m' − 2m₀) + ½Δτ (θ' − m')

One output, NumPy, no dropout, prior N(0, I); see `samplers.dropout_deterministic` for the
symbols and for the same step without any N×N matrix. Costs N³ + N²D.
"""

import numpy as np
from scipy.special import expit

__all__ = ["literal_step"]


def literal_step(
    particles: np.ndarray, features: np.ndarray, targets: np.ndarray, step_size: float
) -> np.ndarray:
    """(J, D) particles of one output after both half steps, in the precision of `particles`."""
    theta, psi, t, dt = particles, features, targets, particles.dtype.type(step_size)
    J = len(theta)

    m = theta.mean(axis=0)
    P = (theta - m).T @ (theta - m) / (J - 1)
    logits = theta @ psi.T  # (J, N)
    y = expit(logits)
    R = (y * expit(-logits)).mean(axis=0)
    M = np.linalg.inv(dt * (psi @ P @ psi.T) + np.diag(1 / R))  # (N, N)
    pulled = (theta - m) @ psi.T @ M + 2 * (y.mean(axis=0) - t)
    half = theta - dt / 2 * (pulled @ psi @ P)

    m = half.mean(axis=0)
    P = (half - m).T @ (half - m) / (J - 1)
    shrunk = (half + m) / (dt * np.diag(P) + 1)
    moved: np.ndarray = half - dt / 2 * (shrunk @ P) + dt / 2 * (half - m)
    return moved
