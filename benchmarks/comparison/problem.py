"""A trained network on a data set, and the interface of a fitted method."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.comparison.data import Task
from benchmarks.comparison.networks import Network, apply_link

__all__ = ["Doubt", "Fitted", "Problem", "describe_doubt", "measure_entropy"]

Doubt = dict[str, np.ndarray]  # "information" and "disagreement" of each row, (N,)


@dataclass(frozen=True)
class Problem:
    """The input of every method: the same rows and the same trained network."""

    task: Task
    network: Network

    @cached_property
    def features(self) -> dict[str, np.ndarray]:
        """Return ψ of training, validation and test rows; the last column is one."""
        inputs = self.task.inputs
        return {part: self.network.compute_features(x) for part, x in inputs.items()}

    @property
    def targets(self) -> dict[str, np.ndarray]:
        """Return the targets of the same rows."""
        return self.task.targets

    @property
    def classes(self) -> bool:
        """Return whether the targets are one of K classes."""
        return self.task.classes

    def apply_link(self, logits: np.ndarray) -> np.ndarray:
        """Return the probabilities of logits."""
        return apply_link(logits, self.task.classes)


@dataclass(frozen=True)
class Fitted:
    """A method after fitting; both functions take raw inputs."""

    predict: Callable[[np.ndarray], np.ndarray]  # probabilities, (N, K)
    doubt: Callable[[np.ndarray], Doubt] | None = None
    note: str = ""


def describe_doubt(logits: np.ndarray, classes: bool) -> Doubt:
    """Return the uncertainty of each row from logits of S draws, (S, N, K), summed over outputs.

    `information` is the mutual information of target and weights, `disagreement` the standard
    deviation of the logits.
    """
    p = np.clip(apply_link(logits, classes), 1e-12, 1 - 1e-12)
    disagreement = logits.std(axis=0).sum(axis=-1)
    return {
        "information": measure_entropy(p.mean(axis=0), classes)
        - measure_entropy(p, classes).mean(axis=0),
        "disagreement": disagreement,
    }


def measure_entropy(p: np.ndarray, classes: bool) -> np.ndarray:
    """Return the entropy in nats, summed over the outputs (last axis)."""
    p = np.clip(p, 1e-12, 1 - 1e-12)
    found = -p * np.log(p) if classes else -p * np.log(p) - (1 - p) * np.log1p(-p)
    return np.asarray(found.sum(axis=-1))
