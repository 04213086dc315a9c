"""`equivocal doctor`: find what may keep equivocal from working here, and say what to do about it.

Nothing is imported that may fail: JAX starts in a process of its own, which may crash or hang
without harm to the other findings, and libraries are looked up, not imported. To examine one more
thing, yield one more `Finding`; thresholds and the purposes of the extras may be changed.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata, util
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal

import typer
from packaging.requirements import Requirement
from rich.text import Text

from equivocal import console
from equivocal.console import out
from equivocal.machine import find_cache_folder
from lastlayer.files import format_size
from lastlayer.machine import count_cores, measure_memory

State = Literal["ok", "note", "problem"]  # note: something optional is missing, or room is short
LITTLE_MEMORY = 2 << 30  # the whole reproduction takes 1.83 GB at its peak (see README)
LITTLE_ROOM = 1 << 30  # a full reproduction writes 0.7 GiB
PROBE = bytes(1 << 16)  # a full disk still accepts empty files
STARTUP_TIMEOUT = 60.0  # seconds; a GPU's driver may take ten
MODULES = {"scikit-learn": "sklearn"}  # modules that are not named like their package
PURPOSES = {  # what each extra is for
    "arviz": "posteriors as ArviZ reads them",
    "cluster": "sweeps over several processes or machines",
    "cuda": "an NVIDIA GPU",
    "model": "worlds, networks, studies and this command line",
    "nuts": "the exact posterior, for comparison",
    "sklearn": "estimators for scikit-learn",
    "torch": "posteriors of PyTorch models",
    "web": "`equivocal serve`",
}
LIST_DEVICES = """
import json, jax
memory = lambda device: (device.memory_stats() or {}).get("bytes_limit")
print(json.dumps([(each.platform, each.device_kind, memory(each)) for each in jax.devices()]))
"""
STYLES = {"ok": "green", "note": "yellow", "problem": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=console.list_examples("doctor"))(doctor)


@dataclass(frozen=True)
class Finding:
    """The result of one check, with advice unless all is well."""

    section: str
    name: str
    found: str
    state: State = "ok"
    advice: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check versions, devices, memory, folders and extras, with advice on every problem.

    Exit code 0: all is well, though optional parts may be missing; 1: something is wrong.
    """
    findings = examine()
    well = all(finding.state != "problem" for finding in findings)
    if as_json:
        content = {"well": well, "findings": [asdict(finding) for finding in findings]}
        out.print(json.dumps(content, indent=1), soft_wrap=True)
    else:
        _print_findings(findings)
        out.print("\nall is well" if well else "\nsomething is wrong; see `problem` above")
    if not well:
        raise typer.Exit(1)


def _print_findings(findings: list[Finding]) -> None:
    """Print the findings by section, each with its advice."""
    width = max(len(finding.name) for finding in findings)
    for section, entries in groupby(findings, key=lambda finding: finding.section):
        out.print(section, style="bold")
        for entry in entries:
            label = Text(f"  {entry.state:8}", STYLES[entry.state])
            out.print(label + f"{entry.name:{width}}  {entry.found}", soft_wrap=True)
            if entry.advice:
                out.print(f"  {'':8}{'':{width}}  → {entry.advice}", soft_wrap=True)


def examine() -> list[Finding]:
    """Examine versions, machine, devices, folders and extras.

    Returns
    -------
    list of Finding
        In the order in which they are shown.
    """
    with _start_jax() as child:  # takes a second, during which the first checks run
        try:
            before = [*_check_versions(), *_check_machine()]
            return [*before, *_describe_devices(child), *_check_folders(), *_check_extras()]
        finally:
            child.kill()


def _check_versions() -> Iterator[Finding]:
    """Yield the versions of Python, equivocal, and every library that it requires."""
    yield Finding("versions", "python", platform.python_version())
    libraries = [*_list_requirements("equivocal"), *_list_requirements("equivocal", "model")]
    jaxlib = (each for each in _list_requirements("jax") if each.name == "jaxlib")
    for required in (Requirement("equivocal"), *libraries, *jaxlib):
        if problem := _find_problem(required):
            advice = f"pip install '{required.name}{required.specifier}'"
            yield Finding("versions", required.name, problem, "problem", advice)
        else:
            yield Finding("versions", required.name, metadata.version(required.name))


def _check_extras() -> Iterator[Finding]:
    """Yield each optional part: present, or the command that installs it."""
    for extra, purpose in PURPOSES.items():
        if not any(map(_find_problem, _list_requirements("equivocal", extra))):
            yield Finding("extras", extra, f"present, for {purpose}")
        elif extra == "cuda" and not _has_nvidia_gpu():
            found = f"missing, and there is no NVIDIA GPU here; for {purpose}"
            yield Finding("extras", extra, found, "note")
        else:
            advice = f"pip install 'equivocal[{extra}]'"
            yield Finding("extras", extra, f"missing; for {purpose}", "note", advice)


def _list_requirements(package: str, extra: str = "") -> Iterator[Requirement]:
    """Yield what a package requires on this machine: always, or only with one of its extras."""
    try:
        texts = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return
    for required in map(Requirement, texts):
        marker = required.marker
        always = marker is None or marker.evaluate({"extra": ""})
        with_extra = marker is None or marker.evaluate({"extra": extra})
        if with_extra and always == (not extra):
            yield required


def _find_problem(required: Requirement) -> str:
    """Return why a requirement is not met; empty if it is met."""
    try:
        found = metadata.version(required.name)
    except metadata.PackageNotFoundError:
        return f"missing, {required.specifier or 'it'} is needed"
    if not required.specifier.contains(found, prereleases=True):
        return f"{found}, but {required.specifier} is needed"
    # NVIDIA's own wheels hold libraries, and no module of their name
    if not required.name.startswith("nvidia-") and not _can_import(required.name):
        return f"{found}, but it cannot be imported"
    parts = (part for extra in required.extras for part in _list_requirements(required.name, extra))
    return next(filter(None, map(_find_problem, parts)), "")


def _can_import(package: str) -> bool:
    """Return whether a package's module can be found, without importing it."""
    try:
        return util.find_spec(MODULES.get(package, package.replace("-", "_"))) is not None
    except (ImportError, ValueError):
        return False


def _check_machine() -> Iterator[Finding]:
    """Yield cores and memory."""
    yield Finding("machine", "cores", f"{count_cores()} of {os.cpu_count()}")
    total, free = measure_memory(), _measure_free_memory()
    found = format_size(total)
    if free is not None:
        found = f"{format_size(min(free, total))} free of {found}"
    if free is not None and free < LITTLE_MEMORY:
        advice = "close other programs, or use smaller settings (--quick)"
        yield Finding("machine", "memory", found, "note", advice)
    else:
        yield Finding("machine", "memory", found)


def _measure_free_memory() -> int | None:
    """Return the free bytes of this machine or its container; None if they are unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return None
    try:
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        return min(free, limit - int((group / "memory.current").read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit
        return free


def _check_folders() -> Iterator[Finding]:
    """Yield whether the folders that commands write to are writable."""
    advice = "set EQUIVOCAL_CACHE to a folder that is writable"
    yield _check_folder("cache folder", find_cache_folder, advice)
    advice = "change to another folder, or use --out elsewhere"
    yield _check_folder("current folder", Path.cwd, advice)
    named = os.environ.get("TMPDIR")  # which tempfile ignores if it is not writable
    advice = "set TMPDIR to a folder that is writable"
    yield _check_folder("temporary folder", lambda: Path(named or tempfile.gettempdir()), advice)


def _check_folder(name: str, find: Callable[[], Path], advice: str) -> Finding:
    """Try to write to a folder, or to the nearest existing one above it."""
    path: Path | None = None
    try:
        path = find().absolute()
        existing = next(above for above in (path, *path.parents) if above.exists())
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(PROBE)
            file.flush()
        room = shutil.disk_usage(existing).free
    except (OSError, ImportError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        found = f"{path or 'unknown'}: cannot be written ({reason})"
        return Finding("folders", name, found, "problem", advice)
    found = f"{path}: {format_size(room)} free" + ", created when needed" * (existing != path)
    if room < LITTLE_ROOM:
        return Finding("folders", name, found, "note", f"make room, or {advice}")
    return Finding("folders", name, found)


def _start_jax() -> "subprocess.Popen[str]":
    """Start a process that lists JAX's devices, without taking a GPU's memory for itself."""
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command, pipe = [sys.executable, "-c", LIST_DEVICES], subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, errors="replace"
    )


def _describe_devices(child: "subprocess.Popen[str]") -> list[Finding]:
    """Wait for JAX and return what it computes on, or why it does not start."""
    printed = complaint = ""
    try:
        printed, complaint = child.communicate(timeout=STARTUP_TIMEOUT)
        devices = json.loads(printed.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        ended = f"no answer within {STARTUP_TIMEOUT:.0f} seconds; exit code {child.returncode}"
        found = f"does not start: {(complaint.strip() or ended).splitlines()[-1].strip():.400}"
        named = os.environ.get("JAX_PLATFORMS")
        mend = f"JAX_PLATFORMS is {named!r}; unset it, or set it to cpu"
        advice = mend if named else "install it again: pip install --force-reinstall jax jaxlib"
        return [Finding("devices", "jax", found, "problem", advice)]
    backend = devices[0][0]
    findings = [Finding("devices", "backend", f"jax computes on {backend}")]
    for number, (kind, name, memory) in enumerate(devices):
        found = f"{name}, {format_size(memory)}" if memory else name
        findings.append(Finding("devices", f"{kind} {number}", found))
    if _has_nvidia_gpu() and backend == "cpu":
        chosen = "cuda" not in (os.environ.get("JAX_PLATFORMS") or "cuda")
        found = "unused, as JAX_PLATFORMS says" if chosen else "present, but jax does not use it"
        advice = "" if chosen else "pip install 'equivocal[cuda]'"
        findings.append(Finding("devices", "NVIDIA GPU", found, "note", advice))
    return findings


def _has_nvidia_gpu() -> bool:
    """Return whether the driver of an NVIDIA GPU is installed, whatever JAX can do with it."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
