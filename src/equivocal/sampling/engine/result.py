"""What an algorithm hands to the front: draws or a Gaussian for each output, and how it went."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Outcome"]


@dataclass(kw_only=True, eq=False)
class Outcome:
    """Answers in the coordinates w of `problem`, for all K outputs.

    A Gaussian method fills `factor`, and particles are drawn from N(mean, factor factorᵀ) later;
    the others fill `particles`.
    """

    mean: np.ndarray  # (K, D)
    covariance: np.ndarray | None = None  # (K, D, D) where it is not that of the particles
    factor: np.ndarray | None = None  # (K, D, r)
    particles: np.ndarray | None = None  # (K, J, D)
    converged: np.ndarray  # (K,) bool
    steps: np.ndarray  # (K,)
    time: np.ndarray  # (K,) τ reached
    mean_residual: np.ndarray  # (K,) in posterior sd; NaN where the method has none
    covariance_residual: np.ndarray  # (K,)
    repaired: int = 0  # particles that left all reach and were put back
    remedy: str = "use a narrower prior, rescaled features or method='exact-flow'"  # where so
    stop_reason: str = ""  # why it stopped where it did not converge
    notes: list[str] = field(default_factory=list)
    in_subspace: bool = False  # particles are combinations of those at the start
    chains: int = 1
