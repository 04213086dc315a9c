"""Safe reading and writing of single files: atomic writes, checksums, limits on untrusted files.

`open_limited` checks a file's kind and its size and raises an `UnreadableError` if either is wrong;
each reader sets its own limit of size. `read_tensors` reads safetensors files, whose library does
not check all that it should: lengths of headers, types, shapes, arrays larger than their file.

A file is written under a temporary name in the same folder and then renamed. A killed process can
leave such a temporary file.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lastlayer.errors import UserError
from lastlayer.machine import measure_memory

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Shapes",
    "UnreadableError",
    "add_tensor_checksum",
    "explain_write_errors",
    "open_limited",
    "read_tensors",
    "write_atomically",
]

FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # Windows has no quota
HEADER_BYTES = 32 << 20  # the header of a posterior grows by 160 bytes with each output
CHECKSUM = "sha256"  # key of the metadata of a safetensors file
FLOATS = frozenset({"F32", "F64"})
Shapes = dict[str, tuple[int, ...]]


class UnreadableError(UserError):
    """A file that is refused; callers with better advice build their message from `reason`."""

    def __init__(self, path: str | Path, reason: str, advice: str = "") -> None:
        self.reason = reason
        way_out = f"; {advice}" if advice else ""
        super().__init__(f"cannot read {path!s:.200}: {reason:.300}{way_out}.")


@contextmanager
def open_limited(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open an ordinary file of at most `most` bytes, and yield it together with its size.

    Pipes and devices, which could be read for ever, are refused without being opened.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError(path, "it is not an ordinary file", "give the path of a file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                why = f"it has {format_size(size)}, and at most {format_size(most)} are read"
                raise UnreadableError(path, why, "give a smaller file")
            yield file, size
    except FileNotFoundError:
        raise UnreadableError(path, "it is not there", "check its name and folder") from None
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from None
    except ValueError as error:
        if isinstance(error, UserError) or "null" not in str(error):
            raise
        raise UnreadableError(repr(path), "its name holds a NUL character") from None


def format_size(size: int) -> str:
    """Format a number of bytes for people.

    Parameters
    ----------
    size : int
        The number of bytes.

    Returns
    -------
    str
        At most three digits, and a binary unit.

    Examples
    --------
    >>> format_size(1 << 20), format_size(1_500_000_000), format_size(12)
    ('1 MiB', '1.4 GiB', '12 bytes')
    """
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g}"[:4].rstrip(".") + f" {name}"
    return f"{size} bytes"


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces `path` if the block succeeds.

    A killed process leaves at most a hidden `.NAME.XXXX.tmp`, never half of `path`. The block
    should do nothing but write: an `OSError` in it is reported as a failure to write.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a folder or a device must not be replaced by a file
        raise UserError(f"cannot write to {path}: it is not an ordinary file; choose another name.")
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}.tmp"
    try:  # begins before the file exists, since Ctrl-C may come while it is being created
        with explain_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(exist_ok=False)
            mode = temporary.stat().st_mode
            yield temporary
            temporary.chmod(mode)  # safetensors makes files that only their owner may read
            # without this, a power failure may leave an empty file under the new name
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):  # fails on a disk that became read-only, which was reported above
            temporary.unlink(missing_ok=True)


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system that keep a file from being written into a `UserError`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # safetensors has an error type of its own, with the system's number: "… (os error 28)"
        wrapped = re.search(r"\(os error (\d+)\)", str(error))
        if not isinstance(error, OSError) and wrapped is None:
            raise
        number = int(wrapped[1]) if wrapped else getattr(error, "errno", None)
        reason = str(error) if number is None else os.strerror(number)
        room = "make room, or " if number in FULL else ""
        way_out = f"{room}choose another place"
        raise UserError(f"cannot write to {path}: {reason}; {way_out}.") from None


def read_tensors(
    path: str | Path,
    check: Callable[[dict[str, str], Shapes], None] = lambda _about, _shapes: None,
    names: Sequence[str] | None = None,
    *,
    finite: bool = False,
    kinds: frozenset[str] = FLOATS,
) -> tuple[dict[str, str], "dict[str, np.ndarray]"]:
    """Read the metadata and the arrays of a safetensors file.

    Parameters
    ----------
    path : str or Path
        The file.
    check : callable
        Called with the metadata and the shapes before any array is read; may raise an error.
    names : sequence of str, optional
        The arrays to read, if the file has them; by default all of them.
    finite : bool
        Whether every number must be finite.
    kinds : set of str
        The types of numbers that are accepted, as the format calls them.

    Returns
    -------
    metadata : dict
        The text values of the file's header.
    arrays : dict
        The arrays by name.

    Raises
    ------
    UnreadableError
        For a file that is damaged, has a checksum mismatch, or does not fit into memory.
    """
    import numpy as np
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    _check_header(path)
    try:
        with safe_open(path, framework="numpy") as file:
            about: dict[str, str] = file.metadata() or {}
            wanted = [name for name in file.keys() if names is None or name in names]  # noqa: SIM118
            slices = {name: file.get_slice(name) for name in wanted}
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            for name, part in slices.items():
                _check_array(path, name, shapes[name], part.get_dtype(), kinds)
            check(about, shapes)
            arrays = {name: file.get_tensor(name) for name in wanted}
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from None
    except MemoryError:  # the library maps the whole file, which may exceed a limit of the process
        raise UnreadableError(path, "it needs more memory than this process may take") from None
    except SafetensorError as error:
        raise UnreadableError(path, str(error).rstrip(".")) from None
    if finite and not all(np.isfinite(array).all() for array in arrays.values()):
        raise UnreadableError(path, "a weight is not a number")
    if CHECKSUM in about and add_tensor_checksum(about, arrays) != about:
        raise UnreadableError(path, "checksum mismatch")
    return about, arrays


def add_tensor_checksum(about: dict[str, str], arrays: "dict[str, np.ndarray]") -> dict[str, str]:
    """Return metadata for a file of these arrays, with a checksum of both.

    Parameters
    ----------
    about : dict
        The metadata; a checksum in it is replaced.
    arrays : dict
        The arrays that the file will hold.

    Returns
    -------
    dict
        The metadata and the checksum.
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(array.data)
    for name, text in sorted(about.items()):
        if name != CHECKSUM:
            digest.update(f"{name} {text};".encode())
    return about | {CHECKSUM: digest.hexdigest()}


def _check_header(path: Path) -> None:
    """Refuse a header so long that parsing it would take 100 MB, and a file larger than memory."""
    with open_limited(path, measure_memory()) as (file, size):
        length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise UnreadableError(path, "it is shorter than its header says; it is damaged")
    if length > HEADER_BYTES:
        most = format_size(HEADER_BYTES)
        why = f"its header has {format_size(length)}, and at most {most} are read"
        raise UnreadableError(path, why)


def _check_array(
    path: Path, name: str, shape: tuple[int, ...], dtype: str, kinds: frozenset[str]
) -> None:
    """Refuse an array of a type or shape that no file of this package has."""
    if dtype not in kinds:
        read = " and ".join(sorted(kinds))
        raise UnreadableError(path, f"array {name!r:.60} holds {dtype}; only {read} are read")
    if len(shape) > 8 or prod(shape) == 0:
        raise UnreadableError(path, f"array {name!r:.60} is empty or has too many dimensions")
