"""A network's weights and ensembles, from the cache or made when they are first asked for.

    converged_VARIANCE   particles (fillers, J, D) of the converged posterior, by `exact-flow`
    path_VARIANCE        particles (steps, fillers, J, D) and time (steps,) of the paper's sampler
                         on its way from the prior

Each is a result in the `Store` of the source's folder: one process makes it while others wait, and
a damaged file is named and recomputed. The default network is trained again likewise; a run of the
user's own is never touched. JAX is imported only where something has to be made.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save_file

from equivocal.asking.network import has_network_shapes
from equivocal.asking.source import Source
from equivocal.asking.vocabulary import Vocabulary
from equivocal.errors import UserError
from equivocal.progress import announce, progress
from equivocal.store import UnreadableError, read_tensors
from equivocal.store.locks import hold_folder
from equivocal.store.runs import find_damaged
from equivocal.store.store import Store

if TYPE_CHECKING:
    from equivocal.inference import LastLayer
    from equivocal.sampling import Snapshot


Arrays = dict[str, np.ndarray]


def load_weights(source: Source) -> Arrays:
    """Load the weights of a network; the default network is trained first where there is none."""
    if source.run is None and find_damaged(source.run_folder):
        _train_default(source)
    path, world = source.network_path, source.world
    try:
        _, weights = read_tensors(path, finite=True)
        if not has_network_shapes(weights, len(world.tokens), len(world.units)):
            raise UnreadableError(path, "it is no network of this world")
    except UnreadableError as error:
        raise UserError(
            f"{path} cannot be read ({error.reason}); train again into another folder."
        ) from None
    return weights


def _train_default(source: Source) -> None:
    from equivocal.experiments.networks import train_or_load
    from equivocal.gestalt import TrainingSettings

    with hold_folder(source.folder, wait=True):
        if find_damaged(source.run_folder):  # not trained by another process meanwhile
            announce(
                f"{source.name} is trained once, in half a minute or so, and cached in "
                f"{source.folder}"
            )
        settings = TrainingSettings.from_dict(dict(source.settings.training))
        train_or_load(source.world, settings, source.run_folder)


def load_ensemble(source: Source, kind: str, variance: float) -> Arrays:
    """Load the arrays of an ensemble from the cache, or sample and keep them.

    Parameters
    ----------
    source : Source
        The network, and the settings of its ensembles.
    kind : {"converged", "path"}
        The converged posterior, or the paper's sampler at the kept steps.
    variance : float
        The prior variance.

    Returns
    -------
    dict of str to array
        `particles`, and the sampler's `time` at each step of a path.
    """
    sample, what = {
        "converged": (_sample_converged, "posterior"),
        "path": (_sample_path, "path of the paper's sampler"),
    }[kind]

    def load(path: Path) -> Arrays:
        return read_tensors(path)[1]

    def make() -> Arrays:
        title = f"{what} for prior variance {variance:g}"
        announce(f"the {title} is sampled once and cached in {source.folder}")
        with progress(title):
            arrays = sample(source, variance)
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    key = source.folder.name  # holds the hash of everything that the arrays depend on
    return Store(source.folder, shared=True).load_or_make(
        f"{kind}_{variance:g}", key, ".safetensors", load=load, make=make, save=save_file
    )


def _sample_converged(source: Source, variance: float) -> Arrays:
    from equivocal.inference import SamplerSettings, infer_posterior

    settings, (layer, unit_of) = source.settings, _collect_layer(source)
    sampler = SamplerSettings(
        method="exact-flow", num_particles=settings.particles, tolerance=settings.tolerance
    )
    posterior = infer_posterior(layer, sampler, variance, settings.seed)
    return {"particles": np.asarray(posterior.particles[unit_of], np.float32)}


def _sample_path(source: Source, variance: float) -> Arrays:
    """Watch the paper's sampler at the kept steps; its time τ is the median over units."""
    from equivocal.inference import SamplerSettings, infer_posterior

    settings, steps = source.settings, source.settings.kept_steps
    layer, unit_of = _collect_layer(source)
    units, size = layer.trained.shape
    particles = np.full((len(steps), units, settings.path_particles, size), np.nan, np.float32)
    time = np.full((len(steps), units), np.nan)

    def observe(snapshot: "Snapshot") -> None:
        if snapshot.step in steps:
            at = steps.index(snapshot.step)
            outputs = slice(snapshot.outputs.start, snapshot.outputs.stop)
            particles[at, outputs], time[at, outputs] = snapshot.particles, snapshot.time

    sampler = SamplerSettings(
        method="dropout-deterministic",
        num_particles=settings.path_particles,
        num_steps=steps[-1],
        options={"dropout_rate": settings.dropout_rate},
    )
    infer_posterior(layer, sampler, variance, settings.seed, observe)
    for at in range(1, len(steps)):  # an output that converged early stays where it was
        done = np.isnan(time[at])
        particles[at, done], time[at, done] = particles[at - 1, done], time[at - 1, done]
    return {"particles": particles[:, unit_of], "time": np.median(time, axis=1)}


@lru_cache(maxsize=1)
def _collect_layer(source: Source) -> "tuple[LastLayer, np.ndarray]":
    """Collect the last layer of the fillers' units, and the number of each filler's unit."""
    from equivocal.gestalt import Run
    from equivocal.inference import collect_last_layer

    run = Run.load(source.run_folder)
    units, unit_of = np.unique(Vocabulary.from_world(source.world).units, return_inverse=True)
    layer = collect_last_layer(run, run.networks[source.network], "every word")
    return layer.select(units.tolist()), unit_of
