"""Scheduling: calls are made by this process, by worker processes, or by a running Dask cluster.

A crew receives calls and yields results as they complete, in any order. When a worker dies, Dask
gives its calls to others. Our own workers are processes confined to one core each, so that what a
call returns does not depend on how many there are (training groups its networks by cores); they end
with this process, however it ends. Dask is optional, and imported only where it is used.
"""

import os
import platform
import shutil
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from equivocal.errors import UserError
from equivocal.machine import count_cores, find_cache_folder, get_package_version
from equivocal.progress import announce
from equivocal.store.store import hash_code

__all__ = ["SCRATCH", "Crew", "Hire", "dask_setup", "hire_workers", "work_alone"]

INSTALL = "`pip install 'equivocal[cluster]'` installs it"
# A call whose worker dies is given to another; one that kills so many workers is at fault itself.
MOST_DEATHS = 20
MOST_COMPILED = 1 << 30  # bytes; JAX then forgets what was not used for longest
SCRATCH = ".scratch"  # of Dask, inside the folder of results


class Crew:
    """Makes calls one after the other in this process; subclasses make them elsewhere."""

    def __init__(self) -> None:
        self._soon: deque[_Call] = deque()
        self._waiting: deque[_Call] = deque()

    def share(self, value: Any) -> Any:
        """Return a stand-in for an argument of several calls, sent to each worker once."""
        return value

    def submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, soon: bool = False
    ) -> None:
        """Queue a call; with `soon`, before those that wait already."""
        (self._soon if soon else self._waiting).append((name, function, arguments))

    def iterate_finished(self) -> Iterator[tuple[str, Any]]:
        """Yield names with results or exceptions, until nothing is under way.

        More calls may be submitted meanwhile.
        """
        while self._soon or self._waiting:
            name, function, arguments = (self._soon or self._waiting).popleft()
            yield name, _call(function, arguments)


Hire = Callable[[int], AbstractContextManager[Crew]]  # for at most so many calls at a time
_Call = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # one failure must not stop the other calls
        return error


class _DaskCrew(Crew):
    """Makes calls as tasks of a Dask client."""

    def __init__(self, client: Any) -> None:
        from distributed import as_completed

        self._client = client
        self._under_way: Any = as_completed(loop=client.loop)  # type: ignore[no-untyped-call]
        self._names: dict[str, str] = {}

    def share(self, value: Any) -> Any:
        # not `scatter`: what is scattered is lost with the worker that holds it, a task is repeated
        return self._client.submit(_return, value, pure=False, priority=2)

    def submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, soon: bool = False
    ) -> None:
        how: dict[str, Any] = {"pure": False, "priority": int(soon)}
        future = self._client.submit(
            _call_checked, _describe_package(), function, *arguments, **how
        )
        self._names[future.key] = name
        self._under_way.add(future)

    def iterate_finished(self) -> Iterator[tuple[str, Any]]:
        for future in self._under_way:
            yield self._names.pop(future.key), _get_outcome(future)


def _get_outcome(future: Any) -> Any:
    from distributed import CancelledError, KilledWorker

    try:
        return future.result()
    except KilledWorker:
        return RuntimeError("its worker was lost every time; is there too little memory?")
    except CancelledError:
        return RuntimeError("the connection to the scheduler was lost")
    except Exception as error:
        return error


def _return(value: Any) -> Any:
    return value


@cache
def _describe_package() -> tuple[str, str]:
    """Return version and code of the package in this process."""
    return get_package_version(), hash_code()


def _call_checked(ours: tuple[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """Make a call if this process has the same equivocal; workers may join late."""
    theirs = _describe_package()
    if theirs != ours:
        how = f"equivocal {theirs[0]}" if theirs[0] != ours[0] else "other files of equivocal"
        raise UserError(
            f"a worker has {how}, and here is {ours[0]}; install the same on all machines."
        )
    return function(*arguments)


@contextmanager
def work_alone(calls: int) -> Iterator[Crew]:
    """Let this process do everything, on all its cores."""
    del calls
    yield Crew()


def hire_workers(
    folder: Path,
    workers: int | None = None,
    scheduler: str | None = None,
    *,
    patience: float = 5.0,
) -> Hire:
    """Choose who does the work.

    Parameters
    ----------
    folder : Path
        Where our own workers may write temporary files.
    workers : int, optional
        How many worker processes to start on this machine; by default one for each core.
    scheduler : str, optional
        The address of a running Dask scheduler to use instead.
    patience : float
        Seconds after which a scheduler that does not answer is given up.

    Raises
    ------
    UserError
        Where both are given, or Dask is needed and not installed.
    """
    if scheduler is not None and workers is not None:
        raise UserError("--workers starts workers here, --scheduler uses others; give one of them.")
    if find_spec("distributed") is None:
        if scheduler is not None or (workers or 1) > 1:
            raise UserError(f"several workers need Dask, which is not installed; {INSTALL}.")
        return work_alone
    if scheduler is not None:
        return lambda _: _connect(scheduler, patience)
    most = workers or count_cores()
    return lambda calls: _start_workers(folder / SCRATCH, min(most, calls))


@contextmanager
def _start_workers(directory: Path, workers: int) -> Iterator[Crew]:
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS,
        # By default a worker that is not back after 15 seconds is given up. Starting one takes as
        # long on a busy machine, and with all of them gone we would wait for good.
        "distributed.deploy.lost-worker-timeout": "7 days",
        # A worker gets a call when it is free: one that waits its turn cannot go to another, and at
        # the end that one would be idle.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.worker.use-file-locking": False,  # the folder is ours alone
    }
    try:
        with dask.config.set(settings), _silence_logs() as level:
            with _block_interrupts(), _explain_start():
                cluster = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,  # Dask cannot spill what JAX holds, it would only stop the work
                    preload=[__name__],  # `dask_setup`, below
                    env={
                        # a graphics card is shared: no worker may take most of it at once
                        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                        "TF_CPP_MIN_LOG_LEVEL": "3",  # XLA finds slow compilations worth an alarm
                        **_choose_program_cache(),
                    },
                    local_directory=str(directory),
                    dashboard_address="127.0.0.1:0",
                    silence_logs=level,
                )
            with cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
                link = f"; dashboard: {client.dashboard_link}" if find_spec("bokeh") else ""
                announce(f"{workers} worker{'s' if workers > 1 else ''}{link}")
                yield _DaskCrew(client)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _explain_start() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # a worker that died before it could say that it was there
        raise UserError(
            f"a worker process exited during start-up ({str(error).rstrip('.')}); is there too "
            "little memory? Run the same command again, or with fewer --workers."
        ) from None


def _choose_program_cache() -> dict[str, str]:
    """Choose where JAX keeps compiled programs for later workers, unless the user chose already.

    Each machine has a folder: a program for one processor may not run on another.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return {}
    ours = {
        "JAX_COMPILATION_CACHE_DIR": str(find_cache_folder() / "compiled" / platform.node()),
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(MOST_COMPILED),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # hundreds of small ones add up
    }
    return {name: os.environ.get(name, value) for name, value in ours.items()}


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C, which reaches a whole group of processes, until the block has ended.

    Threads that start meanwhile, and the processes that those start, do not receive the signal:
    this process ends its workers itself, and what they would print on the way is of no use.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # a thread that starts it would receive Ctrl-C again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_setup(worker: Any) -> None:
    """Confine a worker of ours to one core before JAX counts them; Dask calls this."""
    warnings.simplefilter("ignore")  # they would come out raw, and once from each worker
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        # threads that start from here on inherit it, those of tasks and of XLA among them
        os.sched_setaffinity(0, {cores[int(worker.name) % len(cores)]})


@contextmanager
def _connect(address: str, patience: float) -> Iterator[Crew]:
    from distributed import Client

    with _silence_logs():
        try:
            # otherwise an unreachable client would remain Dask's default and xarray would use it
            client = Client(address, timeout=patience, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
            raise UserError(
                f"no Dask scheduler answers at {address!r} ({reason}); start one with `dask "
                "scheduler`, which prints its address, or leave --scheduler out."
            ) from None
        with client:
            _check_workers(client)
            announce(f"connected to {address}; dashboard: {client.dashboard_link}")
            yield _DaskCrew(client)


def _check_workers(client: Any) -> None:
    """Refuse workers that have another version of the package, or none."""
    try:
        found = client.run(_call_checked, _describe_package(), bool)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"a worker cannot import equivocal {get_package_version()} ({type(error).__name__}: "
            f"{error}); install it there, with the same version."
        ) from None
    if not found:
        announce("the scheduler has no workers yet; waiting for the first")


@contextmanager
def _silence_logs() -> Iterator[int]:
    """Keep Dask's log from the user's terminal: all it says is that a lost worker is replaced."""
    import logging

    from distributed.utils import silence_logging_cmgr

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="distributed|tornado")
        with silence_logging_cmgr(logging.CRITICAL + 1):
            yield logging.CRITICAL + 1
