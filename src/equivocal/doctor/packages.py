"""Versions of what is installed, against what equivocal's and JAX's own metadata ask for."""

import platform
import shutil
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

from equivocal.doctor.finding import Finding, State

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["extras", "has_nvidia_gpu", "versions"]

MODULES = {"scikit-learn": "sklearn"}  # others are called as they are installed
FOR = {
    "arviz": "posteriors as ArviZ reads them",
    "cluster": "sweeps over several processes or machines",
    "cuda": "an NVIDIA GPU",
    "nuts": "the exact posterior, for comparison",
    "sklearn": "estimators for scikit-learn",
    "torch": "posteriors of PyTorch models",
    "web": "`equivocal serve`",
}


def versions() -> Iterator[Finding]:
    """Python, equivocal, and every library that it needs."""
    yield Finding("versions", "python", platform.python_version())
    try:
        yield Finding("versions", "equivocal", metadata.version("equivocal"))
    except metadata.PackageNotFoundError:
        advice = "install it: pip install equivocal"
        yield Finding("versions", "equivocal", "not installed", State.PROBLEM, advice)
        return
    for wanted in (*_requirements("equivocal"), *_requirements("jax", only="jaxlib")):
        trouble = _trouble(wanted)
        found = trouble or metadata.version(wanted.name)
        advice = f"pip install '{_plain(wanted)}'" if trouble else ""
        state = State.PROBLEM if trouble else State.OK
        yield Finding("versions", wanted.name, found, state, advice)


def extras() -> Iterator[Finding]:
    """Optional parts: present, or the command that installs them."""
    for extra, purpose in FOR.items():
        troubles = [t for wanted in _requirements("equivocal", extra) if (t := _trouble(wanted))]
        if not troubles:
            yield Finding("extras", extra, f"present, for {purpose}")
            continue
        needed = extra != "cuda" or has_nvidia_gpu()
        missing = "missing" if needed else "missing, and there is no NVIDIA GPU here"
        found = f"{missing}; for {purpose}"
        advice = f"pip install 'equivocal[{extra}]'" if needed else ""
        yield Finding("extras", extra, found, State.NOTE, advice)


def has_nvidia_gpu() -> bool:
    """Whether the driver of one is there, whatever JAX can do."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _requirements(package: str, extra: str = "", only: str = "") -> "Iterator[Requirement]":
    """What a package asks for on this machine, with one of its extras or without."""
    from packaging.requirements import Requirement

    try:
        texts = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return
    for wanted in map(Requirement, texts):
        marker = wanted.marker
        always = marker is None or marker.evaluate({"extra": ""})
        with_extra = marker is None or marker.evaluate({"extra": extra})
        if with_extra and always == (not extra) and only in ("", wanted.name):
            yield wanted


def _trouble(wanted: "Requirement") -> str:
    """Why a requirement is not met; empty where it is."""
    try:
        found = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return f"missing, {wanted.specifier} is needed"
    if not wanted.specifier.contains(found, prereleases=True):
        return f"{found}, but {wanted.specifier} is needed"
    module = MODULES.get(wanted.name, wanted.name.replace("-", "_"))
    # NVIDIA's own wheels hold libraries, and no module of their name
    if not (wanted.name.startswith("nvidia-") or _can_be_found(module)):
        return f"{found}, but it cannot be imported"
    inner = (
        _trouble(part) for extra in wanted.extras for part in _requirements(wanted.name, extra)
    )
    return next(filter(None, inner), "")


def _can_be_found(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _plain(wanted: "Requirement") -> str:
    return f"{wanted.name}{wanted.specifier}"
