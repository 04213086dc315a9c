"""The posterior over the last layer of each network of a study, on disk.

    θ_k ~ N(θ_k^MLE, v I),    rows: the questions of the training corpus, with their counts

as in §3 of the paper. One file per sampler, prior variance and network:

    DIR/posteriors/SAMPLER_VARIANCE/NN.safetensors          read back by `Posterior.load`
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equivocal.gestalt import Network, Run, features
from equivocal.gestalt.runs import split_corpus
from equivocal.sampling import Posterior, sample_posterior
from equivocal.sampling.settings import Observer
from equivocal.study.settings import InferenceSettings, SamplerSettings

__all__ = ["LastLayer", "infer", "last_layer_of", "posterior_path"]


class LastLayer(NamedTuple):
    """What a posterior is made of: rows, and the trained weights that centre the prior."""

    features: np.ndarray  # (N, D)
    targets: np.ndarray  # (N, K)
    counts: np.ndarray  # (N,)
    trained: np.ndarray  # (K, D)

    def some(self, units: Sequence[int]) -> "LastLayer":
        """The same for some of the units."""
        return self._replace(targets=self.targets[:, units], trained=self.trained[units])


def last_layer_of(run: Run, network: Network, rows: str) -> LastLayer:
    """The rows that training saw (its held-out sentences are left out)."""
    asked = features(network, split_corpus(run.world, run.settings)[0])
    if rows == "last word":
        asked = asked.isel(row=asked["last_word"].values)
    return LastLayer(
        features=asked["features"].values,
        targets=asked["targets"].values,
        counts=asked["counts"].values,
        trained=network.last_layer().values,
    )


def infer(
    layer: LastLayer,
    sampler: SamplerSettings,
    variance: float,
    seed: int,
    observe: Observer | None = None,
) -> Posterior:
    """The posterior of all units of a layer."""
    return sample_posterior(
        layer.features,
        layer.targets,
        counts=layer.counts,
        prior_mean=layer.trained,
        prior_variance=variance,
        method=sampler.method,
        num_particles=sampler.num_particles,
        num_steps=sampler.num_steps,
        tolerance=sampler.tolerance,
        seed=seed,
        observe=observe,
        **sampler.options,
    )


def posterior_path(folder: Path, sampler: str, variance: float, index: int) -> Path:
    """Where the posterior of one network lies."""
    return folder / "posteriors" / f"{sampler}_{variance:g}" / f"{index:02d}.safetensors"


def seed_of(settings: InferenceSettings, index: int) -> int:
    """Networks get ensembles of their own."""
    return settings.seed + index
