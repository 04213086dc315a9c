"""A run on disk: weights as safetensors, settings as TOML, the world it was trained in.

DIR/world.toml                   the world file, as it was
DIR/networks/00.safetensors …    one file per network, with the world's fingerprint inside
DIR/curves.csv, DIR/scores.csv   loss and accuracy per epoch; how well each network ended
DIR/run.toml                     the record: settings, versions, seconds, checksums of the files
                                 above and of itself; written last, so a run with it is complete

A folder may be copied to another machine. Change FORMAT when the arrays of a network change.
"""

import json
from collections.abc import Container
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tomli_w
from safetensors.numpy import save_file

from equivocal.errors import UserError, join_names
from equivocal.gestalt.network import SentenceGestalt, create_network
from equivocal.gestalt.settings import TrainingSettings
from equivocal.machine import collect_versions, count_cores
from equivocal.store import Shapes, UnreadableError, parse_json, read_tensors, read_toml
from equivocal.store.files import (
    add_checksum,
    compute_checksums,
    write_atomically,
    write_text_atomically,
)
from equivocal.store.folders import find_damaged, locate_network, refuse_incomplete
from equivocal.world import World

__all__ = ["name_arrays", "write_settings"]

FORMAT = 1
TRAIN_AGAIN = "train again, into the same folder or another one (`equivocal train`, `reproduce`)."
# settings that a run without a recipe does not have; all such runs were trained as `fast` is
ADDED = (
    "recipe", "batch", "loss", "optimiser", "momentum", "decay",
    "through_time", "initial_weights", "initial_range",
)  # fmt: skip
UNFINISHED = ".unfinished"  # stands in a folder while a run is written to it
ABOUT = "equivocal"  # key of the file's metadata


def name_arrays(model: SentenceGestalt) -> dict[str, Any]:
    """Return the arrays by name, such as `update.token_weight`, in a fixed order."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {".".join(key.name for key in path): leaf for path, leaf in leaves}


def start_run(directory: Path, world: World) -> None:
    """Remove the record and the networks of an earlier run, and write the world of a new one."""
    write_text_atomically(directory / UNFINISHED, "")
    (directory / "run.toml").unlink(missing_ok=True)
    for path in (directory / "networks").glob("*.safetensors"):
        path.unlink()
    write_text_atomically(directory / "world.toml", world.text)


def save_network(directory: Path, index: int, model: SentenceGestalt, world: World) -> None:
    """Write one network of a run."""
    arrays = {name: np.asarray(array) for name, array in name_arrays(model).items()}
    about = {"format": FORMAT, "world": world.name, "fingerprint": world.fingerprint}
    with write_atomically(locate_network(directory, index)) as temporary:
        # one entry, since safetensors writes several in any order and equal files should be equal
        save_file(arrays, temporary, metadata={ABOUT: json.dumps(about)})


def write_run(directory: Path, world: World, settings: TrainingSettings, seconds: float) -> None:
    """Write `run.toml`, the last file of a run."""
    written = [directory / "world.toml", directory / "curves.csv"]
    written += [locate_network(directory, index) for index in range(settings.networks)]
    checksums = compute_checksums(directory, written)
    path, took = directory / "run.toml", round(seconds, 3)
    write_settings(path, world, settings, seconds=took, checksums=checksums)
    (directory / UNFINISHED).unlink(missing_ok=True)


def write_settings(
    path: Path, world: World, settings: TrainingSettings, **more: int | float | dict[str, str]
) -> None:
    """Write everything needed to repeat a training, and what it was done with."""
    content = {
        **more,
        "world": {"name": world.name, "fingerprint": world.fingerprint},
        "training": asdict(settings),
        # on another number of cores networks are grouped differently and round-off may differ
        "machine": {"backend": jax.default_backend(), "cores": count_cores()},
        "versions": collect_versions("equinox", "optax"),
    }
    write_text_atomically(path, add_checksum(tomli_w.dumps(content)))


def find_foreign(directory: Path) -> list[str]:
    """Find names that a run would write and that are taken, though not by an interrupted run."""
    if (directory / UNFINISHED).exists():
        return []
    names = ("world.toml", "networks", "curves.csv", "scores.csv")
    return [name for name in names if (directory / name).exists()]


def refuse_damaged(directory: Path, names: Container[str] | None = None) -> None:
    """Refuse a run (or these files of it) that is damaged, and name what is."""
    if damaged := find_damaged(directory, names):
        raise UserError(
            f"{join_names(map(str, damaged))} is missing or has a checksum mismatch; {TRAIN_AGAIN}"
        )


def read_run(directory: Path) -> tuple[World, TrainingSettings, float]:
    """Read the world, the settings and the training time of a complete run."""
    path = directory / "run.toml"
    refuse_incomplete(directory, path)
    try:
        content = read_toml(path)
        settings = TrainingSettings.from_dict(content["training"])
        added = () if "recipe" in content["training"] else ADDED
        if missing := asdict(settings).keys() - content["training"].keys() - set(added):
            raise KeyError(f"{join_names(sorted(missing))} missing")
        seconds = float(content["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        reason = getattr(error, "reason", str(error).strip("'."))
        raise UserError(
            f"{path} is damaged or from another version ({reason}); {TRAIN_AGAIN}"
        ) from None
    refuse_damaged(directory, {"world.toml"})
    try:
        return World.load(directory / "world.toml"), settings, seconds
    except UserError as error:
        problem = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the world of {directory} is damaged ({problem}); {TRAIN_AGAIN}") from None


def load_network(
    directory: Path, index: int, world: World | None = None
) -> tuple[SentenceGestalt, World]:
    """Load one network of a run and its world; `world` insists on a particular one."""
    own_world, settings, _ = read_run(directory)
    if not isinstance(index, int) or not 0 <= index < settings.networks:
        raise UserError(
            f"{directory} holds networks 0 to {settings.networks - 1}; there is no {index!r}."
        )
    world = own_world if world is None else world
    refuse_damaged(directory, {f"networks/{index:02d}.safetensors"})
    return load_model(directory, index, world, settings), world


def load_model(
    directory: Path, index: int, world: World, settings: TrainingSettings
) -> SentenceGestalt:
    """Load the weights of one network; a file of another world or another shape is refused."""
    path = locate_network(directory, index)
    sizes = {"num_tokens": len(world.tokens), "num_units": len(world.units)}
    sizes |= {"hidden": settings.hidden, "gestalt": settings.gestalt}
    # a network of shapes in place of weights
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
