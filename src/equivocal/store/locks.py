"""One run at a time in a folder.

The operating system holds the lock (`flock`, by the library `filelock`), so that it is free the
moment its process ends, however it ends. Two hidden files stand in the folder meanwhile:
`.equivocal.lock`, which is locked, and `.equivocal.json`, which says by whom. A run that ends
removes both; those that a killed run leaves mean nothing and are used again.
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

from equivocal.errors import UserError
from equivocal.progress import announce
from equivocal.store import files

__all__ = ["hold_folder"]

LOCK, HOLDER = ".equivocal.lock", ".equivocal.json"
MOMENT = 0.2  # seconds; one look could fall into the other's end and refuse a folder that is free
OURS = ("equivocal", "__main__.py")  # the command, and `python -m equivocal`


@contextmanager
def hold_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a folder for as long as the block runs.

    Temporary files that a killed run left there are removed first, up to four levels deep.

    Parameters
    ----------
    folder : Path
        Is made if needed.
    wait : bool
        Whether to wait for another run that holds the folder.

    Raises
    ------
    UserError
        Where another run holds the folder, which is named; or where it cannot be written to.
    """
    files.ensure_writable(folder)
    lock = FileLock(folder / LOCK)
    try:
        try:
            _acquire(lock, folder, wait=wait)
            files.remove_orphans(folder)
            files.write_text_atomically(
                folder / HOLDER, json.dumps(_describe_process(), indent=1) + "\n"
            )
            yield
        finally:
            _release(lock, folder)
    except KeyboardInterrupt:  # it may have come while the folder was being released
        _release(lock, folder)
        raise


def _release(lock: FileLock, folder: Path) -> None:
    """Remove the two files and release the folder, unless another run holds it.

    The files go while the lock is held: whoever has opened one but not locked it yet finds it
    unlinked, and starts over with a new one. Windows refuses, and the lock removes it there.
    """
    if not lock.is_locked:
        # Ctrl-C while the lock was being taken, or here: its file may be there
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
    with files.explain_write_errors(folder):
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
    """Describe this process for those who find the folder in use."""
    program, *arguments = sys.argv or ["python"]
    name = "equivocal" if Path(program).name in OURS else Path(program).name
    return {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "command": shlex.join([name, *arguments]),
        "since": datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
    }


def _describe_holder(folder: Path) -> str:
    """Describe the process that holds a folder, as far as that can be read."""
    try:
        holder = json.loads((folder / HOLDER).read_text(encoding="utf-8"))
        who = f"process {int(holder['process'])} on {holder['host']!s:.80}"
        return f"{who} (`{holder['command']!s:.200}`, since {holder['since']!s:.40})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another run"  # it has only just begun, or just ended
