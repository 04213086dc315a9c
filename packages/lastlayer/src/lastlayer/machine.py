"""The machine this runs on: cores, memory, package versions and threads."""

import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

__all__ = [
    "collect_versions",
    "count_cores",
    "measure_memory",
    "use_one_blas_thread",
]


def count_cores() -> int:
    """Count the cores that this process may use, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def measure_memory() -> int:
    """Return the bytes of memory this process may use: the machine's or its container's."""
    if not hasattr(os, "sysconf"):
        return 8 << 30  # a cautious guess where the system does not say
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()).isdigit():
        return min(total, int(text))
    return total


class _BlasLimit:
    """One thread for BLAS while any block asks for it; threads may open blocks at the same time."""

    lock = threading.Lock()
    blocks = 0
    limits: Any = None
    libraries: tuple[int, Any] = 0, None  # how many modules were loaded at the search; its result

    @classmethod
    def find_libraries(cls) -> Any:
        """Find the BLAS libraries of this process; search again only after further imports.

        A search takes 4 to 7 ms, a tenth of the time of a small posterior.
        """
        from threadpoolctl import ThreadpoolController

        import_module("scipy.linalg")  # JAX takes its LAPACK from there, and would load it later
        if cls.libraries[0] != len(sys.modules):
            cls.libraries = len(sys.modules), ThreadpoolController()
        return cls.libraries[1]

    @classmethod
    def take_control(cls) -> None:
        """Let this thread set and lift limits.

        Since version 3.8 threadpoolctl silently ignores every thread but the one that set a limit
        first, which need not be the one that opens the first of our blocks or closes the last.
        """
        for library in cls.find_libraries().lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


@contextmanager
def use_one_blas_thread() -> Iterator[None]:
    """Limit BLAS and LAPACK to one thread each, if threadpoolctl is installed.

    On many small matrices OpenBLAS's threads wait for each other in busy loops: triangular solves
    of 64 matrices of 101 × 101 took 194 ms of processor time with two threads on busy cores, and
    6 ms with one.
    """
    with _BlasLimit.lock:
        _BlasLimit.blocks += 1
        if _BlasLimit.blocks == 1:
            with suppress(ImportError):
                _BlasLimit.take_control()
                _BlasLimit.limits = _BlasLimit.find_libraries().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _BlasLimit.lock:
            _BlasLimit.blocks -= 1
            if _BlasLimit.blocks == 0 and _BlasLimit.limits is not None:
                _BlasLimit.take_control()
                _BlasLimit.limits.restore_original_limits()


PACKAGES = ("lastlayer", "equivocal", "jax", "jaxlib", "numpy", "pandas", "scipy", "xarray")


def collect_versions(*more: str) -> dict[str, str]:
    """Return the versions of Python and of packages, to be saved with results."""
    versions = {package: _find_version(package) for package in (*PACKAGES, *more)}
    return {"python": platform.python_version(), **versions}


@cache  # without it, this takes a tenth of the time of a posterior on a GPU
def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # or it can be imported without being installed
        return "not installed"
