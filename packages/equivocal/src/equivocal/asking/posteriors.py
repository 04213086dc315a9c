"""Networks' weights and ensembles: of the package, cached, or computed when first asked for.

Those of the package are in one safetensors file for each world; docs/maintainers/architecture.md
has the format, scripts/ship_networks.py makes them. Ensembles of every prior variance and stop (a
sampler step or "converged") are stored as the few directions in which the data changed the prior.
The cache has for each network

    converged_VARIANCE_NETWORK   the converged posterior, by `exact-flow`
    path_VARIANCE_NETWORK        the paper's sampler with infinitely many particles, at kept steps

A file holds, at its stops, the `shift` (stops, units, D) of the mean, the symmetric `root`
(stops, units, D, D) of the covariance relative to the prior's (I at the prior) and, for a path, the
`time` (stops,). It is a result in the source's `Store`: one process computes it while others wait,
and a damaged file is named and recomputed. Damaged default networks are trained again likewise; a
run of the user's own is never touched. JAX is imported only where something has to be computed.
"""

from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

from equivocal.asking.ensembles import LastLayers, Listener, NumpyNetwork
from equivocal.asking.source import CONVERGED, KINDS, Source, read_header
from equivocal.asking.vocabulary import Vocabulary
from equivocal.progress import announce, progress, report_part
from equivocal.store.folders import NETWORKS
from equivocal.store.locks import hold_folder
from equivocal.store.store import POSTERIOR_CODE, Store, hash_content
from equivocal.world.grammar import name_role_unit
from lastlayer.files import read_tensors

if TYPE_CHECKING:
    from equivocal.beliefs import LayerRows

__all__ = [
    "load_moments",
    "open_own",
    "open_shipped",
]

MOMENTS_CODE = (*POSTERIOR_CODE, "equivocal/asking")  # what the moments depend on
Arrays = dict[str, np.ndarray]
LEAST_LOSS = 1e-7  # share of the prior's variance; smaller losses change no answer


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


def load_weights(source: Source) -> Arrays:
    """Load the weights of a network; default networks are trained first where there are none."""
    if source.run is None:
        _train_default(source)
    return read_tensors(source.network_path, finite=True)[1]


def _train_default(source: Source) -> None:
    """Train the default networks of a world, if no process has done so yet."""
    if Store(source.run_folder).find(NETWORKS, warn=False) is not None:
        return
    from equivocal.network import TrainingSettings
    from equivocal.network.runs import train_or_load

    announce(
        f"{source.name} are trained once, which may take some minutes, and cached in "
        f"{source.folder}"
    )
    settings = TrainingSettings(**source.settings.training)
    with hold_folder(source.folder, wait=True):  # another process may train them meanwhile
        train_or_load(source.world, settings, source.run_folder)


def open_own(source: Source) -> Listener:
    """Open a network of a run, or a default network of a world that has none in the package."""
    world = source.world
    probes = np.stack([world.lexicon.mark_units((name_role_unit(r),)) for r in world.roles])
    shown = Vocabulary.from_world(world).shown
    network = NumpyNetwork.select(load_weights(source), probes.astype(np.float32), shown)

    def load(variance: float, step: int | str) -> LastLayers:
        if step == CONVERGED:
            found, at, time = load_moments(source, "converged", variance), 0, None
        else:
            found = load_moments(source, "path", variance)
            at = source.settings.kept_steps.index(step)
            time = float(found["time"][at])
        return LastLayers(variance, found["shift"][at], *_find_losses(found["root"][at]), time)

    return Listener(network, load)


def _find_losses(roots: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return each unit's lost shares of the prior's variance, and the directions of the losses."""
    values, vectors = np.linalg.eigh(roots.astype(np.float64))
    losses, directions = 1 - values**2, vectors.swapaxes(1, 2)
    kept = np.abs(losses) > LEAST_LOSS
    return (
        [loss[some] for loss, some in zip(losses, kept, strict=True)],
        [each[some] for each, some in zip(directions, kept, strict=True)],
    )


def load_moments(source: Source, kind: str, variance: float) -> Arrays:
    """Load the moments of an ensemble from the cache, or compute and keep them.

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
        `shift` and `root` at each stop, and the sampler's `time` at each step of a path.
    """
    compute = _compute_converged if kind == CONVERGED else _compute_path
    what = "posterior" if kind == CONVERGED else "path of the paper's sampler"

    def make() -> Arrays:
        title = f"{what} for prior variance {variance:g}"
        announce(f"the {title} is computed once and cached in {source.folder}")
        with progress(f"{title}, network {source.network}", begin="compiling"):
            return compute(source, variance)

    return Store(source.folder, shared=True).load_or_make(
        f"{kind}_{variance:g}_{source.network}",
        # the folder's name holds the hash of the network and the settings
        hash_content(source.folder.name, code=MOMENTS_CODE),
        ".safetensors",
        load=lambda path: read_tensors(path)[1],
        make=make,
        save=save_file,
    )


def _compute_converged(source: Source, variance: float) -> Arrays:
    from equivocal.beliefs import SamplerSettings, infer_posterior

    layer = _collect_layer(source)
    sampler = SamplerSettings(
        method="exact-flow", num_particles=2, tolerance=source.settings.tolerance
    )
    found = infer_posterior(layer, sampler, variance, seed=0, diagnose=False)
    return {
        "shift": (found.mean - layer.trained).astype(np.float32)[None],
        "root": _find_roots(found.covariance / variance)[None],
    }


def _compute_path(source: Source, variance: float) -> Arrays:
    """Follow the paper's sampler to the kept steps; its time τ is the median over units."""
    from lastlayer.dropout_limit import follow_limit

    layer, steps = _collect_layer(source), source.settings.kept_steps
    states = follow_limit(
        layer.features,
        layer.targets,
        counts=layer.counts,
        prior_mean=layer.trained,
        prior_variance=variance,
        dropout_rate=source.settings.dropout_rate,
    )
    times, shifts, roots = [], [], []
    for step, state in enumerate(islice(states, steps[-1] + 1)):
        np.asarray(state.time)  # waits for the step, so that only finished work is reported
        report_part(step, steps[-1], "sampling")
        if step in steps:
            times.append(np.median(state.time))
            shifts.append(np.asarray(state.mean) - layer.trained)
            roots.append(_find_roots(np.asarray(state.covariance) / variance))
    return {
        "time": np.array(times, np.float32),
        "shift": np.stack(shifts).astype(np.float32),
        "root": np.stack(roots),
    }


def _find_roots(matrices: np.ndarray) -> np.ndarray:
    """Return the symmetric square roots of nonnegative matrices, (n, D, D)."""
    values, vectors = np.linalg.eigh(matrices.astype(np.float64))
    sizes = np.sqrt(np.maximum(values, 0))
    return np.asarray((vectors * sizes[:, None]) @ vectors.swapaxes(1, 2), np.float32)


@lru_cache(maxsize=1)
def _collect_layer(source: Source) -> "LayerRows":
    """Collect the last layer of the units that are shown."""
    from equivocal.beliefs import collect_last_layer
    from equivocal.network import Run

    run = Run.load(source.run_folder)
    units = Vocabulary.from_world(source.world).shown
    layer = collect_last_layer(run, run.networks[source.network], "every word")
    return layer.select(units.tolist())
