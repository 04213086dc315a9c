"""What `sample_network` gives back: an ensemble of whole networks, and a word on how it went."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

__all__ = ["NetworkInfo", "NetworkPosterior", "summed_up"]

TOO_BENT = 0.5  # of a logit's standard deviation, on average


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkInfo:
    """What a run says about itself. Arrays have one entry per part."""

    converged: bool
    message: str  # the verdict, in words
    steps: int  # rounds through all parts
    refused: int  # steps that the evidence bound refused, taken again shorter
    forward_passes: int  # of the network over all rows
    time: np.ndarray  # τ reached
    mean_residual: np.ndarray  # in posterior sd, in the spanned directions
    covariance_residual: np.ndarray  # relative, likewise
    directions: np.ndarray  # spanned by the ensemble, for each output where a part has one
    weights: np.ndarray  # of the part, likewise
    bend: float  # distance of the mean logit from the mean's logit, in sd: 0 is linear
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkPosterior:
    """J networks as rows of weights."""

    particles: np.ndarray  # (J, D)
    mean: np.ndarray  # (D,)
    logits: Callable[[Any, Any], Any]
    info: NetworkInfo

    def __repr__(self) -> str:
        J, D = self.particles.shape
        return f"<NetworkPosterior of {D:,} weights, {J} particles: {self.info.message}>"

    def predict_logits(self, inputs: Any) -> np.ndarray:
        """(J, N, K): what each particle says; particles are taken one after the other."""
        ask = jax.jit(self.logits)
        return np.stack([np.asarray(ask(particle, inputs)) for particle in self.particles])

    def predict_proba(self, inputs: Any) -> np.ndarray:
        """E[y] for each input and output, (N, K)."""
        ask = jax.jit(lambda weights, inputs: jax.nn.sigmoid(self.logits(weights, inputs)))
        total = sum(np.asarray(ask(particle, inputs), np.float64) for particle in self.particles)
        return np.asarray(total / len(self.particles))


def summed_up(
    record: dict[str, Any],
    parts: list[np.ndarray],
    J: int,
    bend: float,
    tolerance: float,
    seconds: float,
) -> NetworkInfo:
    """The numbers of a run with the words for them."""
    mean, covariance = record["residuals"].T
    weights = np.array([part.shape[1] for part in parts])
    converged = bool((record["residuals"] <= tolerance).all())
    rounds = f"{record['steps']} round{'s' * (record['steps'] != 1)}"
    words = [f"converged in {rounds}"]
    if not converged:
        words = [
            f"do not trust this yet: after {rounds} means were up to {mean.max():.2g} sd and "
            f"variances up to {covariance.max():.0%} from rest; give more num_steps"
        ]
    if (confined := weights >= J).any():
        words.append(
            f"{J} particles span {J - 1} directions of a part with {weights[confined].max():,} "
            "weights, whose doubt is understated: cut it into smaller parts or use more particles"
        )
    if bend > TOO_BENT:
        words.append(
            f"the network bends within the ensemble's spread ({bend:.1f} sd): a Gaussian is rough"
        )
    return NetworkInfo(
        converged=converged,
        message="; ".join(words) + ".",
        steps=record["steps"],
        refused=record["refused"],
        forward_passes=record["passes"],
        time=record["time"],
        mean_residual=mean,
        covariance_residual=covariance,
        directions=np.minimum(weights, J - 1),
        weights=weights,
        bend=bend,
        seconds=seconds,
    )
