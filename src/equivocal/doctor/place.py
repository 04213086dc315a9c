"""The machine and its folders: cores, memory, where can be written and how much fits."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from equivocal.doctor.finding import Finding, State
from equivocal.machine import available_cores, cache_folder, total_memory
from equivocal.store import format_size

__all__ = ["folders", "machine"]

LITTLE_MEMORY = 2 << 30  # the whole reproduction takes 1.83 GB at its peak (see README)
LITTLE_ROOM = 1 << 30  # a full reproduction's folder has 0.7 GiB
PROBE = bytes(1 << 16)  # a disk that is full still makes empty files


def machine() -> Iterator[Finding]:
    """Cores and memory."""
    cores, everywhere = available_cores(), os.cpu_count() or 1
    limit = f" of {everywhere}; this process may use no more" if cores < everywhere else ""
    yield Finding("machine", "cores", f"{cores}{limit}")
    total, free = total_memory(), _free_memory()
    if free is None:
        yield Finding("machine", "memory", format_size(total))
        return
    little = free < LITTLE_MEMORY
    advice = "close other programs, or use smaller settings (--quick)" if little else ""
    state = State.NOTE if little else State.OK
    free = min(free, total)
    yield Finding(
        "machine", "memory", f"{format_size(free)} free of {format_size(total)}", state, advice
    )


def _free_memory() -> int | None:
    """Bytes that could be taken, within this machine and its container; None where not known."""
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


def folders() -> Iterator[Finding]:
    """The folders that are written to."""
    named = "EQUIVOCAL_CACHE" in os.environ
    elsewhere = "set EQUIVOCAL_CACHE to a folder of your own" + (" that can be written" * named)
    yield _folder("cache folder", cache_folder, elsewhere)
    yield _folder("current folder", Path.cwd, "change to another folder, or use --out elsewhere")
    yield _folder("temporary folder", _temporary, "set TMPDIR to a folder that can be written")


def _temporary() -> Path:
    return Path(os.environ.get("TMPDIR") or tempfile.gettempdir())


def _folder(name: str, find: Callable[[], Path], advice: str) -> Finding:
    """A folder, or the nearest above it that is there, is tried by writing to it."""
    path: Path | None = None
    try:
        path = find()
        there = next(
            above for above in (path.absolute(), *path.absolute().parents) if above.exists()
        )
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(PROBE)
            file.flush()
        room = shutil.disk_usage(there).free
    except (OSError, ImportError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        found = f"{path or 'unknown'}: cannot be written ({reason})"
        return Finding("folders", name, found, State.PROBLEM, advice)
    made = "" if there == path.absolute() else ", made when needed"
    found = f"{path}: {format_size(room)} free{made}"
    if room < LITTLE_ROOM:
        return Finding("folders", name, found, State.NOTE, f"make room, or {advice}")
    return Finding("folders", name, found)
