"""Particles of a network's posterior: sampled once and stored, and measured at each word.

The prior is centred on the trained weights and the rows are those of training, as everywhere
(`equivocal.inference`). With particles, a measure has a value, a low and a high end:

surprise, entropy    value: of the mean belief E[y], E over particles, which is what the ensemble
                     predicts: KL(E[y_t] ‖ E[y_{t−1}]) and H(E[y_{t−1}]) − H(E[y_t]).
                     low, high: contain 95 % of the particles' own values. The divergence is convex,
                     so the value is at most their mean, and may be below low.
epistemic share      belongs to all particles together; see `epistemic_share_interval`
"""

import hashlib
import warnings
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_expit, logsumexp

from equivocal.gestalt import Run
from equivocal.gestalt.storage import name_arrays
from equivocal.inference import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.sampling import Posterior
from equivocal.store.store import Store, hash_content
from equivocal.study.word_measures import WordMeasure, epistemic_share_interval

__all__ = [
    "INTERVAL",
    "PARTICLES",
    "ROWS",
    "SAMPLER",
    "VARIANCE",
    "MeasuredWords",
    "hash_network",
    "measure_particles",
    "sample_particles",
]

INTERVAL = (0.025, 0.975)
VARIANCE = 1.0  # the paper's central prior
PARTICLES = 64
ROWS = "every word"
SAMPLER = SamplerSettings(method="exact-flow", num_particles=PARTICLES, tolerance=0.01)


class MeasuredWords(NamedTuple):
    """One measure of one network, each (sentences, words)."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def hash_network(run: Run, index: int) -> str:
    """Return a hash of a network's weights and of all that its corpus depends on."""
    weights = hashlib.sha256()
    for array in name_arrays(run.models[index]).values():
        weights.update(np.asarray(array).tobytes())
    return hash_content(weights.hexdigest(), run.world.fingerprint, asdict(run.settings))


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
        Keeps the posterior as posteriors/WORLD/NN.safetensors.
    sampler : SamplerSettings
        How it is sampled; another sampler's posterior is not used.

    Returns
    -------
    array (units, particles, features)
        Last layers, each a comprehender. A warning says where the sampler did not converge.
    """
    name = f"posteriors/{run.world.name}/{index:02d}"
    posterior = store.load_or_make(
        name,
        hash_content(hash_network(run, index), sampler.model_dump(), VARIANCE, ROWS),
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
        warnings.warn(
            f"the posterior of network {index} did not converge ({store.folder / name}); interpret "
            "results that depend on it with care.",
            stacklevel=2,
        )
    return np.asarray(posterior.particles, np.float32)


def measure_particles(
    measures: dict[str, WordMeasure],
    logits: Float[np.ndarray, "particles *others words roles units"],
) -> dict[str, MeasuredWords]:
    """Compute measures of beliefs, or of an ensemble, from particles; see above."""
    found = {}
    if any(measure.reads == "beliefs" for measure in measures.values()):
        mean = _average_beliefs(logits)
    for name, measure in measures.items():
        if measure.reads == "beliefs":
            low, high = np.quantile(measure.of(logits), INTERVAL, axis=0)
            found[name] = MeasuredWords(measure.of(mean), low, high)
        else:
            found[name] = MeasuredWords(measure.of(logits), *epistemic_share_interval(logits))
    return found


def _average_beliefs(logits: np.ndarray) -> np.ndarray:
    """Return the logit of E[σ(a)], exact also where all particles are nearly certain."""
    a = np.asarray(logits, np.float64)
    yes, no = logsumexp(log_expit(a), axis=0), logsumexp(log_expit(-a), axis=0)
    return np.asarray(yes - no)
