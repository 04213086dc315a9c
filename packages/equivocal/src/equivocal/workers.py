"""Worker processes of this machine, for calls that do not depend on each other.

`begin(function, *arguments)` starts a call and returns a function that waits for its result;
`functools.partial` is such a `begin`, which makes each call in this process when it is waited for.
A call gives the same bits in a worker as in this process: it is made by the same programs, one call
at a time. (Threads would do with less, but LAPACK's calls in JAX wait for each other for ever when
several threads make them.) Workers end with this process, however it ends.
"""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from threading import Thread
from types import ModuleType
from typing import Any

from equivocal.machine import describe_device
from equivocal.progress import err
from equivocal.store.files import remove_orphans
from lastlayer.errors import UserError
from lastlayer.files import explain_write_errors
from lastlayer.machine import count_cores, measure_memory

__all__ = ["Begin", "block_interrupts", "count_workers", "open_workers"]

BYTES = 3 << 30  # of memory for each worker: the most that a posterior plans with, and Python

Begin = Callable[..., Callable[[], Any]]


def count_workers() -> int:
    """Count the workers that this machine has cores and memory for; one where there is a GPU."""
    if describe_device():
        return 1
    return max(1, min(count_cores(), measure_memory() // BYTES))


@contextmanager
def open_workers(workers: int, folder: Path) -> Iterator[Begin]:
    """Provide a `begin` that makes calls in so many workers, which start when they are needed.

    Parameters
    ----------
    workers : int
        One makes all calls in this process.
    folder : Path
        Where they write; what a call that is stopped was writing there is removed.

    Raises
    ------
    UserError
        Where the system has ended a worker, as it does when memory runs out.
    """
    if workers < 2:
        yield partial
        return
    context = get_context("spawn")  # a fork would copy JAX's locks, but not its threads
    alive, ours = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _prepare_worker, (alive,))
    results = TemporaryDirectory()  # which other users cannot enter

    def begin(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        with block_interrupts(), _hide_main():
            future = pool.submit(_call, results.name, function, arguments)

        def wait() -> Any:
            path, notes = future.result()
            for text, category in notes:
                warnings.warn(text, category, stacklevel=2)
            result = ForkingPickler.loads(path.read_bytes())
            path.unlink()
            return result

        return wait

    try:
        yield begin
        pool.shutdown()
    except BaseException as error:
        ours.close()  # which ends the workers
        pool.shutdown(cancel_futures=True)
        remove_orphans(folder)
        if isinstance(error, BrokenProcessPool):
            raise UserError(
                "a worker process was ended by the system, perhaps for lack of memory; what is "
                "finished is kept, and `equivocal reproduce --workers 1` goes on with the least."
            ) from None
        raise
    finally:
        ours.close()
        results.cleanup()


def _prepare_worker(alive: Connection) -> None:
    """Keep a worker silent, and let it end when the other end of the pipe is closed or lost."""

    def watch() -> None:
        try:
            alive.recv()
        except (EOFError, OSError):
            os._exit(1)

    Thread(target=watch, daemon=True).start()
    err.quiet = True


def _call(
    folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Path, list[tuple[str, type[Warning]]]]:
    """Make a call in a worker, and return a file with its result, and its warnings.

    The file holds what the pool itself would send. But a worker that ended while it sent more than
    a pipe holds would leave the reader waiting for the rest for ever.
    """
    with warnings.catch_warnings(record=True) as notes:
        result = function(*arguments)
    with (
        NamedTemporaryFile(dir=folder, delete=False) as file,
        explain_write_errors(Path(file.name)),
    ):
        file.write(ForkingPickler.dumps(result))
    return Path(file.name), [(str(note.message), note.category) for note in notes]


@contextmanager
def _hide_main() -> Iterator[None]:
    """Keep workers from running the user's script again, which need not expect that."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def block_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C, which the terminal sends to all our processes, until the block has ended.

    Threads that start in the block, and the processes that they start, never receive the signal:
    this process ends its workers itself, and the tracebacks that they would print are of no use.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # if a thread started it later, it would unblock Ctrl-C
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
