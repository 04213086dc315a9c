"""A run on disk: weights as safetensors, settings as TOML, the world it was trained in.

DIR/world.toml                   the world file, as it was
DIR/networks/00.safetensors …    one file per network, with the world's fingerprint inside
DIR/curves.csv, DIR/scores.csv   loss and accuracy per epoch; how well each network ended
DIR/run.toml                     settings, versions, seconds, checksums of the files above and of
                                 itself; written last, so its presence says that the run is complete
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
from equivocal.gestalt.network import SentenceGestalt, new_sentence_gestalt
from equivocal.gestalt.settings import TrainingSettings
from equivocal.machine import available_cores, versions
from equivocal.store import (
    Shapes,
    UnreadableError,
    parse_json,
    read_tensors,
)
from equivocal.store.files import (
    add_checksum,
    compute_checksum,
    write_atomically,
    write_text_atomically,
)
from equivocal.store.runs import find_damaged_files, network_path, read_record
from equivocal.world import World

__all__ = [
    "AGAIN",
    "clear_run",
    "ensure_sound",
    "foreign_files",
    "load_model",
    "load_network",
    "named_arrays",
    "network_path",
    "read_run",
    "save_network",
    "write_run",
    "write_settings",
    "write_world",
]

FORMAT = 1
AGAIN = "train again, into the same folder or another one (`equivocal train`, `reproduce`)."
UNFINISHED = ".unfinished"  # stands in a folder while a run is written to it
ABOUT = "equivocal"  # key of the file's metadata


def named_arrays(model: SentenceGestalt) -> dict[str, Any]:
    """Arrays by name, such as `update.token_weight`, in a fixed order."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {".".join(key.name for key in path): leaf for path, leaf in leaves}


def write_world(directory: Path, world: World) -> None:
    """Keep the world file with the run, so that the run can be used without it."""
    write_text_atomically(directory / "world.toml", world.text)


def save_network(directory: Path, index: int, model: SentenceGestalt, world: World) -> None:
    """Write one network of a run."""
    arrays = {name: np.asarray(array) for name, array in named_arrays(model).items()}
    about = {"format": FORMAT, "world": world.name, "fingerprint": world.fingerprint}
    with write_atomically(network_path(directory, index)) as temporary:
        # one entry, since safetensors writes several in any order and equal files should be equal
        save_file(arrays, temporary, metadata={ABOUT: json.dumps(about)})


def clear_run(directory: Path) -> None:
    """Remove an earlier run's mark of completeness and its networks before writing new ones."""
    write_text_atomically(directory / UNFINISHED, "")
    (directory / "run.toml").unlink(missing_ok=True)
    for path in (directory / "networks").glob("*.safetensors"):
        path.unlink()


def write_run(directory: Path, world: World, settings: TrainingSettings, seconds: float) -> None:
    """Write `run.toml`, the last file of a run."""
    written = [directory / "world.toml", directory / "curves.csv"]
    written += [network_path(directory, index) for index in range(settings.networks)]
    sums = {path.relative_to(directory).as_posix(): str(compute_checksum(path)) for path in written}
    path, took = directory / "run.toml", round(seconds, 3)
    write_settings(path, world, settings, seconds=took, checksums=sums)
    (directory / UNFINISHED).unlink(missing_ok=True)


def foreign_files(directory: Path) -> list[str]:
    """Names that a run would write and that are taken, though not by a run that broke off."""
    if (directory / UNFINISHED).exists():
        return []
    names = ("world.toml", "networks", "curves.csv", "scores.csv")
    return [name for name in names if (directory / name).exists()]


def ensure_sound(directory: Path, names: Container[str] | None = None) -> None:
    """Refuse a run (or these files of it) that is not as it was written, and name what is not."""
    damaged = [name for name in find_damaged_files(directory) if names is None or name in names]
    if damaged:
        raise UserError(
            f"{join_names(str(directory / name) for name in damaged)} is missing or has a "
            f"checksum mismatch; {AGAIN}"
        )


def write_settings(
    path: Path, world: World, settings: TrainingSettings, **more: int | float | dict[str, str]
) -> None:
    """Everything needed to do it again, and what it was done with."""
    content = {
        **more,
        "world": {"name": world.name, "fingerprint": world.fingerprint},
        "training": asdict(settings),
        # on another number of cores networks are grouped differently and round-off may differ
        "machine": {"backend": jax.default_backend(), "cores": available_cores()},
        "versions": versions("equivocal", "jax", "jaxlib", "equinox", "optax", "numpy"),
    }
    write_text_atomically(path, add_checksum(tomli_w.dumps(content)))


def read_run(directory: Path) -> tuple[World, TrainingSettings, float]:
    """World, settings and training time of a complete run."""
    path = directory / "run.toml"
    if not path.is_file():
        raise UserError(
            f"there is no complete run in {str(directory)!r} (no run.toml); "
            f"`equivocal train --out {directory}` makes one."
        )
    try:
        content = read_record(directory)
        settings = TrainingSettings.from_dict(content["training"])
        if missing := asdict(settings).keys() - content["training"].keys():
            raise KeyError(f"{join_names(sorted(missing))} missing")
        seconds = float(content["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        reason = getattr(error, "reason", str(error).strip("'."))
        raise UserError(f"{path} is damaged or from another version ({reason}); {AGAIN}") from None
    ensure_sound(directory, {"world.toml"})
    try:
        return World.load(directory / "world.toml"), settings, seconds
    except UserError as error:
        problem = str(error).splitlines()[0].rstrip(".")
        raise UserError(f"the world of {directory} is damaged ({problem}); {AGAIN}") from None


def load_network(
    directory: Path, index: int, world: World | None = None
) -> tuple[SentenceGestalt, World]:
    """One network of a run and its world; `world` insists on a particular one."""
    own_world, settings, _ = read_run(directory)
    if not isinstance(index, int) or not 0 <= index < settings.networks:
        raise UserError(
            f"{directory} holds networks 0 to {settings.networks - 1}; there is no {index!r}."
        )
    world = own_world if world is None else world
    ensure_sound(directory, {f"networks/{index:02d}.safetensors"})
    return load_model(directory, index, world, settings), world


def load_model(
    directory: Path, index: int, world: World, settings: TrainingSettings
) -> SentenceGestalt:
    """The weights of one network; refuses a file of another world or another shape."""
    path = network_path(directory, index)
    empty = _empty_network(settings, world)
    expected = {name: leaf.shape for name, leaf in named_arrays(empty).items()}

    def check(metadata: dict[str, str], shapes: Shapes) -> None:
        _check_origin(path, metadata, world)
        _check_shapes(path, shapes, expected, settings)

    try:
        _, arrays = read_tensors(path, check)
    except UnreadableError as error:
        raise UserError(f"{path} cannot be read ({error.reason}); {AGAIN}") from None
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise UserError(f"{path} holds a weight that is not a number; {AGAIN}")
    leaves = [jnp.asarray(arrays[name], jnp.float32) for name in expected]
    network: SentenceGestalt = jax.tree.unflatten(jax.tree.structure(empty), leaves)
    return network


def _check_origin(path: Path, metadata: dict[str, str], world: World) -> None:
    try:
        about = parse_json(metadata.get(ABOUT, "{}"))
    except ValueError:
        about = None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(f"{path} is not a network file of this version; {AGAIN}")
    if about.get("fingerprint") != world.fingerprint:
        raise UserError(
            f"{path} was trained in world {about.get('world', 'unknown')!r:.60} "
            f"({about.get('fingerprint', 'no fingerprint')!s:.60}), not in {world.name!r} "
            f"({world.fingerprint}); load it with the world it was trained in, or train again."
        )


def _empty_network(settings: TrainingSettings, world: World) -> SentenceGestalt:
    """Shapes in place of weights."""
    shapes: SentenceGestalt = eqx.filter_eval_shape(
        new_sentence_gestalt,
        jax.random.key(0),
        num_tokens=len(world.tokens),
        num_units=len(world.units),
        hidden=settings.hidden,
        gestalt=settings.gestalt,
    )
    return shapes


def _check_shapes(path: Path, found: Shapes, expected: Shapes, settings: TrainingSettings) -> None:
    for name in expected.keys() | found.keys():
        if found.get(name) != expected.get(name):
            raise UserError(
                f"{path} does not fit: array {name!r:.60} has shape {found.get(name)}, and this "
                f"world with {settings.hidden} hidden and {settings.gestalt} gestalt units needs "
                f"{expected.get(name)}; use the run's own run.toml and world.toml."
            )
