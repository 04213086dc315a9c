"""Kinds of doubt on disk: made once, and found again.

    DIR/networks/              the trained networks, a run
    DIR/dropout_RATE/          the same trained with dropout, another run
    DIR/members/KIND/NN-KEY.safetensors      the comprehenders of network NN

KEY is of the network's weights and of every setting and constant that matters. An array that all
members share is written once. Deep ensembles and masks are not written: the runs are all they need.
"""

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save_file

from equivocal.errors import UserError
from equivocal.gestalt import OnEpoch, Run, train
from equivocal.gestalt.runs import split_corpus
from equivocal.gestalt.storage import locate_network, name_arrays
from equivocal.sampling.samplers import network_flow
from equivocal.store import Shapes, UnreadableError, add_tensor_checksum, parse_json, read_tensors
from equivocal.store.files import compute_checksum, write_atomically
from equivocal.store.stages import hash_content
from equivocal.uncertainty.comprehenders import Comprehenders
from equivocal.uncertainty.posteriors import LAYERS, PARTICLES, posterior_of
from equivocal.uncertainty.rivals import RATE, deep_ensemble, mc_dropout

__all__ = [
    "DoubtSettings",
    "Kept",
    "load_members",
    "save_members",
    "seconds_each",
    "trained_with_dropout",
]

ABOUT, FORMAT = "equivocal", 1
CLOSE = 0.01  # the last layer alone comes to rest in a few steps


@dataclass(frozen=True, kw_only=True)
class DoubtSettings:
    """Every number that decides what the kinds of doubt end with, but for the training."""

    prior_variance: float = 1.0  # the paper's central prior
    num_particles: int = PARTICLES  # also masks of MC dropout
    cuts: int = 1  # parts of each hidden layer
    num_steps: int = 40  # rounds of the network flow, at most
    tolerance: float = 0.5  # of the network flow, over all directions of a part together
    dropout: float = RATE
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Kept:
    """All comprehenders of a comparison: `of("query", 3)` finds them, or makes and keeps them."""

    folder: Path
    run: Run
    dropped: Run  # trained with dropout
    settings: DoubtSettings

    def of(self, kind: str, index: int) -> Comprehenders:
        """Of one network; of all networks for a deep ensemble, whatever the index."""
        networks, seed = self.run.networks, self.settings.seed + index
        if kind in LAYERS:
            path = self._path(kind, index)
            return _found(path, self.run, kind) or self._made(kind, index, path)
        if kind == "trained":
            return deep_ensemble(networks[index : index + 1])
        if kind == "deep ensemble":
            return deep_ensemble(networks, seconds_each(self.run) * (len(networks) - 1))
        settings, own = self.settings, seconds_each(self.dropped)
        network = self.dropped.networks[index]
        return mc_dropout(network, settings.dropout, settings.num_particles, seed=seed, seconds=own)

    def _path(self, kind: str, index: int) -> Path:
        weights = compute_checksum(locate_network(self.folder / "networks", index))
        settings = asdict(self.settings)
        settings.pop("dropout")  # of no concern to a posterior
        constants = {"CLOSE": CLOSE} if kind == "last" else network_flow.constants()
        key = hash_content(weights, kind, index, settings, constants)
        return self.folder / "members" / kind / f"{index:02d}-{key}.safetensors"

    def _made(self, kind: str, index: int, path: Path) -> Comprehenders:
        run, settings = self.run, self.settings
        made = posterior_of(
            run.networks[index],
            split_corpus(run.world, run.settings)[0],
            kind,
            prior_variance=settings.prior_variance,
            num_particles=settings.num_particles,
            cuts=settings.cuts,
            num_steps=None if kind == "last" else settings.num_steps,
            tolerance=CLOSE if kind == "last" else settings.tolerance,
            seed=settings.seed + index,
        )
        save_members(made, path)
        return made


def trained_with_dropout(run: Run, folder: Path, rate: float, on_epoch: OnEpoch | None) -> Run:
    """Networks as those of `run`, but trained with dropout: found in the folder, or trained."""
    found = Run.find(folder, run.world, run.settings)
    if found is not None:
        return found
    made = train(run.world, run.settings, on_epoch=on_epoch, dropout=rate)
    made.save(folder)
    return made


def seconds_each(run: Run) -> float:
    """What a network took to train, as `Run.save` rounds it: a run found again says the same."""
    return round(run.seconds, 3) / len(run.networks)


def save_members(members: Comprehenders, path: Path) -> None:
    """Write comprehenders; `load_members` reads them back."""
    arrays = {name: np.asarray(array) for name, array in name_arrays(members.models).items()}
    once = {
        name: np.ascontiguousarray(array if array.strides[0] else array[:1], np.float32)
        for name, array in arrays.items()
    }
    about = {
        "format": FORMAT,
        "fingerprint": members.world.fingerprint,
        "members": len(members),
        "seconds": members.seconds,
        "passes": members.passes,
        "message": members.message,
        "converged": members.converged,
    }
    with write_atomically(path) as temporary:
        save_file(once, temporary, metadata=add_tensor_checksum({ABOUT: json.dumps(about)}, once))


def load_members(path: Path, run: Run, kind: str) -> Comprehenders:
    """Comprehenders of a run's world and sizes; a file of another is refused."""
    single = name_arrays(run.models[0])
    members = 0

    def check(metadata: dict[str, str], shapes: Shapes) -> None:
        nonlocal members
        about = _about(metadata)
        members = int(about["members"])
        right = about["format"] == FORMAT and about["fingerprint"] == run.world.fingerprint
        wanted = {name: [(n, *leaf.shape) for n in (1, members)] for name, leaf in single.items()}
        if not right or shapes.keys() != wanted.keys() or not 1 <= members <= 1_000_000:
            raise ValueError("of another world or version")
        if any(shape not in wanted[name] for name, shape in shapes.items()):
            raise ValueError("of networks of another size")

    try:
        metadata, arrays = read_tensors(path, check)
        about = _about(metadata)
        # before they are repeated: a small file may speak of a million members
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a weight is not a number")
        leaves = [
            np.broadcast_to(arrays[name], (members, *leaf.shape)) for name, leaf in single.items()
        ]
        return Comprehenders(
            kind=kind,
            models=jax.tree.unflatten(jax.tree.structure(run.models[0]), leaves),
            world=run.world,
            seconds=float(about["seconds"]),
            passes=int(about["passes"]),
            message=str(about["message"]),
            converged=_came_to_rest(about),
        )
    except UnreadableError as error:
        raise UserError(f"{path} cannot be read ({error.reason}); remove it.") from None
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        reason = str(error).strip("'.")
        raise UserError(f"{path} cannot be read ({reason}); remove it.") from None


def _about(metadata: dict[str, str]) -> dict[str, Any]:
    about = parse_json(metadata.get(ABOUT, "{}"))
    if not isinstance(about, dict):
        raise ValueError("it has no header of ours")
    return about


def _came_to_rest(about: dict[str, Any]) -> bool | None:
    """Files of earlier versions say it in words only, those of a posterior's verdict."""
    found = about.get("converged", str(about["message"]).startswith("converged"))
    if not isinstance(found, bool | None):
        raise ValueError("converged is neither true nor false")
    return found


def _found(path: Path, run: Run, kind: str) -> Comprehenders | None:
    if not path.exists():
        return None
    try:
        return load_members(path, run, kind)
    except UserError as error:
        reason = str(error).removesuffix("; remove it.")
        warnings.warn(f"{reason}; it is sampled again.", stacklevel=2)
        return None
