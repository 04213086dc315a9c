"""The diagnostics of a run, as numbers and as one sentence that says whether to trust it.

`_describe` words every verdict; maths.md, "Diagnostics", explains the numbers.
"""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from lastlayer.outcome import Outcome, is_far


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
