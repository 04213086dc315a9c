"""The machine this runs on: its device and the cache folder."""

import os
from importlib import metadata
from pathlib import Path

__all__ = ["describe_device", "find_cache_folder", "get_package_version"]


def find_cache_folder() -> Path:
    """Return the folder in which networks, ensembles and compiled programs are cached."""
    import platformdirs

    named = os.environ.get("EQUIVOCAL_CACHE")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("equivocal")


def get_package_version() -> str:
    """Return the version of this package."""
    return metadata.version("equivocal")


def describe_device() -> str:
    """Return `" on NVIDIA H200"` where JAX has more than a CPU, else `""`."""
    import jax

    device = jax.devices()[0]
    return "" if device.platform == "cpu" else f" on {device.device_kind}"
