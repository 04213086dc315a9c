"""Particles of the posterior over a network's last layer, sampled once and stored.

The prior is centred on the trained weights and the rows are those of training, as everywhere
(`equivocal.beliefs`). The settings of the sampler (`SAMPLER`) may be changed; stored posteriors are
then sampled anew.
"""

import hashlib
import warnings
from dataclasses import asdict

import numpy as np

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Run
from equivocal.network.storage import name_arrays
from equivocal.store.store import NETWORK_CODE, POSTERIOR_CODE, Store, hash_content
from lastlayer import Posterior

__all__ = ["MEASURE_CODE", "ROWS", "SAMPLER", "VARIANCE", "sample_particles"]

VARIANCE = 1.0  # of the prior; the paper's central one
ROWS = "every word"
MEASURE_CODE = (*POSTERIOR_CODE, "equivocal/measuring/particles.py")
SAMPLER = SamplerSettings(method="exact-flow", num_particles=64, tolerance=0.01)


def sample_particles(
    run: Run, index: int, store: Store, sampler: SamplerSettings = SAMPLER
) -> np.ndarray:
    """Load the particles of a network's posterior from a store, or sample them into it.

    Parameters
    ----------
    run : Run
        The training run.
    index : int
        Which of its networks.
    store : Store
        Stores the posterior as posteriors/WORLD/NN.safetensors.
    sampler : SamplerSettings
        The sampler; a stored posterior of another one is not used.

    Returns
    -------
    array (units, particles, features)
        Last layers, each of a simulated comprehender. A sampler that did not converge is warned of.
    """
    name = f"posteriors/{run.world.name}/{index:02d}"
    what = (_hash_network(run, index), sampler.model_dump(), VARIANCE, ROWS)
    posterior = store.load_or_make(
        name,
        hash_content(*what, code=MEASURE_CODE),
        ".safetensors",
        load=Posterior.load,
        make=lambda: infer_posterior(
            collect_last_layer(run, run.networks[index], ROWS),
            sampler,
            VARIANCE,
            run.settings.seed + index,
        ),
        save=Posterior.save,
    )
    if not posterior.info.converged:
        what_happened = "diverged" if posterior.info.diverged.any() else "did not converge"
        warnings.warn(
            f"the posterior of network {index} {what_happened} ({store.folder / name}); interpret "
            "results that depend on it with care.",
            stacklevel=2,
        )
    return np.asarray(posterior.particles, np.float32)


def _hash_network(run: Run, index: int) -> str:
    """Return a hash of a network's weights and of all that its corpus depends on."""
    weights = hashlib.sha256()
    for array in name_arrays(run.models[index]).values():
        weights.update(np.asarray(array).tobytes())
    about = (weights.hexdigest(), run.world.fingerprint, asdict(run.settings))
    return hash_content(*about, code=NETWORK_CODE)
