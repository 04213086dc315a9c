"""Rows to measure on: inputs of a trained network's last layer, or similar made-up ones."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.special import expit

from benchmarks.sampler.settings import BenchSettings
from lastlayer.errors import UserError

__all__ = ["Data", "collect_run_rows", "make_network_rows", "make_plain_rows"]

LATENT = 20  # dimensions of made-up features, about as many as those of a network have
CHUNK = 10_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """Rows, including repeated ones, with a yes or no for each output."""

    features: np.ndarray  # (N, D) float32, last column ones
    targets: np.ndarray  # (N, K) int8
    held_out: np.ndarray  # (M, D), rows that are not among `features`

    @cached_property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct rows, and the index of each row among them."""
        distinct, group = np.unique(self.features, axis=0, return_inverse=True)
        return distinct, group.ravel()

    @property
    def two_classes(self) -> list[int]:
        """The outputs that are neither always nor never on."""
        varies = self.targets.min(axis=0) < self.targets.max(axis=0)
        return [int(k) for k in np.flatnonzero(varies)]

    def summary(self) -> dict[str, int]:
        """Return the sizes for the result file."""
        return {
            "rows": len(self.features),
            "distinct_rows": len(self.groups[0]),
            "features": self.features.shape[1],
            "outputs": self.targets.shape[1],
            "outputs_with_one_class": self.targets.shape[1] - len(self.two_classes),
            "held_out_rows": len(self.held_out),
        }


def collect_run_rows(directory: Path, settings: BenchSettings) -> Data:
    """Draw rows in proportion to the questions of 10,000 sentences, and targets from the answers.

    The held-out rows are distinct rows that were not drawn: rare questions, for which a posterior
    matters most.
    """
    from equivocal.network import Network, features

    network = Network.load(directory, index=0)
    asked = features(network, network.world.sample(10_000, seed=0))
    psi, counts = asked["features"].values, asked["counts"].values
    rate = asked["targets"].values / counts[:, None]
    every = np.linspace(0, rate.shape[1] - 1, min(settings.outputs, rate.shape[1])).astype(int)
    rng = np.random.default_rng(settings.seed)
    drawn = rng.choice(len(psi), settings.rows, p=counts / counts.sum())
    targets = rng.random((settings.rows, len(every))) < rate[np.ix_(drawn, every)]
    others = np.setdiff1d(np.arange(len(psi)), drawn)
    if not len(others):
        raise UserError(
            f"{directory} has {len(psi):,} distinct rows, all of which are among the "
            f"{settings.rows:,} drawn, so that none is left to hold out; choose another run."
        )
    held_out = rng.permutation(others)[: settings.held_out]
    data = Data(
        features=psi[drawn].astype(np.float32),
        targets=targets.astype(np.int8),
        held_out=psi[held_out].astype(np.float32),
    )
    if not data.two_classes:
        raise UserError(f"no output of {directory} is ever on in the rows drawn; choose another.")
    return data


def make_network_rows(settings: BenchSettings) -> Data:
    """Make rows of logistic units of a few latent dimensions and a constant, and their targets.

    Output k depends on the features with a strength from 0.1 to 5 and is on in a half to a
    hundredth of the rows, both independently of each other.
    """
    rng = np.random.default_rng(settings.seed)
    N, K, D = settings.rows + settings.held_out, settings.outputs, settings.features
    units = rng.standard_normal((min(LATENT, D), D - 1))
    psi = np.ones((N, D), np.float32)
    psi[:, :-1] = expit(rng.standard_normal((N, len(units))) @ units)
    weights = rng.standard_normal((D - 1, K)) / np.sqrt(D - 1)
    strength = rng.permutation(np.geomspace(0.1, 5, K))
    logits = (psi[:, :-1] - 0.5) @ weights * (4 * strength)
    rate = rng.permutation(np.geomspace(0.01, 0.5, K))
    logits -= np.array([np.quantile(logits[:, k], 1 - rate[k]) for k in range(K)])
    targets = (rng.random((N, K)) < expit(logits)).astype(np.int8)
    cut = settings.rows
    return Data(features=psi[:cut], targets=targets[:cut], held_out=psi[cut:])


def make_plain_rows(
    rows: int, outputs: int, features: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 features and int8 targets, made with little additional memory."""
    rng = np.random.default_rng(seed)
    psi = np.empty((rows, features), np.float32)
    targets = np.empty((rows, outputs), np.int8)
    weights = rng.standard_normal((features, outputs), dtype=np.float32) / np.sqrt(features)
    for first in range(0, rows, CHUNK):
        some = slice(first, min(first + CHUNK, rows))
        psi[some] = rng.standard_normal(psi[some].shape, dtype=np.float32)
        targets[some] = rng.random(targets[some].shape) < expit(psi[some] @ weights)
    return psi, targets
