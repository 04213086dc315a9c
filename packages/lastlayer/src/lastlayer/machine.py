"""The machine this runs on: cores, memory, package versions and threads."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
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


@cache
def _find_libraries() -> Any:
    """Find the BLAS libraries of this process: once, since that takes 4 to 7 ms."""
    from threadpoolctl import ThreadpoolController

    import_module("scipy.linalg")  # JAX takes its LAPACK from there, and would load it later
    return ThreadpoolController()


@contextmanager
def use_one_blas_thread() -> Iterator[None]:
    """Limit BLAS and LAPACK to one thread each.

    On many small matrices OpenBLAS's threads wait for each other in busy loops: triangular solves
    of 64 matrices of 101 × 101 took 194 ms of processor time with two threads on busy cores, and
    6 ms with one.
    """
    with _find_libraries().limit(limits=1, user_api="blas"):
        yield


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
