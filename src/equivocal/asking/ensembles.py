"""The ensembles of a network, each made when it is first asked for and kept as one file.

    converged_VARIANCE   particles (fillers, J, D) where the equations come to rest
    path_VARIANCE        particles (steps, fillers, J, D) and time (steps,) of the paper's sampler
                         on its way there

Files are written whole or not at all, by one process at a time; others wait for it. One that cannot
be read, or is not as it was written, is named and made again, and so is the default network; a run
of your own is never touched.
"""

import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from equivocal.asking.listener import is_network
from equivocal.asking.source import Source, altered_file
from equivocal.asking.vocabulary import Vocabulary
from equivocal.errors import UserError
from equivocal.progress import Advance, announce, progress
from equivocal.store import CHECKSUM, Shapes, UnreadableError, add_tensor_checksum, read_tensors
from equivocal.store.files import write_atomically
from equivocal.store.locks import hold_folder

__all__ = ["converged", "load_weights", "path"]

Arrays = dict[str, np.ndarray]


def load_weights(source: Source) -> Arrays:
    """The network's weights; the default network is trained first if there is none."""
    try:
        if source.run is not None or source.is_trained:
            return _weights(source)
    except UnreadableError as error:
        if source.run is not None:
            raise UserError(
                f"{source.network_path} cannot be read ({error.reason}); train again into another "
                "folder."
            ) from None
    return _train(source)


def _weights(source: Source) -> Arrays:
    if altered := altered_file(source.run_folder, source.network):
        raise UnreadableError(altered, "it is not as it was written")

    def check(_: dict[str, str], found: Shapes) -> None:
        world = source.world
        if not is_network(found, len(world.tokens), len(world.units)):
            raise UnreadableError(source.network_path, "it is no network of this world")

    _, weights = read_tensors(source.network_path, check)
    if not all(np.isfinite(array).all() for array in weights.values()):
        raise UnreadableError(source.network_path, "a weight is not a number")
    return weights


def _train(source: Source) -> Arrays:
    from equivocal.asking.making import train_default

    with hold_folder(source.folder, wait=True):
        if source.is_trained:
            try:
                return _weights(source)  # another process trained it while this one waited
            except UnreadableError as error:
                warnings.warn(f"{str(error).rstrip('.')}; it is trained again.", stacklevel=2)
        for left in source.folder.glob(".run.*"):  # by a process that was killed
            shutil.rmtree(left)
        shutil.rmtree(source.run_folder, ignore_errors=True)
        announce(
            f"{source.name} is trained once, in half a minute or so, and kept in {source.folder}"
        )
        with progress(f"training {source.name}") as advance:
            train_default(source, advance)
    return _weights(source)


def converged(source: Source, variance: float) -> np.ndarray:
    """(fillers, J, D) particles of the posterior with this prior variance."""

    def make(advance: Advance) -> Arrays:
        from equivocal.asking.making import make_converged

        return {"particles": make_converged(source, variance, advance)}

    count = len(Vocabulary.of(source.world).fillers)
    shapes: Shapes = {"particles": (count, source.settings.particles)}
    what = f"posterior for prior variance {variance:g}"
    return _kept(source, f"converged_{variance:g}", shapes, what, make)["particles"]


def path(source: Source, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """(steps, fillers, J, D) particles of the paper's sampler, and its time τ at those steps."""

    def make(advance: Advance) -> Arrays:
        from equivocal.asking.making import make_path

        particles, time = make_path(source, variance, advance)
        return {"particles": particles, "time": time}

    count, steps = len(Vocabulary.of(source.world).fillers), len(source.settings.kept_steps)
    shapes: Shapes = {
        "particles": (steps, count, source.settings.path_particles),
        "time": (steps,),
    }
    what = f"sampler's way for prior variance {variance:g}"
    found = _kept(source, f"path_{variance:g}", shapes, what, make)
    return found["particles"], found["time"]


def _kept(
    source: Source, name: str, shapes: Shapes, what: str, make: Callable[[Advance], Arrays]
) -> Arrays:
    """What a file holds; made and kept first where it is not there, or not what was kept."""
    file = source.folder / f"{name}.safetensors"
    with suppress(UnreadableError):
        return _read(file, shapes)
    with hold_folder(source.folder, wait=True):
        try:
            return _read(file, shapes)  # another process made it while this one waited
        except UnreadableError as error:
            if file.exists():
                warnings.warn(f"{str(error).rstrip('.')}; it is made again.", stacklevel=2)
        announce(f"the {what} is sampled once and kept in {source.folder}")
        with progress(what) as advance:
            arrays = {name: np.ascontiguousarray(array) for name, array in make(advance).items()}
        with write_atomically(file) as temporary:
            save_file(arrays, temporary, metadata=add_tensor_checksum({}, arrays))
    return arrays


def _read(file: Path, shapes: Shapes) -> Arrays:
    def check(_: dict[str, str], found: Shapes) -> None:
        if not all(name in found and found[name][: len(s)] == s for name, s in shapes.items()):
            raise UnreadableError(file, "it holds something else")

    about, arrays = read_tensors(file, check, tuple(shapes))
    if CHECKSUM not in about:
        raise UnreadableError(file, "it is not as it was written")
    return arrays
