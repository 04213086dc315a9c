"""A description of machine and code, which is stored with each measurement."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

from lastlayer.machine import collect_versions, count_cores

__all__ = ["describe_machine"]

PACKAGES = ("equivocal", "numpy", "scipy", "jax", "jaxlib", "scikit-learn", "numpyro", "torch")


def describe_machine() -> dict[str, Any]:
    """Describe what results depend on: processor, load, versions and commit."""
    return {
        "cpu": _find_cpu_model(),
        "cores": count_cores(),
        "device": jax.devices()[0].device_kind,
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": _measure_load(),
        "versions": collect_versions(*PACKAGES),
        "commit": _find_commit(),
    }


def _measure_load() -> list[float]:
    """Return the load of the last 1, 5 and 15 minutes; empty if the system does not report it."""
    return [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else []


def _find_cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "unknown")


def _find_commit() -> str:
    """Return the commit that was measured, with `-dirty` if files have changed since."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # git might find an unrelated repository above
        return "unknown"
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
