"""One run at a time in a folder.

The operating system holds the lock (`flock`, through the library `filelock`), so it is released as
soon as its process ends, however it ends. Meanwhile the folder has two hidden files:
`.equivocal.lock`, which is locked, and `.equivocal.json`, which describes the process that holds
the lock. A run that ends removes both; files left by a killed run have no effect and are reused.
"""

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from equivocal.progress import announce
from equivocal.store.files import ensure_writable, remove_orphans, write_text_atomically
from lastlayer.errors import UserError
from lastlayer.files import explain_write_errors

__all__ = ["hold_folder"]

LOCK, HOLDER = ".equivocal.lock", ".equivocal.json"
MOMENT = 0.2  # seconds to try; a single attempt could fail while the other run is just ending
OURS = ("equivocal", "__main__.py")  # the command, and `python -m equivocal`


@contextmanager
def hold_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder for as long as the block runs.

    Temporary files that a killed run left there are removed first, up to four levels deep.

    Parameters
    ----------
    folder : Path
        Created if needed.
    wait : bool
        Whether to wait for another run that holds the folder.

    Raises
    ------
    UserError
        Where another run, which is named, holds the folder, or the folder cannot be written to.
    """
    ensure_writable(folder)
    lock = FileLock(folder / LOCK)
    try:
        try:
            _acquire(lock, folder, wait=wait)
            remove_orphans(folder)
            write_text_atomically(folder / HOLDER, json.dumps(_describe_process(), indent=1) + "\n")
            yield
        finally:
            _release(lock, folder)
    except KeyboardInterrupt:  # may have come while the folder was being released
        _release(lock, folder)
        raise


def _release(lock: FileLock, folder: Path) -> None:
    """Remove the two files and release the folder, unless another run holds it.

    The files are removed while the lock is held: a process that has opened the lock file but not
    locked it yet finds it unlinked, and starts over with a new one. Windows refuses to remove a
    locked file; there, `filelock` removes it.
    """
    if not lock.is_locked:
        # after Ctrl-C in `_acquire` or in this function, the lock file may still exist
        lock = FileLock(folder / LOCK)
        with suppress(Timeout, OSError):
            if folder.is_dir():
                lock.acquire(timeout=0)
    if lock.is_locked:
        for name in (HOLDER, LOCK):
            with suppress(OSError):
                (folder / name).unlink(missing_ok=True)
        lock.release()


def _acquire(lock: FileLock, folder: Path, *, wait: bool) -> None:
    """Take the lock, at once or after waiting."""
    with explain_write_errors(folder):
        try:
            lock.acquire(timeout=MOMENT)
        except Timeout:
            if not wait:
                raise UserError(
                    f"{folder} is in use by {_describe_holder(folder)}; wait until that has ended, "
                    "stop it, or choose another folder."
                ) from None
            announce(f"waiting for {_describe_holder(folder)}")
            lock.acquire()


def _describe_process() -> dict[str, str | int]:
    """Describe this process, for the error message of a run that finds the folder in use."""
    program, *arguments = sys.argv or ["python"]
    name = "equivocal" if Path(program).name in OURS else Path(program).name
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join([name, *arguments]),
        "since": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
    }


def _describe_holder(folder: Path) -> str:
    """Describe the process that holds a folder, or return "another run" if that is not known."""
    try:
        holder = json.loads((folder / HOLDER).read_text(encoding="utf-8"))
        who = f"process {int(holder['process'])} on {holder['host']!s:.80}"
        return f"{who} (`{holder['command']!s:.200}`, since {holder['since']!s:.40})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another run"  # has only just begun, or just ended
