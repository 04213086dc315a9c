"""How a run went and whether to trust it, in numbers and in one sentence.

The words of every verdict are in `_describe`; docs/maths.md, "Diagnostics", says what the numbers
mean.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from equivocal.machine import use_one_blas_thread
from equivocal.sampling.diagnostics import is_far
from equivocal.sampling.engine.settings import Outcome

if TYPE_CHECKING:
    from equivocal.sampling.posterior import Draws

HANDED_ON = (  # from an `Outcome`, as they are
    "repaired",
    "steps",
    "time",
    "mean_residual",
    "covariance_residual",
    "covariance_shift",
    "refined",
    "r_hat",
    "ess",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Info:
    """What a run says about itself. Arrays have one entry per output."""

    method: str
    converged: bool  # every output
    message: str  # the verdict, in words
    gaussian_enough: bool  # no output's covariance shift is known to be above the limit
    confined: bool  # J ≤ D: the ensemble could not leave the subspace it started in
    repaired: int  # particles that diverged and were reset
    output_converged: np.ndarray
    steps: np.ndarray
    time: np.ndarray  # τ reached; NaN where the method has no such time
    mean_residual: np.ndarray  # of the fixed-point equations, in posterior sd
    covariance_residual: np.ndarray  # relative, worst direction
    covariance_shift: np.ndarray  # estimated relative error of the Gaussian's variances; NaN: none
    refined: np.ndarray  # outputs that were sampled exactly because a Gaussian is not enough
    r_hat: np.ndarray  # of chains: rank-normalised split-R̂ of the worst weight; NaN: no chains
    ess: np.ndarray  # effective sample size of the worst weight, bulk or tail; likewise
    rank: "np.ndarray | Callable[[], np.ndarray]"  # `effective_rank`, or how to compute it
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def effective_rank(self) -> np.ndarray:
        """Of the ensemble: exp(entropy of the covariance's spectrum); computed when first used."""
        return self.rank() if callable(self.rank) else self.rank

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain values, as a file's header needs them.

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
        arrays["rank"] = arrays.pop("effective_rank")
        known = {name: value for name, value in values.items() if name != "effective_rank"}
        return cls(**(known | arrays))


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
    """Return the effective rank from covariances up to a factor, as of a Gaussian's many draws."""
    scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0))
    scale = np.where(scale > 0, scale, 1).astype(np.float64)
    return _compute_rank_of(covariance / np.outer(scale, scale))


def _compute_rank_of(matrices: np.ndarray) -> np.ndarray:
    if jax.default_backend() == "cpu":
        with use_one_blas_thread():
            spectrum = np.linalg.eigvalsh(matrices)
    else:
        with jax.enable_x64(True):
            spectrum = np.asarray(jax.numpy.linalg.eigvalsh(matrices))
    share = np.maximum(spectrum, 0) / np.maximum(spectrum.sum(axis=1, keepdims=True), 1e-300)
    entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(axis=1)
    rank: np.ndarray = np.exp(entropy)
    return rank


def make_info(
    outcome: Outcome,
    draws: "np.ndarray | Draws",
    covariance: np.ndarray,
    **about: Any,
) -> Info:
    """Gather the numbers of a run and its verdict; `about` are the fields that it cannot know."""
    J, D = draws.shape[1:]
    gaussian = outcome.factor is not None and J > D  # particles have the covariance, to round-off
    confined = J <= D and outcome.in_subspace
    return Info(
        converged=bool(outcome.converged.all()),
        message=_describe(outcome, draws.shape, confined),
        gaussian_enough=not is_far(outcome).any(),
        confined=confined,
        output_converged=outcome.converged,
        **{name: getattr(outcome, name) for name in HANDED_ON},
        rank=partial(compute_rank, covariance) if gaussian else partial(_rank_draws, draws),
        **about,
    )


def _rank_draws(draws: "np.ndarray | Draws") -> np.ndarray:
    return compute_effective_rank(draws if isinstance(draws, np.ndarray) else draws.make())


def _describe(outcome: Outcome, shape: tuple[int, ...], confined: bool) -> str:
    """Return one line that a person can act on."""
    K, J, D = shape
    shift, far = outcome.covariance_shift, is_far(outcome)
    missed = int((~outcome.converged).sum())
    count = int(np.median(outcome.steps))
    parts = [f"converged in {count} step{'s' * (count != 1)}" if count else "converged at once"]
    if missed:
        which = f"{missed} of {K} outputs" if K > 1 else "it"
        parts = [f"do not trust this yet: {which} did not converge ({outcome.stop_reason})"]
    if outcome.repaired:
        parts.append(
            f"{outcome.repaired} particles diverged and were reset, so the step was too long: "
            f"{outcome.remedy}"
        )
    if confined:
        parts.append(
            f"{J} particles cannot leave a {J - 1}-dimensional subspace of {D}: "
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
    return "; ".join([*parts, *outcome.notes]) + "."
