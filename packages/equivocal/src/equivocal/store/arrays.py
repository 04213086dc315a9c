"""Untrusted files of numbers: safetensors (weights, particles) and netCDF-3 (activations).

Neither format holds code. Libraries read the files; what they do not check is checked here before
memory is allocated: lengths of headers, types, shapes, arrays that are larger than their file. The
limits at the top may be changed.
"""

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lastlayer.files import UnreadableError, open_limited
from lastlayer.machine import measure_memory

if TYPE_CHECKING:
    from scipy.io import netcdf_file


NETCDF_HEADER_BYTES = 16 << 20  # those of activations have a few KB, names of units among them
ATTRIBUTES = {"_FillValue", "_Encoding"}  # written by xarray; other private names are refused
# attributes of SciPy's own objects, which an attribute of the file would replace
FIELDS = {
    *("fp", "filename", "use_mmap", "mode", "version_byte", "maskandscale"),
    *("dimensions", "variables", "data"),
}


def check_netcdf(path: str | Path) -> None:
    """Reject a netCDF-3 file with an invalid header before its data are read.

    SciPy reads the header here, from a file object that never returns more bytes than the file has,
    and maps the data, so that a variable that does not fit into the file is an error and takes no
    memory.

    Parameters
    ----------
    path : str or Path
        The file.

    Raises
    ------
    UnreadableError
        For a damaged or hostile file.
    """
    path = Path(path)
    with open_limited(path, measure_memory()) as (file, size):
        problem = _find_netcdf_problem(file, size)
    if problem:
        raise UnreadableError(path, f"{problem}; it is damaged")


def _find_netcdf_problem(file: BinaryIO, size: int) -> str:
    """Return what is wrong with a netCDF file, or an empty text."""
    from scipy.io import netcdf_file

    class CheckedFile(netcdf_file):
        """Keeps attributes of the file from replacing those of SciPy's own object."""

        def _read_att_array(self) -> dict[str, Any]:
            found: dict[str, Any] = super()._read_att_array()  # type: ignore[misc]
            for name, value in found.items():
                if hasattr(netcdf_file, name) or name in FIELDS or not _is_plain(name):
                    raise ValueError(f"it has an attribute called {name!r:.60}")
                if name == "_Encoding" and value != b"utf-8":  # xarray would look for any codec
                    raise ValueError(f"it is written in {value!r:.60} instead of utf-8")
            return found

    try:
        with CheckedFile(_BoundedFile(file, size), mmap=True) as content:
            return _find_oversize(content, size)
    except Exception as error:  # SciPy raises errors of any kind on a damaged header
        return str(error) or type(error).__name__


def _find_oversize(content: "netcdf_file", size: int) -> str:
    """Return what is wrong with the shapes of variables, which could overlap in the file."""
    if any(length is None or length < 1 for length in content.dimensions.values()):
        return "a dimension is empty or has no fixed length"
    total = 0
    for name, variable in content.variables.items():
        if len(set(variable.dimensions)) < len(variable.dimensions):
            return f"variable {name!r:.60} has a dimension twice"
        total += variable.itemsize() * prod(variable.shape)
    return f"its variables have {total} bytes together" if total > size else ""


def _is_plain(name: str) -> bool:
    """Return whether the name of an attribute is neither empty nor private."""
    return bool(name) and (name[0] != "_" or name in ATTRIBUTES)


class _BoundedFile:
    """A file that raises an error where more is read than it has or than a header may have."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, min(size, NETCDF_HEADER_BYTES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int) -> bytes:
        self._left -= size
        if size < 0 or self._left < 0:
            raise ValueError("its header claims more than the file holds")
        return self._file.read(size)
