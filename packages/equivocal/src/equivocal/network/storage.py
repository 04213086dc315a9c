"""A run on disk: weights as safetensors, settings as TOML, the world it was trained in.

DIR/run.toml                     settings, versions, seconds; written first, so that files of an
                                 interrupted run are not taken for the user's own
DIR/world.toml                   the text of the world file
DIR/networks/00.safetensors …    one file per network, with the world's fingerprint inside
DIR/curves.csv, DIR/scores.csv   loss and accuracy per epoch; scores of each trained network
DIR/records/networks.json        the record of the store, with the checksums of all but the scores

A folder may be copied to another machine. Change FORMAT when the arrays of a network change.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tomli_w
from safetensors.numpy import save_file

from equivocal.network.sentence_gestalt import SentenceGestalt, create_network
from equivocal.network.settings import TrainingSettings
from equivocal.store import parse_json, read_toml
from equivocal.store.files import write_text_atomically
from equivocal.store.folders import NETWORKS, RECORD, TRAIN_AGAIN, check_run, locate_network
from equivocal.store.store import NETWORK_CODE, Store, hash_content
from equivocal.world import World
from lastlayer.errors import UserError, join_names
from lastlayer.files import Shapes, UnreadableError, read_tensors, write_atomically
from lastlayer.machine import collect_versions, count_cores

__all__ = ["hash_run", "name_arrays", "write_settings"]

FORMAT = 1
WRITTEN = ("world.toml", "networks", "curves.csv", "scores.csv")  # beside run.toml
ABOUT = "equivocal"  # key of the file's metadata


def name_arrays(model: SentenceGestalt) -> dict[str, Any]:
    """Return the arrays by name, such as `update.token_weight`, in a fixed order."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {".".join(key.name for key in path): leaf for path, leaf in leaves}


def hash_run(world: World, settings: TrainingSettings) -> str:
    """Return the key of a run.

    Parameters
    ----------
    world : World
        The world in which the networks are trained.
    settings : TrainingSettings
        How they are trained.

    Returns
    -------
    str
        A hash of both and of the code that trains.
    """
    return hash_content(world.fingerprint, asdict(settings), code=NETWORK_CODE)


def start_run(directory: Path, world: World, settings: TrainingSettings, seconds: float) -> None:
    """Write the settings and the world of a new run, and remove the networks of an earlier one."""
    took = round(seconds, 3)
    write_settings(directory / "run.toml", world, settings, seconds=took, checksums=RECORD)
    for path in (directory / "networks").glob("*.safetensors"):
        path.unlink()
    write_text_atomically(directory / "world.toml", world.text)


def save_network(directory: Path, index: int, model: SentenceGestalt, world: World) -> None:
    """Write one network of a run."""
    arrays = {name: np.asarray(array) for name, array in name_arrays(model).items()}
    about = {"format": FORMAT, "world": world.name, "fingerprint": world.fingerprint}
    with write_atomically(locate_network(directory, index)) as temporary:
        # a single entry: safetensors writes several in any order, and equal runs give equal files
        save_file(arrays, temporary, metadata={ABOUT: json.dumps(about)})


def finish_run(directory: Path, world: World, settings: TrainingSettings) -> None:
    """Record that all files of a run are written."""
    written = [directory / name for name in ("run.toml", "world.toml", "curves.csv")]
    written += [locate_network(directory, index) for index in range(settings.networks)]
    Store(directory).record(NETWORKS, hash_run(world, settings), written)


def write_settings(
    path: Path, world: World, settings: TrainingSettings, **more: int | float | str
) -> None:
    """Write everything needed to repeat a training, and the machine and versions that it used."""
    content = {
        **more,
        "world": {"name": world.name, "fingerprint": world.fingerprint},
        "training": asdict(settings),
        # on another number of cores networks are grouped differently and round-off may differ
        "machine": {"backend": jax.default_backend(), "cores": count_cores()},
        "versions": collect_versions("equinox", "optax"),
    }
    write_text_atomically(path, tomli_w.dumps(content))


def read_settings(directory: Path) -> tuple[TrainingSettings, dict[str, Any]]:
    """Read the settings of a run, complete or not, and the whole content of `run.toml`."""
    path = directory / "run.toml"
    try:
        content = read_toml(path)
        settings = TrainingSettings(**content["training"])
        if missing := asdict(settings).keys() - content["training"].keys():
            raise KeyError(f"{join_names(sorted(missing))} missing")
        content["seconds"] = float(content["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        reason = getattr(error, "reason", str(error).strip("'."))
        raise UserError(
            f"{path} is damaged or from another version ({reason}); {TRAIN_AGAIN}"
        ) from None
    return settings, content


def read_run(directory: Path) -> tuple[World, TrainingSettings, float]:
    """Read the world, the settings and the training time of a complete run."""
    check_run(directory, directory / "run.toml", directory / "world.toml")
    settings, content = read_settings(directory)
    seconds: float = content["seconds"]
    try:
        return World.load(directory / "world.toml"), settings, seconds
    except UserError as error:
        problem = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the world of {directory} is damaged ({problem}); {TRAIN_AGAIN}") from None


def load_network(
    directory: Path, index: int, world: World | None = None
) -> tuple[SentenceGestalt, World]:
    """Load one network of a run and its world, which must be `world` if that is given."""
    own_world, settings, _ = read_run(directory)
    if not isinstance(index, int) or not 0 <= index < settings.networks:
        raise UserError(
            f"{directory} holds networks 0 to {settings.networks - 1}; there is no {index!r}."
        )
    world = own_world if world is None else world
    check_run(directory, locate_network(directory, index))
    return load_model(directory, index, world, settings), world


def load_model(
    directory: Path, index: int, world: World, settings: TrainingSettings
) -> SentenceGestalt:
    """Load the weights of one network; a file of another world or another shape is refused."""
    path = locate_network(directory, index)
    sizes = {"num_tokens": len(world.tokens), "num_units": len(world.units)}
    sizes |= {"hidden": settings.hidden, "gestalt": settings.gestalt}
    # a network with shapes in place of weights
    empty: SentenceGestalt = eqx.filter_eval_shape(create_network, jax.random.key(0), **sizes)
    expected = {name: leaf.shape for name, leaf in name_arrays(empty).items()}

    def check(metadata: dict[str, str], shapes: Shapes) -> None:
        try:
            about = parse_json(metadata[ABOUT])
            origin = about["format"], about["fingerprint"]
        except (ValueError, KeyError, TypeError):
            origin = None
        if origin != (FORMAT, world.fingerprint):
            raise UserError(
                f"{path} was trained in another world or by another version "
                f"({metadata.get(ABOUT, 'unknown')!s:.200}), not in {world.name!r} "
                f"({world.fingerprint}); load it with its own world, or {TRAIN_AGAIN}"
            )
        for name in expected.keys() | shapes.keys():
            if shapes.get(name) != expected.get(name):
                raise UserError(
                    f"{path} does not fit: array {name!r:.60} has shape {shapes.get(name)}, and "
                    f"this world with {settings.hidden} hidden and {settings.gestalt} gestalt "
                    f"units needs {expected.get(name)}; use the run's own run.toml and world.toml."
                )

    try:
        _, arrays = read_tensors(path, check, finite=True)
    except UnreadableError as error:
        raise UserError(f"{path} cannot be read ({error.reason}); {TRAIN_AGAIN}") from None
    leaves = [jnp.asarray(arrays[name], jnp.float32) for name in expected]
    network: SentenceGestalt = jax.tree.unflatten(jax.tree.structure(empty), leaves)
    return network
