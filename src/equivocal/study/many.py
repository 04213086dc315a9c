"""Many tasks on trained networks: networks are trained once, results kept as they come.

    FOLDER/results/KEY.json     a result, or the checksums of trained networks (`Store`)
    FOLDER/networks/KEY/        networks, by the content of world and training settings

Only this process writes here. Workers get what they need over the wire and send back what they
found, so they need no disk in common with us.
"""

import shutil
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from equivocal.errors import UserError
from equivocal.gestalt import TrainingSettings, train
from equivocal.progress import Advance
from equivocal.store.keyed import Store
from equivocal.store.parcels import Parcel
from equivocal.store.stages import hash_content
from equivocal.study.cluster import SCRATCH, Crew, Hire, scratch
from equivocal.world import World

__all__ = ["Done", "Task", "UnfinishedError", "do_missing", "scratch_folder"]

# Where files are written, and a killed run may leave something.


class UnfinishedError(RuntimeError):
    """Some tasks failed for good; what the others gave is kept."""


@dataclass(frozen=True, eq=False)
class Task:
    """A call on trained networks: `work(networks, *arguments)` gives something JSON can hold.

    `accepts` knows such a result from what a stranger may have put in its place. `check` is called
    where the work is done, before the networks are trained.
    """

    world: World
    training: TrainingSettings
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    accepts: Callable[[Any], bool]
    check: Callable[[], None] | None = None

    @property
    def networks_key(self) -> str:
        """Of all that the networks depend on."""
        return hash_content("networks", self.world.text, asdict(self.training))


@dataclass(frozen=True)
class Done:
    """What tasks gave, by key and in their order; and why others failed."""

    results: dict[str, Any]
    failures: dict[str, Exception]

    def check(self) -> None:
        """Complain about failures, once what is there has been written."""
        if self.failures:
            number = len(self.failures)
            first = next(iter(self.failures.values()))
            known = isinstance(first, UserError | RuntimeError)
            why = str(first).rstrip(".") if known else f"{type(first).__name__}: {first}"
            raise UnfinishedError(
                f"{number} of {number + len(self.results)} failed, the first with: {why}. The "
                "others are kept; the same command tries again what failed, and only that."
            )


def do_missing(tasks: Mapping[str, Task], folder: Path, hire: Hire, on_step: Advance) -> Done:
    """Do the tasks, given by key, whose results are not in the folder yet; the caller holds it."""
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # of workers that were killed
    store = Store(folder)
    found = {key: store.get(key, task.accepts) for key, task in tasks.items()}
    results = {key: content for key, content in found.items() if content is not None}
    missing = {key: task for key, task in tasks.items() if key not in results}
    failures: dict[str, Exception] = {}
    if missing:
        with hire(len(missing)) as crew:
            work = _Work(missing, folder, store, crew)
            for key, outcome in work.outcomes():
                if key not in tasks:
                    pass  # networks
                elif isinstance(outcome, Exception):
                    failures[key] = outcome
                else:
                    store.put(key, outcome)
                    results[key] = store.get(key)  # as it is found the next time
                on_step(len(failures) + len(results) + len(missing) - len(tasks), *work.state())
    return Done({key: results[key] for key in tasks if key in results}, failures)


class _Work:
    """Trainings, and the tasks on each of them before other trainings: results stream in."""

    def __init__(self, tasks: dict[str, Task], folder: Path, store: Store, crew: Crew) -> None:
        self.tasks, self.folder, self.store, self.crew = tasks, folder / "networks", store, crew
        self.sharing: defaultdict[str, list[str]] = defaultdict(list)
        for key, task in tasks.items():
            self.sharing[task.networks_key].append(key)
        self.in_training: set[str] = set()

    def state(self) -> tuple[int, str]:
        """How many tasks there are, and a word on what goes on."""
        training = len(self.in_training)
        to_go = f"{training} training{'s' if training > 1 else ''} to go"
        return len(self.tasks), to_go if training else "all are trained"

    def outcomes(self) -> Iterator[tuple[str, Any]]:
        """Key and result, or exception, of every task; and of networks that are trained."""
        for networks, keys in self.sharing.items():
            found = self._found(networks)
            if found is not None:
                self._hand_out(networks, found)
                continue
            first = self.tasks[keys[0]]
            self.in_training.add(networks)
            self.crew.submit(networks, _train, first.world.text, first.training, first.check)
        for key, outcome in self.crew.finished():
            if key in self.tasks:
                yield key, outcome
                continue
            self.in_training.remove(key)
            if isinstance(outcome, Exception):
                yield from ((task, outcome) for task in self.sharing[key])
                continue
            outcome.unpack(self.folder / key)
            self.store.put(key, outcome.checksums)  # says that they are complete
            self._hand_out(key, outcome)
            yield key, None

    def _found(self, key: str) -> Parcel | None:
        """Networks that were trained before."""
        checksums = self.store.get(key)
        if checksums is None:
            return None
        names = set(checksums) if isinstance(checksums, dict) else ()
        parcel = Parcel.of(self.folder / key, names)  # somebody may have put others there
        if not parcel.files or parcel.checksums != checksums:
            warnings.warn(f"{self.folder / key} is damaged; it is trained again.", stacklevel=2)
            return None
        return parcel

    def _hand_out(self, networks: str, parcel: Parcel) -> None:
        shared = self.crew.share(parcel)
        for key in self.sharing[networks]:
            task = self.tasks[key]
            self.crew.submit(key, task.work, shared, *task.arguments, soon=True)


def _train(world: str, training: TrainingSettings, check: Callable[[], None] | None) -> Parcel:
    """On a worker: networks, as the files of a run."""
    if check is not None:
        check()
    run = train(World.from_toml(world, "world.toml"), training)
    with scratch_folder() as folder:
        run.save(folder)
        return Parcel.of(folder)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """On a worker: a folder that is removed after use, whatever happens."""
    with TemporaryDirectory(dir=scratch(), prefix="equivocal-") as folder:
        yield Path(folder)
