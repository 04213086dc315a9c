"""The diagnostics of a run, as numbers and as one sentence that says whether to trust it.

`_describe` words every verdict; docs/maths.md, "Diagnostics", explains the numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from lastlayer.machine import use_one_blas_thread
from lastlayer.outcome import Outcome, is_far

if TYPE_CHECKING:
    from lastlayer.posterior import Draws


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
    covariance_residual: np.ndarray  # relative, Frobenius norm; likewise (`engine.queue`)
    covariance_shift: np.ndarray  # relative error of the Gaussian's variances; NaN: not checked
    refined: np.ndarray  # outputs that were sampled exactly because a Gaussian is not enough
    r_hat: np.ndarray  # of chains: rank-normalised split-R̂ of the worst weight; NaN: no chains
    ess: np.ndarray  # effective sample size of the worst weight, bulk or tail; NaN: no chains
    rank: "np.ndarray | Callable[[], np.ndarray]"  # `effective_rank`, or how to compute it
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def effective_rank(self) -> np.ndarray:
        """Effective rank of the ensemble, exp(entropy of the spectrum of its covariance)."""
        return self.rank() if callable(self.rank) else self.rank

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for the header of a file.

        Returns
        -------
        dict
            Arrays are lists; `Info.from_dict` reads it back.
        """
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        values["effective_rank"] = self.effective_rank
        del values["rank"]
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
        known = values | arrays
        return cls(rank=known.pop("effective_rank"), **known)


PER_OUTPUT = [entry.name for entry in fields(Info) if entry.type is np.ndarray]
PER_OUTPUT += ["effective_rank"]


def compute_effective_rank(particles: np.ndarray) -> np.ndarray:
    """Return exp of the entropy of the normalised spectrum of each ensemble's covariance, (K,)."""
    deviations = particles.astype(np.float64)
    deviations -= deviations.mean(axis=1, keepdims=True)
    J, D = particles.shape[1:]
    if J >= D:
        return compute_rank(np.matmul(deviations.swapaxes(1, 2), deviations))
    scale = np.sqrt((deviations**2).mean(axis=(0, 1)))
    deviations = deviations / np.where(scale > 0, scale, 1)
    return _compute_rank_of(np.matmul(deviations, deviations.swapaxes(1, 2)))


def compute_rank(covariance: np.ndarray) -> np.ndarray:
    """Return the effective rank of covariances that are known up to a common factor, (K,)."""
    scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0))
    scale = np.where(scale > 0, scale, 1).astype(np.float64)
    return _compute_rank_of(covariance / np.outer(scale, scale))


def _compute_rank_of(matrices: np.ndarray) -> np.ndarray:
    """Return exp of the entropy of the normalised eigenvalues; on the GPU where there is one."""
    if jax.default_backend() == "cpu":
        with use_one_blas_thread():
            spectrum = np.linalg.eigvalsh(matrices)
    else:
        with jax.enable_x64(True):
            spectrum = np.asarray(jax.numpy.linalg.eigvalsh(matrices))
    share = np.maximum(spectrum, 0) / np.maximum(spectrum.sum(axis=1, keepdims=True), 1e-300)
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1)
    return np.asarray(np.exp(entropy))


def make_info(
    outcome: Outcome,
    draws: "np.ndarray | Draws",
    covariance: np.ndarray,
    **about: Any,
) -> Info:
    """Return the diagnostics of a run; `about` holds the fields that an outcome does not have."""
    J, D = draws.shape[1:]
    # J > D particles of a Gaussian have its covariance, to round-off
    gaussian = outcome.factor is not None and J > D
    confined = J <= D and outcome.in_subspace
    names = {entry.name for entry in fields(Info)} - {"converged"}
    copied: dict[str, Any] = {k: v for k, v in vars(outcome).items() if k in names}
    return Info(
        converged=bool(outcome.converged.all()),
        message=_describe(outcome, draws.shape, confined),
        gaussian_enough=not is_far(outcome).any(),
        confined=confined,
        output_converged=outcome.converged,
        **copied,
        rank=partial(compute_rank, covariance) if gaussian else partial(_rank_draws, draws),
        **about,
    )


def _rank_draws(draws: "np.ndarray | Draws") -> np.ndarray:
    return compute_effective_rank(draws if isinstance(draws, np.ndarray) else draws.make())


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
