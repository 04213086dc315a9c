"""The settings and the outcome of a run, which are the same for every method.

Options of a single method are in the config class of that method.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from lastlayer.checks import check_int, check_positive, fail
from lastlayer.compiling import compile_on_call

__all__ = ["Observer", "Snapshot"]


class Snapshot(NamedTuple):
    """An ensemble at one step of a run, in the caller's coordinates."""

    outputs: range  # which of the K outputs
    step: int
    time: np.ndarray  # τ of each of them
    particles: np.ndarray  # (outputs, J, D)


# Above this error of a variance the verdict says that a Gaussian is not enough; a miss is worse
# than a false alarm, and far outputs are fewer.
TOO_FAR = 1 / 8
CALLED_FAR = 0.95 * TOO_FAR
UNKNOWN: Any = ()  # default of arrays that `Outcome` fills in
MOST_STEPS, MOST_EVIDENCE = 10**9, 1e9
Observer = Callable[[Snapshot], None]
Report = Callable[[int, int], None]  # the work done so far, and all of the work


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of `sample_posterior` that are not about the data, the prior or the method.

    num_steps : int, optional
        The most steps to take; by default the method's own limit.
    tolerance : float, optional
        Residual of the fixed-point equations, in posterior standard deviations, at which a flow has
        converged; 5e-4 in float32 and 1e-7 in float64 by default.
    dtype : "float32" or "float64", optional
        By default that of the features; whole numbers are taken as float64.
    evidence : number
        b, from 1e-9 to 1e9, the weight of the data against the prior: counts and targets times b,
        so that the posterior is proportional to likelihoodᵇ × prior. 1 is Bayes' rule.
    rank : "auto" or int, optional
        Fit in so many principal directions of the features, and keep the prior in the others;
        "auto" as many as variances of logits take to be right within 1 % (`lastlayer.covariance`).
    memory_budget : int, optional
        Bytes of working space; by default a quarter of the device's memory. Features that do not
        fit, such as a `numpy.memmap`, are laid out chunk by chunk.
    observe : callable, optional
        Called with a `Snapshot` after every step of a method that moves an ensemble along τ.
    report : callable, optional
        Called from time to time with two whole numbers: the work done so far, and all of the work.
    """

    num_steps: int | None = None
    tolerance: float | None = None
    dtype: Any = None
    evidence: float = 1.0
    rank: Any = None
    memory_budget: int | None = None
    observe: Observer | None = None
    report: Report | None = None

    def __post_init__(self) -> None:
        if self.num_steps is not None:
            check_int(self.num_steps, "num_steps", least=1, most=MOST_STEPS)
        if self.tolerance is not None:
            check_positive(self.tolerance, "tolerance")
        if self.rank not in (None, "auto"):
            check_int(self.rank, "rank", least=1)
        if self.memory_budget is not None:
            check_positive(self.memory_budget, "memory_budget")
        b = check_positive(self.evidence, "evidence")
        if not 1 / MOST_EVIDENCE <= b <= MOST_EVIDENCE:
            fail(
                f"evidence must lie between {1 / MOST_EVIDENCE:g} and {MOST_EVIDENCE:g}, got "
                f"{b:g}; 1 is Bayes' rule, and 0.1 lets ten rows count as one."
            )


@dataclass(frozen=True, kw_only=True)
class RunSettings(RunOptions):
    """Settings that all methods share."""

    num_particles: int  # J
    seed: int
    tolerance: float
    refine: bool = False  # sample exactly where a Gaussian is not enough
    numbers: np.ndarray | None = None  # (K,), of these outputs among the caller's; None: 0, 1, …

    def number(self, outputs: range | np.ndarray) -> np.ndarray:
        """Return the numbers of some outputs among the caller's."""
        own = np.array(outputs, np.uint32)
        return own if self.numbers is None else self.numbers[own]

    def tell(self, done: int, total: int) -> None:
        """Report progress, if a callable was given."""
        if self.report is not None:
            self.report(done, total)


@dataclass(kw_only=True, eq=False)
class Outcome:
    """The solution of all K outputs, in the coordinates w of `problem`.

    A Gaussian method fills `factor`, and particles are drawn from N(mean, factor factorᵀ) later;
    the others fill `particles`.
    """

    mean: np.ndarray  # (K, D)
    covariance: np.ndarray | None = None  # (K, D, D), if estimated from more than the particles
    factor: Any = None  # (K, D, r), in the memory of the host or of a GPU
    particles: np.ndarray | None = None  # (K, J, D)
    converged: np.ndarray  # (K,) bool
    steps: np.ndarray  # (K,)
    time: np.ndarray  # (K,) τ reached
    along_time: bool = False  # τ says how far the steps came, so that the verdict names it
    mean_residual: np.ndarray = UNKNOWN  # (K,) in posterior sd; NaN where the method has none
    covariance_residual: np.ndarray = UNKNOWN  # (K,)
    repaired: int = 0  # particles that diverged and were reset
    diverged: np.ndarray = UNKNOWN  # (K,) bool, outputs that a step threw out
    divergence: str = ""  # what happened to them
    remedy: str = "use a narrower prior, rescaled features or method='exact-flow'"  # for them
    stop_reason: str = ""  # why the run stopped, for outputs that did not converge
    notes: list[str] = field(default_factory=list)  # further parts of the verdict
    rank: int | None = None  # directions that were fitted, where the others kept their prior
    rank_error: float = 0.0  # how far off that may be: `covariance` (1)
    subspace: Any = None  # of the factor, where that is not of all directions
    in_subspace: bool = False  # particles are linear combinations of those at the start
    chains: int = 1
    r_hat: np.ndarray = UNKNOWN  # (K,), of the weight that has converged least
    ess: np.ndarray = UNKNOWN  # (K,), likewise
    covariance_shift: np.ndarray = UNKNOWN  # (K,), of a Gaussian
    refined: np.ndarray = UNKNOWN  # (K,) bool, outputs that were sampled exactly afterwards

    def __post_init__(self) -> None:
        """Fill in what the method does not know: NaN; no output diverged or was refined."""
        K = len(self.mean)
        for name in ("mean_residual", "covariance_residual", "r_hat", "ess", "covariance_shift"):
            if getattr(self, name) is UNKNOWN:
                setattr(self, name, np.full(K, np.nan))
        for name in ("diverged", "refined"):
            if getattr(self, name) is UNKNOWN:
                setattr(self, name, np.zeros(K, bool))


def is_far(outcome: Outcome) -> np.ndarray:
    """Return for which outputs a Gaussian is not enough, (K,)."""
    with np.errstate(invalid="ignore"):
        return np.asarray(outcome.covariance_shift > CALLED_FAR)


def make_keys(seed: int, outputs: range | np.ndarray) -> jax.Array:
    """Return one key per output, so that no result depends on which outputs run together."""
    return _fold_in(jax.random.key(seed), np.array(outputs, np.uint32))


@compile_on_call()
def _fold_in(root: jax.Array, numbers: jax.Array) -> jax.Array:
    return jax.vmap(lambda k: jax.random.fold_in(root, k))(numbers)
