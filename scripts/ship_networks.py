"""Train the networks that come with the package and write their files.

    python scripts/ship_networks.py [--world NAME …] [--runs FOLDER] [--out FOLDER]

docs/maintainers/architecture.md describes files and accuracy. Networks are trained as by
`equivocal train --world NAME --recipe paper --networks 3`, or reused from the folder of `--runs`; a
world takes about ten minutes on two cores.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from equivocal.asking.ensembles import (
    LEVEL,
    NODES,
    QUANTILE,
    Beliefs,
    LastLayers,
    NumpyNetwork,
    compute_beliefs,
)
from equivocal.asking.posteriors import open_own
from equivocal.asking.source import CONVERGED, DEFAULT, FOLDER, FORMAT, AskSettings, Source
from equivocal.asking.vocabulary import Vocabulary
from equivocal.network import TrainingSettings
from equivocal.network.runs import train_or_load
from equivocal.progress import announce
from equivocal.store import read_toml
from equivocal.world import World

WORLDS = ("paper", "slips")
TRAINING = TrainingSettings(recipe="paper", networks=3)
SETTINGS = replace(DEFAULT, kept_steps=(0, 1, 3, 8, 17), tolerance=0.005)
# directions are added until no belief after any beginning of a sentence has a larger error
MOST_OFF, MOST_OFF_INTERVAL = 0.003, 0.012
STEPS_OF_INT8 = 127

Arrays = dict[str, np.ndarray]


def ship(name: str, runs: Path, out: Path) -> Path:
    """Train, sample and pack the networks of a world; return the path of the file."""
    world = World.load(name)
    train_or_load(world, TRAINING, runs / name)
    sources = [
        Source.choose(run=runs / name, network=number, settings=SETTINGS)
        for number in range(TRAINING.networks)
    ]
    out.mkdir(parents=True, exist_ok=True)
    return write(world, sources, out / f"{name}.safetensors")


def write(world: World, sources: list[Source], path: Path) -> Path:
    """Pack networks with the same settings, write them to a file, and return its path."""
    arrays: Arrays = {}
    for number, source in enumerate(sources):
        announce(f"{world.name}: packing network {number}")
        for name, array in pack_network(source).items():
            arrays[f"{number}/{name}"] = np.ascontiguousarray(array)
    about = {"equivocal": json.dumps(describe(world, sources), ensure_ascii=False)}
    save_file(arrays, path, about)
    path.chmod(0o644)
    return path


def list_stops(settings: AskSettings) -> list[int | str]:
    """Return the stops that are stored; step 0 is the prior, which needs no data."""
    return [*(step for step in settings.kept_steps if step > 0), CONVERGED]


def describe(world: World, sources: list[Source]) -> dict[str, Any]:
    """Return the header of a file, which describes its arrays."""
    words, settings = Vocabulary.from_world(world), sources[0].settings
    return {
        "format": FORMAT,
        "world": world.name,
        "fingerprint": world.fingerprint,
        "networks": len(sources),
        "training": read_toml(sources[0].run_folder / "run.toml")["training"],
        "tokens": world.tokens,
        "roles": world.roles,
        "participants": words.participants,
        "fillers": words.fillers,
        "units": words.places.tolist(),
        "candidates": [np.flatnonzero(row).tolist() for row in words.candidates],
        "prior_variances": settings.prior_variances,
        "prior_variance": settings.prior_variance,
        "stops": list_stops(settings),
        "dropout_rate": settings.dropout_rate,
        "level": LEVEL,
        "quantile": QUANTILE,
        "nodes": NODES.tolist(),
    }


def pack_network(source: Source) -> Arrays:
    """Return the weights of a network, and its ensembles at every stop."""
    listener = open_own(source)
    rows = collect_rows(source.world, listener.network)
    variances, steps = source.settings.prior_variances, list_stops(source.settings)
    shifts, packed, times = [], [], []
    for variance in variances:
        stops = [listener.load(variance, step) for step in steps]
        shifts.append([layers.shift.astype(np.float16) for layers in stops])
        times.append([layers.time for layers in stops if layers.time is not None])
        for layers in stops:
            mean = listener.network.last_layer + layers.shift
            packed += [pack_unit(layers, k, rows[k], rows[k] @ mean[k]) for k in range(len(mean))]
    ranks = np.array([len(weight) for weight, _ in packed], np.uint8)
    return {
        **listener.network.weights,
        "shift": np.array(shifts),
        "rank": ranks.reshape(len(variances), len(steps), -1),
        "weight": np.concatenate([weight for weight, _ in packed]),
        "directions": np.concatenate([directions for _, directions in packed]),
        "time": np.array(times, np.float32),
    }


def collect_rows(world: World, network: NumpyNetwork) -> list[np.ndarray]:
    """Return for each unit the features of its possible roles after any beginning of a sentence."""
    heard = (network.compute_gestalts(world.encode(text.text)) for text in world.sentences)
    gestalts = np.unique(np.concatenate(list(heard)).round(6), axis=0)
    features = network.compute_features(gestalts)
    words = Vocabulary.from_world(world)
    may_fill = [words.candidates[:, words.places == k].any(axis=1) for k in range(len(words.shown))]
    return [features[:, roles].reshape(-1, features.shape[-1]) for roles in may_fill]


def pack_unit(
    layers: LastLayers, k: int, rows: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and whole-number directions with I − Σ weight · direction directionᵀ ≈ R.

    Directions are the rounded eigenvectors of R, in order of their effect on the rows' variances.
    If rounding makes the allowed error unreachable, the fewest directions are taken whose error is
    within 10 % of the least.
    """
    deviation = np.sqrt(layers.variance)
    values, vectors = np.sqrt(np.maximum(1 - layers.loss[k], 0)), layers.directions[k].T
    seen = (rows @ vectors) ** 2
    left = (rows.astype(np.float64) ** 2).sum(axis=1) - seen @ layers.loss[k]
    order = np.argsort(-np.abs(1 - values**2) * seen.mean(axis=0))
    values, vectors = values[order], vectors[:, order].T
    scales = np.abs(vectors).max(axis=1) / STEPS_OF_INT8
    directions = np.round(vectors / scales[:, None])
    weights = ((1 - values) * scales**2).astype(np.float32)
    moved = rows.astype(np.float64)
    exact = compute_beliefs(mean[None], deviation * np.sqrt(np.maximum(left, 0))[None])
    off = [_compare(mean, deviation * np.linalg.norm(moved, axis=1), exact)]
    for weight, direction in zip(weights, directions, strict=True):
        if off[-1] < 1:
            break
        moved -= np.outer(rows @ direction * weight, direction)
        off.append(_compare(mean, deviation * np.linalg.norm(moved, axis=1), exact))
    rank = int(np.argmax(np.array(off) <= max(1, 1.1 * min(off))))
    return weights[:rank], directions[:rank].astype(np.int8)


def _compare(mean: np.ndarray, sd: np.ndarray, exact: Beliefs) -> float:
    """Return the largest difference of beliefs, as a multiple of the allowed one."""
    found = compute_beliefs(mean[None], sd[None])
    off = [float(np.abs(a - b).max()) for a, b in zip(found[:3], exact[:3], strict=True)]
    return max(off[0] / MOST_OFF, max(off[1:]) / MOST_OFF_INTERVAL)


def main() -> None:
    """Write the files of the worlds named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", action="append", choices=WORLDS)
    parser.add_argument("--runs", type=Path, default=Path("runs/shipped"))
    parser.add_argument("--out", type=Path, default=Path(str(FOLDER)))
    given = parser.parse_args()
    for name in given.world or WORLDS:
        path = ship(name, given.runs, given.out)
        announce(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
