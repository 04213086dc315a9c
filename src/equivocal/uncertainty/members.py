"""Members in files: the arrays of `Comprehenders` as safetensors, with what they cost.

An array that all members share is written once. A file may be untrusted: world, names and shapes
are checked before memory is taken for it, and a file that is refused is an `UnreadableError`.
"""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save_file

from equivocal.gestalt import Network
from equivocal.gestalt.storage import name_arrays
from equivocal.store import Shapes, UnreadableError, parse_json, read_tensors
from equivocal.uncertainty.comprehenders import Comprehenders

__all__ = ["load_members", "save_members"]

HEADER = "equivocal"  # the entry of the metadata that holds everything but arrays
MOST_MEMBERS = 1_000_000


def save_members(members: Comprehenders, path: Path) -> None:
    """Write comprehenders to a file; `load_members` reads them back."""
    arrays = {name: np.asarray(array) for name, array in name_arrays(members.models).items()}
    once = {
        name: np.ascontiguousarray(array if array.strides[0] else array[:1], np.float32)
        for name, array in arrays.items()
    }
    about = {
        "fingerprint": members.world.fingerprint,
        "members": len(members),
        "seconds": members.seconds,
        "passes": members.passes,
        "message": members.message,
        "converged": members.converged,
    }
    save_file(once, path, metadata={HEADER: json.dumps(about)})


def load_members(path: Path, network: Network, kind: str) -> Comprehenders:
    """Load comprehenders from a file.

    Parameters
    ----------
    path : Path
        As written by `save_members`.
    network : Network
        One of the same world and sizes.
    kind : str
        What made the members differ.

    Raises
    ------
    UnreadableError
        Where the file is damaged, or is of another world or of networks of another size.
    """
    single, about = name_arrays(network.model), {}

    def check(metadata: dict[str, str], shapes: Shapes) -> None:
        about.update(_read_header(metadata, network))
        sizes = (1, about["members"])
        if shapes.keys() != single.keys() or any(
            shape not in [(size, *single[name].shape) for size in sizes]
            for name, shape in shapes.items()
        ):
            raise ValueError("it is of networks of another size")

    try:
        _, arrays = read_tensors(path, check)
        # before they are repeated: a small file may speak of a million members
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a weight is not a number")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(path, str(error).strip("'.")) from None
    leaves = [
        np.broadcast_to(arrays[name], (about["members"], *leaf.shape))
        for name, leaf in single.items()
    ]
    return Comprehenders(
        kind=kind,
        models=jax.tree.unflatten(jax.tree.structure(network.model), leaves),
        world=network.world,
        seconds=about["seconds"],
        passes=about["passes"],
        message=about["message"],
        converged=about["converged"],
    )


def _read_header(metadata: dict[str, str], network: Network) -> dict[str, Any]:
    """Return what is said beside the arrays, once each entry is of the right kind."""
    about = parse_json(metadata.get(HEADER, "{}"))
    if not isinstance(about, dict) or about.get("fingerprint") != network.world.fingerprint:
        raise ValueError("it is of another world or version")
    if not 1 <= int(about["members"]) <= MOST_MEMBERS:
        raise ValueError(f"it holds {about['members']} members")
    if not isinstance(about["converged"], bool | None):
        raise ValueError("converged is neither true nor false")
    kinds = {"members": int, "seconds": float, "passes": int, "message": str}
    return about | {name: kind(about[name]) for name, kind in kinds.items()}
