"""The posterior behind each network, for the measures that need one: sampled once and kept.

    RUN/posteriors/suites_VARIANCE/NN-KEY.safetensors

KEY is of the network's file and of how it is sampled, so that a network that was trained anew, and
another sampler, get posteriors of their own. The prior is about the trained weights and the rows
are those of training, as in `study.inference`.
"""

import warnings
from pathlib import Path

import numpy as np

from equivocal.errors import UserError
from equivocal.gestalt import Run
from equivocal.gestalt.storage import locate_network
from equivocal.inference import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.progress import Advance
from equivocal.sampling import Posterior
from equivocal.store.files import compute_checksum
from equivocal.store.stages import hash_content

__all__ = ["PARTICLES", "VARIANCE", "particles_of", "sample_posteriors"]

VARIANCE = 1.0  # the paper's central prior
PARTICLES = 64
ROWS = "every word"
SAMPLER = SamplerSettings(method="exact-flow", num_particles=PARTICLES, tolerance=0.01)


def sample_posteriors(run: Run, folder: Path, advance: Advance) -> None:
    """Sample what is not there yet or cannot be read; warn of what did not come to rest."""
    for index, network in enumerate(run.networks):
        path = _path(folder, index)
        posterior = _kept(path)
        if posterior is None:
            layer = collect_last_layer(run, network, ROWS)
            posterior = infer_posterior(layer, SAMPLER, VARIANCE, run.settings.seed + index)
            posterior.save(path)
            advance(index + 1, len(run.networks), "sampled")
        if not posterior.info.converged:
            warnings.warn(
                f"the posterior of network {index} did not come to rest ({path}); read what is "
                "made of it with care.",
                stacklevel=2,
            )


def _kept(path: Path) -> Posterior | None:
    if not path.exists():
        return None
    try:
        return Posterior.load(path)
    except UserError as error:
        warnings.warn(f"{str(error).rstrip('.')}; it is sampled again.", stacklevel=3)
        return None


def particles_of(folder: Path, index: int) -> np.ndarray:
    """(units, J, D): the last layers of one network's comprehenders."""
    return np.asarray(Posterior.load(_path(folder, index)).particles, np.float32)


def _path(folder: Path, index: int) -> Path:
    weights = str(compute_checksum(locate_network(folder, index)))
    key = hash_content(weights, SAMPLER.model_dump(), VARIANCE, ROWS)
    return folder / "posteriors" / f"suites_{VARIANCE:g}" / f"{index:02d}-{key}.safetensors"
