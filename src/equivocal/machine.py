"""What this machine has."""

import os

__all__ = ["available_cores"]


def available_cores() -> int:
    """Cores this process may use; fewer than the machine's where it is confined to some."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
