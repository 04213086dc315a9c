"""Scheduling: calls are made by this process, by worker processes, or by a running Dask cluster.

A crew receives calls and yields results as they complete, in any order. When a worker dies, Dask
gives its calls to others. Worker processes started here are confined to one core each, so that the
result of a call does not depend on how many workers there are (training groups its networks by
cores); they end with this process, however it ends. Dask is optional, and imported only where it is
used.
"""

import os
import platform
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from equivocal.machine import find_cache_folder, get_package_version
from equivocal.progress import announce
from equivocal.store.store import hash_code
from equivocal.workers import block_interrupts
from lastlayer.errors import UserError
from lastlayer.machine import count_cores

__all__ = ["SCRATCH", "Crew", "Hire", "dask_setup", "hire_workers", "work_alone"]

INSTALL = "`pip install 'equivocal[cluster]'` installs it"
# A call whose worker dies is given to another, until so many have died that the call is to blame.
MOST_DEATHS = 20
MOST_COMPILED = 1 << 30  # bytes; beyond it JAX drops the least recently used programs
SCRATCH = ".scratch"  # Dask's folder inside the folder of results


class Crew:
    """Makes calls one after the other in this process; a subclass sends them to workers."""

    def __init__(self) -> None:
        self._soon: deque[_Call] = deque()
        self._waiting: deque[_Call] = deque()

    def share(self, value: Any) -> Any:
        """Return a stand-in for an argument of several calls, sent to each worker once."""
        return value

    def submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, soon: bool = False
    ) -> None:
        """Queue a call; with `soon`, ahead of all calls that were queued without it."""
        (self._soon if soon else self._waiting).append((name, function, arguments))

    def iterate_finished(self) -> Iterator[tuple[str, Any]]:
        """Yield the name of each finished call with its result or exception, until none is left.

        More calls may be submitted meanwhile.
        """
        while self._soon or self._waiting:
            name, function, arguments = (self._soon or self._waiting).popleft()
            yield name, _call(function, arguments)


Hire = Callable[[int], AbstractContextManager[Crew]]  # given the number of calls to make
_Call = tuple[str, Callable[..., Any], tuple[Any, ...]]


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return the result of a call, or the exception that it raised."""
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
        # not `scatter`: scattered data are lost with the worker that holds them, a task is repeated
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
    """Return the result of a finished task, or the exception to show for it."""
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
    """Return the version and the code hash of the package in this process."""
    return get_package_version(), hash_code()


def _call_checked(ours: tuple[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """Make a call on a worker, if it has the same version and files of the package.

    Every call is checked, since a worker may join the cluster at any time.
    """
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
        How many worker processes to start on this machine; by default one per core.
    scheduler : str, optional
        The address of a running Dask scheduler to use instead.
    patience : float
        Seconds to wait for an answer of the scheduler.

    Returns
    -------
    callable
        Given the number of calls, returns a context manager that provides a `Crew`.

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
    """Provide a crew of worker processes on this machine, with temporary files in `directory`."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS,
        # By default a worker that does not return within 15 seconds is given up. Starting one can
        # take as long on a busy machine, and with no workers left we would wait for ever.
        "distributed.deploy.lost-worker-timeout": "7 days",
        # A worker gets a call only when it is free: a call queued at a busy worker cannot move to
        # another, which would then be idle at the end.
        "distributed.scheduler.worker-saturation": 1.0,
        "distributed.worker.use-file-locking": False,  # no other process uses the folder
    }
    try:
        with dask.config.set(settings), _silence_logs() as level:
            with block_interrupts(), _explain_start():
                cluster = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,  # Dask cannot spill JAX's arrays, and would pause the worker
                    preload=[__name__],  # calls `dask_setup`, below
                    env={
                        # workers share the GPU, so none may reserve most of its memory
                        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                        "TF_CPP_MIN_LOG_LEVEL": "3",  # XLA warns of every slow compilation
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
    """Raise a `UserError` where a worker dies before it has registered."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(
            f"a worker process exited during start-up ({str(error).rstrip('.')}); is there too "
            "little memory? Run the same command again, or with fewer --workers."
        ) from None


def _choose_program_cache() -> dict[str, str]:
    """Return the variables that make JAX cache compiled programs, unless the user has set a cache.

    Each machine has its own folder, since a program for one processor may not run on another.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return {}
    ours = {
        "JAX_COMPILATION_CACHE_DIR": str(find_cache_folder() / "compiled" / platform.node()),
        "JAX_COMPILATION_CACHE_MAX_SIZE": str(MOST_COMPILED),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # hundreds of short ones add up
    }
    return {name: os.environ.get(name, value) for name, value in ours.items()}


def dask_setup(worker: Any) -> None:
    """Confine a worker to one core before JAX counts the cores; Dask calls this at its start."""
    warnings.simplefilter("ignore")  # every worker would print each of them to the terminal
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        # threads that start later inherit this, among them those of tasks and of XLA
        os.sched_setaffinity(0, {cores[int(worker.name) % len(cores)]})


@contextmanager
def _connect(address: str, patience: float) -> Iterator[Crew]:
    """Provide a crew of the workers of a running Dask scheduler."""
    from distributed import Client

    with _silence_logs():
        try:
            # as Dask's default client, an unreachable one would later be used by xarray
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
    """Keep Dask's log off the terminal, since it only says that lost workers are replaced.

    Yields the level above which messages are logged.
    """
    import logging

    from distributed.utils import silence_logging_cmgr

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="distributed|tornado")
        with silence_logging_cmgr(logging.CRITICAL + 1):
            yield logging.CRITICAL + 1
