"""Run the points of a grid: networks are trained once, each result is saved as it arrives.

    FOLDER/results/KEY.json     the result of a point
    FOLDER/networks/KEY/        networks, by world and training settings
    FOLDER/records/             keys and checksums of the results (`equivocal.store.store`)

Calls are made in this process, in worker processes of this machine (`equivocal.workers`) or, as
futures of Dask, by a running cluster whose machines share the folder. All trainings come first.
Python's JSON preserves every float exactly, and `NaN` as `NaN`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from equivocal.network import Run, TrainingSettings, train
from equivocal.network.storage import hash_run
from equivocal.progress import announce, progress
from equivocal.store import read_json
from equivocal.store.files import write_text_atomically
from equivocal.store.store import Store, hash_code
from equivocal.workers import Begin, count_workers, open_workers
from equivocal.world import World
from lastlayer.errors import UserError

__all__ = ["Task", "open_begin", "run_missing"]

PATIENCE = 5.0  # seconds to wait for an answer of a scheduler


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
