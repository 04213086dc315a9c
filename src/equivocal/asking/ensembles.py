"""The ensembles of a network, each made when it is first asked for and kept as one file.

    converged_VARIANCE   particles (fillers, J, D) where the equations come to rest
    path_VARIANCE        particles (steps, fillers, J, D) and time (steps,) of the paper's sampler
                         on its way there

Files are written whole or not at all. One that cannot be read, or does not fit, is made again, and
so is the default network; a run of your own is never touched.
"""

import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from equivocal.asking.source import Source
from equivocal.asking.vocabulary import Vocabulary
from equivocal.errors import UserError
from equivocal.files import ensure_writable, replacing
from equivocal.progress import Advance, announce, progress

__all__ = ["converged", "load_weights", "path"]

Arrays = dict[str, np.ndarray]


def load_weights(source: Source) -> Arrays:
    """The network's weights; the default network is trained first if there is none."""
    if source.run is None and not source.is_trained:
        _train(source)
    try:
        weights = load_file(source.network_path)
        if not all(np.isfinite(array).all() for array in weights.values()):
            raise ValueError("a weight is not a number")
    except (OSError, SafetensorError, ValueError) as error:
        if source.run is not None:
            raise UserError(
                f"{source.network_path} cannot be read ({error}); train again into another folder."
            ) from None
    else:
        return weights
    shutil.rmtree(source.run_folder)
    _train(source)
    return load_file(source.network_path)


def _train(source: Source) -> None:
    from equivocal.asking.making import train_default

    ensure_writable(source.folder)
    announce(f"{source.name} is trained once, in half a minute or so, and kept in {source.folder}")
    with progress(f"training {source.name}") as advance:
        train_default(source, advance)


def converged(source: Source, variance: float) -> np.ndarray:
    """(fillers, J, D) particles of the posterior with this prior variance."""
    file = source.folder / f"converged_{variance:g}.safetensors"
    count = len(Vocabulary.of(source.world).fillers)
    found = _found(file, {"particles": (count, source.settings.particles)})
    if found is None:
        from equivocal.asking.making import make_converged

        with _making(source, f"posterior for prior variance {variance:g}") as advance:
            found = {"particles": make_converged(source, variance, advance)}
        _keep(file, found)
    return found["particles"]


def path(source: Source, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """(steps, fillers, J, D) particles of the paper's sampler, and its time τ at those steps."""
    file = source.folder / f"path_{variance:g}.safetensors"
    count, steps = len(Vocabulary.of(source.world).fillers), len(source.settings.kept_steps)
    shapes = {"particles": (steps, count, source.settings.path_particles), "time": (steps,)}
    found = _found(file, shapes)
    if found is None:
        from equivocal.asking.making import make_path

        with _making(source, f"sampler's way for prior variance {variance:g}") as advance:
            particles, time = make_path(source, variance, advance)
        found = {"particles": particles, "time": time}
        _keep(file, found)
    return found["particles"], found["time"]


def _making(source: Source, what: str) -> AbstractContextManager[Advance]:
    ensure_writable(source.folder)
    announce(f"the {what} is sampled once and kept in {source.folder}")
    return progress(what)


def _found(file: Path, shapes: dict[str, tuple[int, ...]]) -> Arrays | None:
    """What a file holds, or None where it is not there or not what was kept."""
    try:
        arrays = load_file(file)
    except (OSError, SafetensorError, ValueError):
        return None
    fits = all(name in arrays and arrays[name].shape[: len(s)] == s for name, s in shapes.items())
    sound = fits and all(np.isfinite(array).all() for array in arrays.values())
    return arrays if sound else None


def _keep(file: Path, arrays: Arrays) -> None:
    with replacing(file) as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary)
