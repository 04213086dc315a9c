"""The settings and the outcome of a run, which are the same for every method, and its diagnostics.

Options of a single method are in the config class of that method. `Info` holds the diagnostics as
numbers and as one sentence that says whether to trust the run; docs/maths.md, "Diagnostics",
explains them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
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
YES_OR_NO = ("converged", "diverged", "refined")
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
        Bytes of working space, two copies of the features included; by default a quarter of the
        device's memory.
    keep_on_device : bool, optional
        Whether the factors of covariances stay where they were computed; by default where that is a
        GPU with room for all of them.
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
    keep_on_device: bool | None = None
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
    converged: np.ndarray = UNKNOWN  # (K,) bool
    steps: np.ndarray = UNKNOWN  # (K,)
    time: np.ndarray = UNKNOWN  # (K,) τ reached; NaN where the method has no such time
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
        """Fill in what the method does not know, or not yet: NaN, no and 0."""
        K = len(self.mean)
        for entry in fields(self):
            if getattr(self, entry.name) is UNKNOWN:
                unknown: Any = False if entry.name in YES_OR_NO else np.nan
                setattr(self, entry.name, np.full(K, 0 if entry.name == "steps" else unknown))


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


@dataclass(frozen=True, kw_only=True, eq=False)
class Info:
    """Diagnostics of a run. Arrays have one entry per output.

    `gaussian_enough` is False if the diagnostic found an output whose posterior a Gaussian does not
    describe. It is True otherwise, also where nothing was checked: with `diagnose=False`, and for
    methods that assume no Gaussian. `covariance_shift` is then NaN, and for a Gaussian method
    `message` says that it was not checked.
    """

    method: str
    converged: bool  # every output
    message: str  # the verdict, in words
    gaussian_enough: bool  # no output was found to be far from Gaussian; True if not checked
    confined: bool  # J ≤ D: the ensemble could not leave the subspace it started in
    repaired: int  # particles that diverged and were reset
    output_converged: np.ndarray
    diverged: np.ndarray  # outputs that a step which was too long threw out
    steps: np.ndarray
    time: np.ndarray  # τ reached; NaN where the method has no such time
    mean_residual: np.ndarray  # of the fixed-point equations, in posterior sd, or as expected
    covariance_residual: np.ndarray  # relative, Frobenius norm; likewise (`variational`)
    covariance_shift: np.ndarray  # relative error of the Gaussian's variances; NaN: not checked
    refined: np.ndarray  # outputs that were sampled exactly because a Gaussian is not enough
    r_hat: np.ndarray  # of chains: rank-normalised split-R̂ of the worst weight; NaN: no chains
    ess: np.ndarray  # effective sample size of the worst weight, bulk or tail; NaN: no chains
    rank: int | None = None  # principal directions that were fitted; None: all
    rank_error: float = 0.0  # how much too large variances of logits may be for that, on average
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for the header of a file.

        Returns
        -------
        dict
            Arrays are lists; `Info.from_dict` reads it back.
        """
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return values | {name: values[name].tolist() for name in PER_OUTPUT}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Info":
        """Build an info from the plain values that `to_dict` returns.

        Parameters
        ----------
        values : dict
            The fields by name; None in a list stands for NaN.

        Returns
        -------
        Info
            With arrays for the values of each output.
        """
        arrays = {
            name: np.array([np.nan if v is None else v for v in values[name]])
            for name in PER_OUTPUT
        }
        return cls(**values | arrays)


PER_OUTPUT = [entry.name for entry in fields(Info) if entry.type is np.ndarray]


def make_info(outcome: Outcome, shape: tuple[int, ...], **about: Any) -> Info:
    """Return the diagnostics of a run; `about` holds the fields that an outcome does not have."""
    confined = shape[1] <= shape[2] and outcome.in_subspace
    names = {entry.name for entry in fields(Info)} - {"converged"}
    copied: dict[str, Any] = {k: v for k, v in vars(outcome).items() if k in names}
    return Info(
        converged=bool(outcome.converged.all()),
        message=_describe(outcome, shape, confined),
        gaussian_enough=not is_far(outcome).any(),
        confined=confined,
        output_converged=outcome.converged,
        **copied,
        **about,
    )


def _describe_steps(outcome: Outcome) -> str:
    """Say how many steps were taken and, where that says how far they came, the τ reached."""
    count = int(np.median(outcome.steps))
    if not count:
        return "at once"
    reached = f", τ = {np.median(outcome.time):.2g}" if outcome.along_time else ""
    return f"in {count} step{'s' * (count != 1)}{reached}"


def _describe_convergence(outcome: Outcome) -> list[str]:
    """Say which outputs have diverged and which have not converged yet, with what to do."""
    K, parts = len(outcome.converged), []
    diverged, late = outcome.diverged, ~outcome.converged & ~outcome.diverged

    def name(some: np.ndarray) -> str:
        return f"{int(some.sum())} of {K} outputs" if K > 1 else "it"

    if diverged.any():
        what = f"{outcome.divergence}: {outcome.remedy}"
        parts.append(f"do not trust this: {name(diverged)} {what}")
    if late.any():
        taken = f" {_describe_steps(outcome)}" if outcome.along_time else ""
        what = f"did not converge{taken} ({outcome.stop_reason})"
        parts.append(f"do not trust this yet: {name(late)} {what}")
    return parts


def _describe(outcome: Outcome, shape: tuple[int, ...], confined: bool) -> str:
    """Return the verdict in one line, with what to do where something is wrong."""
    K, J, D = shape
    shift, far = outcome.covariance_shift, is_far(outcome)
    missed = not outcome.converged.all()
    parts = _describe_convergence(outcome) if missed else [f"converged {_describe_steps(outcome)}"]
    if confined:
        parts.append(
            f"do not trust this: {J} particles cannot leave a {J - 1}-dimensional subspace of {D}: "
            f"use num_particles > {D}"
        )
    elif J <= D and outcome.factor is not None:
        parts.append(
            f"mean and covariance are whole, but {J} particles span only {J - 1} of {D} dimensions"
        )
    if far.any() and not missed:
        which = f"for {int(far.sum())} of {K} outputs " if K > 1 else ""
        size = f"about {float(np.nanmax(shift)):.0%}" + " at worst" * (K > 1)
        parts.append(f"{which}a Gaussian is not enough: its variances are off by {size}")
        parts += ["these were sampled exactly" if K > 1 else "it was sampled exactly"] * bool(
            outcome.refined.any()
        )
    elif np.isfinite(shift).all() and not missed:
        parts.append("a Gaussian describes the posterior well")
    if outcome.factor is not None and np.isnan(shift).all():
        parts.append("whether a Gaussian is enough was not checked")
    return "; ".join([*parts, *outcome.notes]) + "."
