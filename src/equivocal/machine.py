"""What this machine has."""

import os
import platform
from importlib import metadata
from pathlib import Path

__all__ = ["available_cores", "cache_folder", "package_version", "total_memory", "versions"]


def cache_folder() -> Path:
    """Where networks, ensembles and compiled programs are kept."""
    import platformdirs

    named = os.environ.get("EQUIVOCAL_CACHE")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("equivocal")


def package_version() -> str:
    """The version of this package, which is part of every key of the store."""
    return metadata.version("equivocal")


def available_cores() -> int:
    """Cores this process may use; fewer than the machine's where it is confined to some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def total_memory() -> int:
    """Bytes of memory this process may use: the machine's, or its container's where less."""
    if not hasattr(os, "sysconf"):
        return 8 << 30  # a cautious guess where the system does not say
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()).isdigit():
        return min(total, int(text))
    return total


def versions(*packages: str) -> dict[str, str]:
    """Of Python and packages, for files that say what they were made with."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # or imported from where it is not installed
            found[package] = "not installed"
    return found
