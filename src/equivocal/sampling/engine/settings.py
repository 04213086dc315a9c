"""What every run receives and returns, whatever its method.

What one method alone needs is in that method's own config.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np

from equivocal.sampling.engine.products import Precision
from equivocal.sampling.engine.programs import compile_on_call

__all__ = ["Observer", "Snapshot"]


class Snapshot(NamedTuple):
    """An ensemble at one step of a run, in the caller's coordinates."""

    outputs: range  # which of the K outputs
    step: int
    time: np.ndarray  # τ of each of them
    particles: np.ndarray  # (outputs, J, D)


Observer = Callable[[Snapshot], None]
Report = Callable[[int, int], None]  # how much is done, and of how much


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings that all methods share."""

    num_particles: int  # J
    num_steps: int | None  # None: the method's own limit
    tolerance: float  # on the residuals of the fixed-point equations
    seed: int
    memory_budget: int | None
    observe: Observer | None = None
    report: Report | None = None
    precision: Precision = Precision.FULL
    refine: bool = False  # sample exactly where a Gaussian is not enough
    evidence: float = 1.0  # b, by which counts and targets were multiplied
    compiled: bool = False  # solve small problems, too, by compiled programs
    brief: bool = False  # one fit of many to compare: what converges slowly is left where it is

    def tell(self, done: int, total: int) -> None:
        """Report progress, if a callable was given."""
        if self.report is not None:
            self.report(done, total)


@dataclass(kw_only=True, eq=False)
class Outcome:
    """What a method found, in the coordinates w of `problem`, for all K outputs.

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
    repaired: int = 0  # particles that diverged and were reset
    remedy: str = "use a narrower prior, rescaled features or method='exact-flow'"  # where so
    stop_reason: str = ""  # why it stopped where it did not converge
    notes: list[str] = field(default_factory=list)
    in_subspace: bool = False  # particles are combinations of those at the start
    chains: int = 1
    r_hat: np.ndarray = field(
        default_factory=lambda: np.zeros(0)
    )  # (K,), of chains: the worst weight
    ess: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (K,), likewise
    covariance_shift: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (K,), of a Gaussian
    refined: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (K,) bool

    def __post_init__(self) -> None:
        """Fill in what the method has none of: NaN, and no output was refined."""
        K = len(self.mean)
        self.refined = np.zeros(K, bool)
        for name in ("r_hat", "ess", "covariance_shift"):
            if not len(getattr(self, name)):
                setattr(self, name, np.full(K, np.nan))


def make_keys(seed: int, outputs: range | np.ndarray) -> jax.Array:
    """Return one key per output, so that no result depends on which outputs run together."""
    return _fold_in(jax.random.key(seed), np.array(outputs, np.uint32))


@compile_on_call()
def _fold_in(root: jax.Array, numbers: jax.Array) -> jax.Array:
    return jax.vmap(lambda k: jax.random.fold_in(root, k))(numbers)
