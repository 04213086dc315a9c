"""Weights and particles in safetensors files, which hold numbers and a header and no code.

The library itself checks that the arrays of the header fill the file exactly, neither more nor
less, before it allocates anything. What it leaves open is checked here: the length of the header
(it accepts 100 MB), types of numbers, shapes that were not expected, and whether the file is
larger than this machine's memory. A file that carries a checksum in its header
(`add_tensor_checksum`) is refused where a bit of it has changed.
"""

import hashlib
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from equivocal.machine import total_memory
from equivocal.store.unreadable import UnreadableError, format_size, open_limited

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SEAL", "Shapes", "add_tensor_checksum", "read_tensors"]

HEADER_BYTES = 32 << 20  # a posterior's grows by 160 bytes with each output
SEAL = "sha256"  # in the metadata
FLOATS = {"F32": 4, "F64": 8}

Shapes = dict[str, tuple[int, ...]]


def read_tensors(
    path: str | Path,
    check: Callable[[dict[str, str], Shapes], None] = lambda _about, _shapes: None,
    names: Sequence[str] | None = None,
) -> tuple[dict[str, str], "dict[str, np.ndarray]"]:
    """Metadata and arrays; `check` sees metadata and shapes before any array is read, and raises.

    `names` are the arrays that are wanted, where they are there; by default all of them.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    _check_sizes(path)
    try:
        with safe_open(path, framework="numpy") as file:
            about: dict[str, str] = file.metadata() or {}
            wanted = [name for name in file.keys() if names is None or name in names]  # noqa: SIM118
            slices = {name: file.get_slice(name) for name in wanted}
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            _check_arrays(path, shapes, {name: part.get_dtype() for name, part in slices.items()})
            check(about, shapes)
            arrays = {name: file.get_tensor(name) for name in wanted}
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from None
    except MemoryError:  # the library maps the whole file, which a limit of the process may forbid
        raise UnreadableError(path, "it needs more memory than this process may take") from None
    except SafetensorError as error:
        raise UnreadableError(path, str(error).rstrip(".")) from None
    if SEAL in about and add_tensor_checksum(about, arrays) != about:
        raise UnreadableError(path, "it is not as it was written")
    return about, arrays


def add_tensor_checksum(about: dict[str, str], arrays: "dict[str, np.ndarray]") -> dict[str, str]:
    """Metadata for a file of these arrays, with the checksum of both."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape};".encode())
        digest.update(array.data)
    for name, text in sorted(about.items()):
        if name != SEAL:
            digest.update(f"{name} {text};".encode())
    return about | {SEAL: digest.hexdigest()}


def _check_sizes(path: Path) -> None:
    with open_limited(path, total_memory()) as (file, size):
        length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise UnreadableError(path, "it is shorter than its header says; it is damaged")
    if length > HEADER_BYTES:
        most = format_size(HEADER_BYTES)
        why = f"its header has {format_size(length)}, and at most {most} are read"
        raise UnreadableError(path, why)


def _check_arrays(path: Path, shapes: Shapes, dtypes: dict[str, str]) -> None:
    for name, dtype in dtypes.items():
        if dtype not in FLOATS:
            why = f"array {name!r:.60} holds {dtype}; only F32 and F64 are read"
            raise UnreadableError(path, why)
        if len(shapes[name]) > 8 or prod(shapes[name]) == 0:
            raise UnreadableError(path, f"array {name!r:.60} is empty or has too many dimensions")
