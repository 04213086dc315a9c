"""Run the points of a grid: networks are trained once, each result is saved as it arrives.

    FOLDER/results/KEY.json     the result of a point
    FOLDER/networks/KEY/        networks, by the content of world and training settings
    FOLDER/records/             keys and checksums of both (`equivocal.store.store`)

Only this process writes there. Workers receive their input and return their results over the
network, so they need not share a disk with this process; a result is checked before it is accepted,
whether it comes from a worker or from a folder that was copied from elsewhere. Python's JSON
preserves every float exactly, and `NaN` as `NaN`.
"""

import json
import shutil
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from equivocal.multiverse.cluster import SCRATCH, Crew, Hire
from equivocal.network import TrainingSettings, train
from equivocal.progress import Advance, progress
from equivocal.store import parse_json, read_json
from equivocal.store.store import NETWORK_CODE, Store, hash_content
from equivocal.world import World
from lastlayer.errors import UserError
from lastlayer.files import UnreadableError, write_atomically, write_text_atomically

__all__ = ["Parcel", "Task", "TaskResults", "UnfinishedError", "make_scratch_folder", "run_missing"]


class UnfinishedError(RuntimeError):
    """Some tasks failed for good; the results of the others are saved."""


@dataclass(frozen=True)
class Parcel:
    """The files of a run as one value, which can be sent to a worker without a shared disk."""

    files: tuple[tuple[str, bytes], ...]  # names relative to the folder, and contents

    @classmethod
    def pack(cls, folder: Path, paths: list[Path]) -> "Parcel":
        """Pack files of a folder."""
        named = ((path.relative_to(folder).as_posix(), path) for path in sorted(paths))
        return cls(tuple((name, path.read_bytes()) for name, path in named))

    def unpack(self, folder: Path) -> list[Path]:
        """Write the files, and return their paths."""
        for name, content in self.files:
            with write_atomically(folder / name) as temporary:
                temporary.write_bytes(content)
        return [folder / name for name, _ in self.files]


@dataclass(frozen=True, eq=False)
class Task:
    """A call on trained networks.

    Attributes
    ----------
    world, training
        The world and the training settings of the networks.
    work : callable
        Called on a worker with a `Parcel` of the networks and the `arguments`; returns a value
        that JSON can represent.
    arguments : tuple
        Further arguments of the work.
    is_valid : callable
        Returns whether a value is a valid result of the task.
    check : callable, optional
        Called on a worker before the networks are trained; raises if the work cannot be done.
    """

    world: World
    training: TrainingSettings
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    is_valid: Callable[[Any], bool]
    check: Callable[[], None] | None = None

    @property
    def networks_key(self) -> str:
        """A hash of everything that the networks depend on."""
        what = ("networks", self.world.text, asdict(self.training))
        return hash_content(*what, code=NETWORK_CODE)


@dataclass(frozen=True)
class TaskResults:
    """Results by key, in the order of the tasks, and the exceptions of tasks that failed."""

    results: dict[str, Any]
    failures: dict[str, Exception]

    def check(self) -> None:
        """Raise an `UnfinishedError` if a task failed; call it once the results are written."""
        if self.failures:
            number, first = len(self.failures), next(iter(self.failures.values()))
            known = isinstance(first, UserError | RuntimeError)
            why = str(first).rstrip(".") if known else f"{type(first).__name__}: {first}"
            raise UnfinishedError(
                f"{number} of {number + len(self.results)} failed, the first with: {why}. The "
                "others are saved; the same command tries again what failed, and only that."
            )


def run_missing(
    tasks: Mapping[str, Task], folder: Path, hire: Hire, on_step: Advance | None, what: str = "grid"
) -> TaskResults:
    """Run the tasks whose results are not in the folder yet.

    Parameters
    ----------
    tasks : mapping of str to Task
        By key, a hash of everything that the result depends on.
    folder : Path
        Where results and networks are saved; the caller holds its lock.
    hire : callable
        Provides the workers; see `equivocal.multiverse.cluster`.
    on_step : callable or None
        Called with the number of tasks done, the total and how many trainings are left; None shows
        a progress bar on the terminal.
    what : str
        The name of the progress bar.

    Returns
    -------
    TaskResults
        All results, those found in the folder included.
    """
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # left by workers that were killed
    store = Store(folder)
    found = {key: _load_result(store, key, task) for key, task in tasks.items()}
    results = {key: content for key, content in found.items() if content is not None}
    missing = {key: task for key, task in tasks.items() if key not in results}
    failures: dict[str, Exception] = {}
    if missing:
        shown = nullcontext(on_step) if on_step else progress(what)
        with shown as advance, hire(len(missing)) as crew:
            work = _Work(missing, store, crew)
            for key, outcome in work.run():
                if isinstance(outcome, Exception):
                    failures[key] = outcome
                elif key in missing:
                    results[key] = _save_result(store, key, outcome)
                advance(len(failures) + len(results) + len(missing) - len(tasks), *work.state)
    return TaskResults({key: results[key] for key in tasks if key in results}, failures)


def _load_result(store: Store, key: str, task: Task) -> Any | None:
    """Load a finished result, or return None; its content is checked, since it is untrusted."""
    paths = store.find(f"results/{key}", key)
    if not paths:
        return None
    with suppress(UnreadableError):
        content = read_json(paths[0])
        if task.is_valid(content):
            return content
    warnings.warn(f"{paths[0]} is damaged; recomputing its result.", stacklevel=2)
    return None


def _save_result(store: Store, key: str, content: Any) -> Any:
    """Save a result, and return it as it will be loaded the next time."""
    text, path = json.dumps(content, indent=1) + "\n", store.folder / "results" / f"{key}.json"
    write_text_atomically(path, text)
    store.record(f"results/{key}", key, [path])
    return parse_json(text)


class _Work:
    """The trainings and tasks of a run.

    The tasks on trained networks come before further trainings, so that results arrive early.
    """

    def __init__(self, tasks: dict[str, Task], store: Store, crew: Crew) -> None:
        self.tasks, self.store, self.crew = tasks, store, crew
        self.sharing: defaultdict[str, list[str]] = defaultdict(list)
        for key, task in tasks.items():
            self.sharing[task.networks_key].append(key)
        self.in_training: set[str] = set()

    @property
    def state(self) -> tuple[int, str]:
        """The number of tasks, and how many trainings are left, in words."""
        training = len(self.in_training)
        to_go = f"{training} training{'s' if training > 1 else ''} to go"
        return len(self.tasks), to_go if training else "all are trained"

    def run(self) -> Iterator[tuple[str, Any]]:
        """Yield the key of every task with its result or exception, and of each trained network."""
        for networks, keys in self.sharing.items():
            paths = self.store.find(f"networks/{networks}", networks)
            if paths is not None:
                self._submit_tasks(networks, Parcel.pack(self._locate(networks), paths))
                continue
            first = self.tasks[keys[0]]
            self.in_training.add(networks)
            self.crew.submit(networks, _train, first.world.text, first.training, first.check)
        for key, outcome in self.crew.iterate_finished():
            if key in self.tasks:
                valid = isinstance(outcome, Exception) or self.tasks[key].is_valid(outcome)
                yield key, outcome if valid else RuntimeError("a worker sent back no result")
                continue
            self.in_training.remove(key)
            if isinstance(outcome, Exception):
                yield from ((task, outcome) for task in self.sharing[key])
                continue
            self.store.record(f"networks/{key}", key, outcome.unpack(self._locate(key)))
            self._submit_tasks(key, outcome)
            yield key, None

    def _locate(self, networks: str) -> Path:
        return self.store.folder / "networks" / networks

    def _submit_tasks(self, networks: str, parcel: Parcel) -> None:
        """Submit all tasks on the same networks, which are sent to each worker once."""
        shared = self.crew.share(parcel)
        for key in self.sharing[networks]:
            task = self.tasks[key]
            self.crew.submit(key, task.work, shared, *task.arguments, soon=True)


def _train(world: str, training: TrainingSettings, check: Callable[[], None] | None) -> Parcel:
    """Train on a worker, and return the files of the run."""
    if check is not None:
        check()
    run = train(World.from_toml(world, "world.toml"), training)
    with make_scratch_folder() as folder:
        run.save(folder)
        files = (path for path in folder.rglob("*") if path.is_file())
        return Parcel.pack(folder, [path for path in files if path.name[0] != "."])


@contextmanager
def make_scratch_folder() -> Iterator[Path]:
    """Make a temporary folder on a worker, which is removed after use in any case."""
    place = None  # the system's folder for temporary files
    if find_spec("distributed") is not None:
        from distributed import get_worker

        with suppress(ValueError):  # raised where this process is not a worker
            place = get_worker().local_directory
    with TemporaryDirectory(dir=place, prefix="equivocal-") as folder:
        yield Path(folder)
