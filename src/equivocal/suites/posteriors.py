"""The posterior behind each network, for the measures that need one: sampled once and kept.

    RUN/posteriors/suites_VARIANCE/NN-KEY.safetensors

KEY is of the network's weights, so that one that was trained anew gets a posterior of its own. The
prior is about the trained weights and the rows are those of training, as in `study.inference`.
"""

import warnings
from pathlib import Path

import numpy as np

from equivocal.errors import UserError
from equivocal.files import checksum
from equivocal.gestalt import Run
from equivocal.progress import Advance
from equivocal.sampling import Posterior
from equivocal.study.inference import infer, last_layer_of
from equivocal.study.settings import SamplerSettings

__all__ = ["PARTICLES", "VARIANCE", "particles_of", "sample_posteriors"]

VARIANCE = 1.0  # the paper's central prior
PARTICLES = 64
SAMPLER = SamplerSettings(method="exact-flow", num_particles=PARTICLES, tolerance=0.01)


def sample_posteriors(run: Run, folder: Path, advance: Advance) -> None:
    """Sample what is not there yet or cannot be read."""
    for index, network in enumerate(run.networks):
        path = _path(folder, index)
        if path.exists():
            try:
                Posterior.load(path)
            except UserError as error:
                warnings.warn(f"{str(error).rstrip('.')}; it is sampled again.", stacklevel=2)
            else:
                continue
        layer = last_layer_of(run, network, "every word")
        infer(layer, SAMPLER, VARIANCE, run.settings.seed + index).save(path)
        advance(index + 1, len(run.networks), "sampled")


def particles_of(folder: Path, index: int) -> np.ndarray:
    """(units, J, D): the last layers of one network's comprehenders."""
    return np.asarray(Posterior.load(_path(folder, index)).particles, np.float32)


def _path(folder: Path, index: int) -> Path:
    key = str(checksum(folder / "networks" / f"{index:02d}.safetensors"))[:12]
    return folder / "posteriors" / f"suites_{VARIANCE:g}" / f"{index:02d}-{key}.safetensors"
