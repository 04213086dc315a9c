"""What is measured at the points of a grid, and who measures it.

A record holds activations (networks, items) at the critical word, by condition and measure
(`equivocal.paper.tables`), of the trained networks and of the posterior. A multiverse needs the
indicated words of reversals; a match needs every measure, and appendix D's priors: 0.01, 1 and 5
times the prior variance of the point. Networks are trained once, each record is saved as it
arrives:

    FOLDER/results/KEY.json     the record of a point
    FOLDER/networks/KEY/        networks, by world and training settings
    FOLDER/records/             keys and checksums of the results (`equivocal.store.store`)

Calls are made in this process, in worker processes of this machine (`equivocal.workers`) or, as
futures of Dask, by a running cluster whose machines share the folder. All trainings come first.
Python's JSON preserves every float exactly, and `NaN` as `NaN`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.beliefs import LayerRows, collect_last_layer, infer_posterior
from equivocal.multiverse.grid import Point
from equivocal.network import Run, TrainingSettings, train
from equivocal.network.storage import hash_run
from equivocal.paper.activations import collect_features
from equivocal.paper.study import list_non_relevant
from equivocal.paper.tables import list_measures
from equivocal.progress import announce, progress
from equivocal.store import read_json
from equivocal.store.files import write_text_atomically
from equivocal.store.store import POSTERIOR_CODE, Store, hash_code, hash_content, hash_files
from equivocal.workers import Begin, count_workers, open_workers
from equivocal.world import World
from equivocal.world.items import Item, Items, load_stimuli
from lastlayer import Posterior
from lastlayer.errors import UserError

__all__ = ["Task", "make_tasks", "open_begin", "run_missing"]

PATIENCE = 5.0  # seconds to wait for an answer of a scheduler
PRIORS = (0.01, 1.0, 5.0)  # factors of the point's prior variance, from appendix D
MAIN = "1.0"  # factor of the prior variance in the main analysis
SCORES = ("unit_accuracy", "exact_match")
STATE = ("time", "converged", "diverged")  # keys of `describe_state`
PLACE = ["condition", "measure"]
# what the record of a point depends on
GRID_CODE = (
    *POSTERIOR_CODE,
    *(f"equivocal/{part}" for part in ("truth.py", "statistics", "paper", "multiverse")),
)


@dataclass(frozen=True, eq=False)
class Task:
    """A call on trained networks.

    Attributes
    ----------
    world, training
        The world and the training settings of the networks.
    work : callable
        Called with the folder of the networks and the `arguments`; returns a value that JSON can
        represent.
    arguments : tuple
        Further arguments of the work.
    """

    world: World
    training: TrainingSettings
    work: Callable[..., Any]
    arguments: tuple[Any, ...]

    def locate_networks(self, folder: Path) -> Path:
        """Return the folder of the networks; its name is a hash of all that they depend on."""
        return folder.resolve() / "networks" / hash_run(self.world, self.training)


def make_tasks(points: Sequence[Point], *, everything: bool) -> dict[str, Task]:
    """Make a task for each point, by a hash of all that its record depends on.

    Parameters
    ----------
    points : sequence of Point
        The first is the study's own.
    everything : bool
        Every measure at every prior, or the indicated words of the last condition at the main one.
    """
    study = points[0].settings
    world, source = World.load(study.world_source), study.stimuli_path
    own, tasks = load_stimuli(source, world), {}
    data = [world.fingerprint, hash_files(source), study.stimuli.non_relevant, everything]
    for point in points:
        training, inference = point.settings.training_settings, point.settings.inference
        items = move_critical_word(own, world, point.varied["critical_word"])
        asked = _list_questions(items, list_non_relevant(own, study) if everything else [])
        if not everything:
            indicated = asked["measure"].str.startswith("indicated")
            asked = asked[indicated & (asked["condition"] == own.conditions[-1])]
        sampler = inference.samplers["paper"].model_dump()
        how = [sampler, inference.seed, asdict(training), PRIORS]
        key = hash_content(point.varied, *how, *data, code=GRID_CODE)
        priors = PRIORS if everything else (float(MAIN),)
        tasks[key] = Task(world, training, measure_cells, (point, asked, priors))
    return tasks


def move_critical_word(stimuli: Items, world: World, to: str) -> Items:
    """Return the same sentences with the "verb", or their "last" word, as critical word.

    The verb is the first constituent without a marker that fills none of the tracked roles.

    Raises
    ------
    UserError
        Where a sentence has no such constituent.
    """
    if to == "study":
        return stimuli
    rows = {
        place: replace(row, critical=len(row.utterance) if to == "last" else _find_verb(row, world))
        for place, row in stimuli.rows.items()
    }
    return replace(stimuli, rows=rows)


def _find_verb(row: Item, world: World) -> int:
    tracked = [world.units.index(unit) for unit in row.tracked.values()]
    for position, part in enumerate(row.utterance, start=1):
        if not part.marker and not world.find_filler_units(part.word)[tracked].any():
            return position
    raise UserError(
        f"critical_word = 'verb' needs a verb in {str(row.utterance)!r}: a constituent without a "
        "marker that fills none of the tracked roles; leave it out."
    )


def _list_questions(items: Items, others: Sequence[str]) -> pd.DataFrame:
    """List every measure of every sentence, with its probe, units and the words so far."""
    tracked = {
        condition: {item: items.rows[condition, item].tracked for item in items.items}
        for condition in items.conditions
    }
    rows = []
    for condition, item, measure, probe, units in list_measures(tracked, others):
        heard = items.rows[condition, item]
        said = heard.utterance.first(heard.critical)
        rows.append((condition, measure, item, probe, units, said))
    return pd.DataFrame(rows, columns=[*PLACE, "item", "probe", "units", "heard"])


def measure_cells(
    networks: Path, point: Point, asked: pd.DataFrame, priors: Sequence[float]
) -> dict[str, Any]:
    """Measure a point, on a worker."""
    inference, run = point.settings.inference, load_run(networks)
    names = list(dict.fromkeys(unit for units in asked["units"] for unit in units))
    watched = [run.world.units.index(unit) for unit in names]
    sets = [[names.index(unit) for unit in units] for units in asked["units"]]
    answers: dict[str, list[np.ndarray]] = {name: [] for name in ("mle", *map(str, priors))}
    main = []  # posteriors of the main analysis
    for index, rows in enumerate(collect_layers(networks, inference.rows)):
        psi, first = _collect_distinct(run.networks[index], asked)
        layer = rows.select(watched)  # other units would cost time and change nothing
        found = {"mle": expit((psi @ layer.trained.T).astype(float))}
        for factor in priors:
            variance, seed = factor * inference.central_prior, inference.get_seed(index)
            sampler = inference.samplers["paper"]
            posterior = infer_posterior(layer, sampler, variance, seed, diagnose=False)
            found[str(factor)] = posterior.predict_proba(psi).astype(float)
            if factor == float(MAIN):
                main.append(posterior)
        for name, values in found.items():
            means = [values[at, units].mean() for at, units in zip(first, sets, strict=True)]
            answers[name].append(np.array(means))
    stacked = {name: np.stack(values) for name, values in answers.items()}
    groups: dict[Any, Any] = asked.reset_index().groupby(PLACE, sort=False).indices
    return {
        "scores": {name: run.scores[name].astype(float).tolist() for name in SCORES},
        **describe_state(main),
        "cells": [
            dict(zip(PLACE, place, strict=True))
            | {name: values[:, rows].tolist() for name, values in stacked.items()}
            for place, rows in groups.items()
        ],
    }


def _collect_distinct(network: Any, asked: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Collect ψ of each distinct question, and the index of each row's question."""
    texts = asked["heard"].map(str) + "\n" + asked["probe"]
    number, _ = pd.factorize(texts)
    return collect_features(network, asked[~texts.duplicated()]), number


def describe_state(posteriors: Sequence[Posterior]) -> dict[str, float]:
    """Return the state of the samplers of all networks at their end, by the names of `STATE`."""
    infos = [posterior.info for posterior in posteriors]
    return {
        "time": float(np.median([info.time for info in infos])),  # τ reached
        "converged": all(info.converged for info in infos),
        "diverged": int(sum(info.diverged.sum() for info in infos)),  # units of all networks
    }


@lru_cache(maxsize=1)  # points that share networks are run one after the other
def load_run(networks: Path) -> Run:
    """Load trained networks, on a worker."""
    return Run.load(networks)


@lru_cache(maxsize=3)  # one for each kind of rows
def collect_layers(networks: Path, rows: str) -> list[LayerRows]:
    """Collect the rows of every network, on a worker."""
    run = load_run(networks)
    return [collect_last_layer(run, network, rows) for network in run.networks]


def run_missing(tasks: Mapping[str, Task], folder: Path, begin: Begin, what: str) -> dict[str, Any]:
    """Run the tasks whose results are not in the folder yet, and return all results.

    Parameters
    ----------
    tasks : mapping of str to Task
        By key, a hash of everything that the result depends on.
    folder : Path
        Where results and networks are saved; the caller holds its lock.
    begin : callable
        Begins a call; see `open_begin`.
    what : str
        The name of the progress bar.
    """
    store, results = Store(folder), {key: folder / "results" / f"{key}.json" for key in tasks}
    missing = {
        key: task for key, task in tasks.items() if store.find(f"results/{key}", key) is None
    }
    places = {task.locate_networks(folder): task for task in missing.values()}
    steps = len(places) + len(missing)
    with progress(what) as advance:
        trainings = [
            begin(train_networks, task.world.text, task.training, place)
            for place, task in places.items()
        ]
        for done, wait in enumerate(trainings, start=1):
            wait()
            advance(done, steps, "training networks")
        points = [
            begin(task.work, task.locate_networks(folder), *task.arguments)
            for task in missing.values()
        ]
        for done, (key, wait) in enumerate(zip(missing, points, strict=True), start=1):
            write_text_atomically(results[key], json.dumps(wait(), indent=1) + "\n")
            store.record(f"results/{key}", key, [results[key]])
            advance(len(places) + done, steps, "all networks are trained")
    return {key: read_json(path) for key, path in results.items()}


def train_networks(world: str, training: TrainingSettings, place: Path) -> None:
    """Train networks into a folder, unless they are there."""
    learned = World.from_toml(world, "world.toml")
    if Run.find(place, learned, training) is None:
        train(learned, training).save(place)


def open_begin(
    folder: Path, workers: int | None = 1, scheduler: str | None = None
) -> AbstractContextManager[Begin]:
    """Choose who makes the calls.

    Parameters
    ----------
    folder : Path
        The folder that workers write to.
    workers : int, optional
        How many processes of this machine; None: one for each core.
    scheduler : str, optional
        The address of a running Dask scheduler to use instead. Its machines share the folder.

    Raises
    ------
    UserError
        Where Dask is needed and not installed, or no scheduler answers.
    """
    if scheduler is not None:
        return open_cluster(scheduler)
    return open_workers(count_workers() if workers is None else workers, folder)


@contextmanager
def open_cluster(address: str) -> Iterator[Begin]:
    """Provide a `begin` that makes calls as futures of a running Dask cluster."""
    if find_spec("distributed") is None:
        raise UserError(
            "--scheduler needs Dask, which is not installed; `pip install 'equivocal[cluster]'` "
            "installs it."
        )
    from distributed import Client

    try:
        # as Dask's default client, an unreachable one would later be used by xarray
        client = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise UserError(
            f"no Dask scheduler answers at {address!r} ({reason}); start one with `dask "
            "scheduler`, which prints its address, or leave --scheduler out."
        ) from None
    with client:
        announce(f"connected to {address}; dashboard: {client.dashboard_link}")
        code = hash_code()
        yield lambda *call: client.submit(call_checked, code, *call, pure=False).result


def call_checked(code: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Make a call on a worker of a cluster, if it has the same files of the package.

    Every call is checked, since a worker may join at any time.
    """
    if hash_code() != code:
        raise UserError(
            "a worker of the cluster has another version of equivocal; install the same on all "
            "machines."
        )
    return function(*arguments)
