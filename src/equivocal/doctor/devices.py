"""What JAX computes on, asked in a process of its own: it may fail, crash or hang there."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from equivocal.doctor.finding import Finding, State
from equivocal.doctor.packages import has_nvidia_gpu
from equivocal.store import format_size

__all__ = ["devices"]

PATIENCE = 60.0  # seconds; a GPU's driver may take ten
ASK = """
import json, jax
memory = lambda device: (device.memory_stats() or {}).get("bytes_limit")
found = [
    {"kind": each.device_kind, "platform": each.platform, "memory": memory(each)}
    for each in jax.devices()
]
print(json.dumps({"backend": jax.default_backend(), "devices": found}))
"""


@contextmanager
def devices() -> Iterator[Callable[[], list[Finding]]]:
    """Start JAX now; what is handed over waits for it and says what came of it."""
    # a GPU's memory is looked at, not taken
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-c", ASK]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, errors="replace", **pipes) as child:
        try:
            yield lambda: _answer(child)
        finally:
            child.kill()


def _answer(child: "subprocess.Popen[str]") -> list[Finding]:
    try:
        printed, complained = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return [_broken(f"did not start within {PATIENCE:.0f} seconds")]
    try:
        found = json.loads(printed.splitlines()[-1])
    except (ValueError, IndexError):
        lines = [line for line in complained.splitlines() if line.strip()]
        ended = f"ended with code {child.returncode}"
        return [_broken(f"does not start: {lines[-1].strip() if lines else ended}")]
    shown = [Finding("devices", "backend", f"jax computes on {found['backend']}")]
    for number, device in enumerate(found["devices"]):
        memory = f", {format_size(device['memory'])}" if device["memory"] else ""
        shown.append(Finding("devices", f"{device['platform']} {number}", device["kind"] + memory))
    if has_nvidia_gpu() and found["backend"] == "cpu":
        shown.append(_unused_gpu())
    return shown


def _unused_gpu() -> Finding:
    if "cuda" not in (os.environ.get("JAX_PLATFORMS") or "cuda"):
        found, advice = "left unused, as JAX_PLATFORMS says", ""
    else:
        found, advice = "there is one, but jax does not use it", "pip install 'equivocal[cuda]'"
    return Finding("devices", "NVIDIA GPU", found, State.NOTE, advice)


def _broken(what: str) -> Finding:
    if named := os.environ.get("JAX_PLATFORMS"):
        advice = f"JAX_PLATFORMS is {named!r}; unset it, or set it to cpu"
    else:
        advice = "install it again: pip install --force-reinstall jax jaxlib"
    return Finding("devices", "jax", f"{what:.400}", State.PROBLEM, advice)
