"""The networks that come with the package, read from one safetensors file for each world.

docs/maintainers/architecture.md has the format, scripts/ship_networks.py makes them. Everything an
answer needs is in them: weights, and the ensembles of every prior variance and stop (a sampler step
or "converged"), stored as the few directions in which the data changed the prior.
"""

import json
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from equivocal.asking.ensembles import LastLayers, Listener, NumpyNetwork
from equivocal.world import World
from lastlayer.files import read_tensors

__all__ = [
    "FORMAT",
    "find_shipped",
    "list_shipped",
    "list_steps",
    "open_shipped",
    "read_header",
]

FORMAT = "equivocal-networks-1"
KINDS = frozenset({"F16", "F32", "I8", "U8"})
FOLDER = resources.files("equivocal.asking") / "networks"


def list_shipped() -> dict[str, Path]:
    """Return the files that come with the package, by the name of their world."""
    files = sorted(Path(str(FOLDER)).glob("*.safetensors"))
    return {file.stem: file for file in files}


def find_shipped(world: World) -> Path | None:
    """Return the file of a world's networks; None if the world differs from theirs in any way."""
    path = list_shipped().get(world.name)
    fits = path is not None and read_header(path)["fingerprint"] == world.fingerprint
    return path if fits else None


@cache
def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a file: fingerprint of the world, prior variances, stops."""
    about, _ = read_tensors(path, names=(), kinds=KINDS)
    header: dict[str, Any] = json.loads(about["equivocal"])
    return header


def list_steps(path: Path) -> tuple[int, ...]:
    """Return the sampler steps that a file offers; step 0 is the prior, which is not stored."""
    return 0, *(stop for stop in read_header(path)["stops"] if isinstance(stop, int))


def open_shipped(path: Path) -> list[Listener]:
    """Open the networks of a file."""
    header, arrays = read_header(path), read_tensors(path, kinds=KINDS)[1]
    listeners = []
    for number in range(header["networks"]):
        start = f"{number}/"
        own = {name[len(start) :]: arrays[name] for name in arrays if name.startswith(start)}
        network = NumpyNetwork({name: array for name, array in own.items() if "." in name})
        listeners.append(Listener(network, partial(_unpack, header, own)))
    return listeners


def _unpack(
    header: dict[str, Any], arrays: dict[str, np.ndarray], variance: float, step: int | str
) -> LastLayers:
    """Unpack the last layers of one network at one stop."""
    units, size = arrays["shift"].shape[2:]
    if step == 0:  # the prior
        shift, nothing = np.zeros((units, size), np.float32), np.zeros((0, size))
        return LastLayers(variance, shift, [np.zeros(0)] * units, [nothing] * units, 0.0)
    v, s = header["prior_variances"].index(variance), header["stops"].index(step)
    ends = np.cumsum(arrays["rank"].astype(int)).reshape(arrays["rank"].shape)[v, s]
    spans = zip(ends - arrays["rank"][v, s], ends, strict=True)
    loss, directions = zip(*(_find_loss(arrays, slice(*span)) for span in spans), strict=True)
    times = arrays["time"][v]
    time = float(times[s]) if s < len(times) else None
    shift = arrays["shift"][v, s].astype(np.float32)
    return LastLayers(variance, shift, list(loss), list(directions), time)


def _find_loss(arrays: dict[str, np.ndarray], span: slice) -> tuple[np.ndarray, np.ndarray]:
    """Return l and d with I − Σ l d dᵀ = R², where R = I − Σ a u uᵀ as stored.

    R² = I − Uᵀ (2A − A U Uᵀ A) U, with the u as rows of U and A = diag(a).
    """
    u = arrays["directions"][span].astype(np.float64)
    a = arrays["weight"][span].astype(np.float64)
    loss, vectors = np.linalg.eigh(2 * np.diag(a) - a[:, None] * (u @ u.T) * a)
    return loss, vectors.T @ u
