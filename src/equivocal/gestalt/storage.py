"""A run on disk: weights as safetensors, settings as TOML, the world it was trained in.

DIR/world.toml                   the world file, as it was
DIR/networks/00.safetensors …    one file per network, with the world's fingerprint inside
DIR/curves.csv, DIR/scores.csv   loss and accuracy per epoch; how well each network ended
DIR/run.toml                     settings, versions, seconds; written last, so its presence
                                 says that the run is complete
"""

import json
import platform
import tomllib
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tomli_w
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from equivocal.errors import UserError, listed
from equivocal.files import replacing, write_text_atomically
from equivocal.gestalt.network import SentenceGestalt, new_sentence_gestalt
from equivocal.gestalt.settings import TrainingSettings
from equivocal.machine import available_cores
from equivocal.world import World

__all__ = [
    "AGAIN",
    "clear_run",
    "foreign_files",
    "load_model",
    "load_network",
    "named_arrays",
    "read_run",
    "save_network",
    "write_run",
    "write_settings",
    "write_world",
]

FORMAT = 1
AGAIN = "remove the folder and train again, or train into another one."
UNFINISHED = ".unfinished"  # stands in a folder while a run is written to it
ABOUT = "equivocal"  # key of the file's metadata


def named_arrays(model: SentenceGestalt) -> dict[str, Any]:
    """Arrays by name, such as `update.token_weight`, in a fixed order."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {".".join(key.name for key in path): leaf for path, leaf in leaves}


def _network_path(directory: Path, index: int) -> Path:
    return directory / "networks" / f"{index:02d}.safetensors"


def write_world(directory: Path, world: World) -> None:
    """Keep the world file with the run, so that the run can be used without it."""
    write_text_atomically(directory / "world.toml", world.text)


def save_network(directory: Path, index: int, model: SentenceGestalt, world: World) -> None:
    """Write one network of a run."""
    arrays = {name: np.asarray(array) for name, array in named_arrays(model).items()}
    about = {"format": FORMAT, "world": world.name, "fingerprint": world.fingerprint}
    with replacing(_network_path(directory, index)) as temporary:
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
    write_settings(directory / "run.toml", world, settings, seconds=round(seconds, 3))
    (directory / UNFINISHED).unlink(missing_ok=True)


def foreign_files(directory: Path) -> list[str]:
    """Names that a run would write and that are taken, though not by a run that broke off."""
    if (directory / UNFINISHED).exists():
        return []
    names = ("world.toml", "networks", "curves.csv", "scores.csv")
    return [name for name in names if (directory / name).exists()]


def write_settings(
    path: Path, world: World, settings: TrainingSettings, **more: int | float
) -> None:
    """Everything needed to do it again, and what it was done with."""
    packages = ("equivocal", "jax", "jaxlib", "equinox", "optax", "numpy")
    content = {
        **more,
        "world": {"name": world.name, "fingerprint": world.fingerprint},
        "training": asdict(settings),
        # on another number of cores networks are grouped differently and round-off may differ
        "machine": {"backend": jax.default_backend(), "cores": available_cores()},
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
    }
    write_text_atomically(path, tomli_w.dumps(content))


def read_run(directory: Path) -> tuple[World, TrainingSettings, float]:
    """World, settings and training time of a complete run."""
    path = directory / "run.toml"
    if not path.is_file():
        raise UserError(
            f"there is no complete run in {str(directory)!r} (no run.toml); "
            f"`equivocal train --out {directory}` makes one."
        )
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = TrainingSettings.from_dict(content["training"])
        if missing := asdict(settings).keys() - content["training"].keys():
            raise KeyError(f"{listed(sorted(missing))} missing")
        seconds = float(content["seconds"])
    except (ValueError, KeyError, TypeError) as error:
        reason = str(error).strip("'.")
        raise UserError(f"{path} is damaged or from another version ({reason}); {AGAIN}") from None
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
    return load_model(directory, index, world, settings), world


def load_model(
    directory: Path, index: int, world: World, settings: TrainingSettings
) -> SentenceGestalt:
    """The weights of one network; refuses a file of another world or another shape."""
    path = _network_path(directory, index)
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {}).get(ABOUT, "{}"))
            arrays = {name: file.get_tensor(name) for name in list(file.keys())}
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); {AGAIN}") from None
    if about.get("format") != FORMAT:
        raise UserError(f"{path} is not a network file of this version; {AGAIN}")
    if about.get("fingerprint") != world.fingerprint:
        raise UserError(
            f"{path} was trained in world {about.get('world', 'unknown')!r} "
            f"({about.get('fingerprint', 'no fingerprint')}), not in {world.name!r} "
            f"({world.fingerprint}); load it with the world it was trained in, or train again."
        )
    return _fill(path, arrays, settings, world)


def _fill(
    path: Path, arrays: dict[str, np.ndarray], settings: TrainingSettings, world: World
) -> SentenceGestalt:
    """A network with the file's weights, after checking every name and shape."""
    shapes = eqx.filter_eval_shape(
        new_sentence_gestalt,
        jax.random.key(0),
        num_tokens=len(world.tokens),
        num_units=len(world.units),
        hidden=settings.hidden,
        gestalt=settings.gestalt,
    )
    expected = {name: leaf.shape for name, leaf in named_arrays(shapes).items()}
    for name in expected.keys() | arrays.keys():
        found = arrays[name].shape if name in arrays else None
        if found != expected.get(name):
            raise UserError(
                f"{path} does not fit: array {name!r} has shape {found}, and this world with "
                f"{settings.hidden} hidden and {settings.gestalt} gestalt units needs "
                f"{expected.get(name)}; use the run's own run.toml and world.toml."
            )
    leaves = [jnp.asarray(arrays[name]) for name in expected]
    network: SentenceGestalt = jax.tree.unflatten(jax.tree.structure(shapes), leaves)
    return network
