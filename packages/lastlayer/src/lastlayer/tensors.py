"""Safetensors files, which are not trusted: headers are checked before memory is allocated.

Libraries read the files; what they do not check is checked here: lengths of headers, types, shapes,
arrays that are larger than their file. The limits at the top may be changed.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from lastlayer.errors import UserError
from lastlayer.files import UnreadableError, format_size, open_limited
from lastlayer.machine import measure_memory

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Shapes", "add_tensor_checksum", "read_tensors", "refuse_mistakes"]

HEADER_BYTES = 32 << 20  # the header of a posterior grows by 160 bytes with each output
CHECKSUM = "sha256"  # key of the metadata of a safetensors file
FLOATS = frozenset({"F32", "F64"})

Shapes = dict[str, tuple[int, ...]]


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


@contextmanager
def refuse_mistakes(path: Path) -> Iterator[None]:
    """Turn errors raised by the content of a file into an `UnreadableError` that names the file.

    Parameters
    ----------
    path : Path
        The file whose content is read inside the `with` block.

    Returns
    -------
    context manager
        Yields nothing.

    Raises
    ------
    UnreadableError
        Where the block raises a `ValueError`, `KeyError`, `TypeError` or `OverflowError`.
    """
    try:
        yield
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UnreadableError(path, str(error).strip("'.")) from None


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
