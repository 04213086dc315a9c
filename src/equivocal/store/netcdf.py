"""The header of a netCDF-3 file, checked by hand before SciPy believes it.

    CDF 1|2, records, [dimension: name, length]*, [attribute]*, [variable: name, dimension*,
    [attribute]*, type, size, begin]*        all big-endian, names and values filled up to 4 bytes

SciPy allocates as many bytes as a name or an attribute says it has, reads variables that overlap
once for each, and takes an attribute's name for one of its own fields. Here every length must lie
within the file, the variables together must not be larger than it, and such names are refused.
Record dimensions, which we never write, are refused too.
"""

from math import prod
from pathlib import Path
from typing import BinaryIO

from equivocal.store.unreadable import UnreadableError, open_limited

__all__ = ["check_netcdf"]

DIMENSION, VARIABLE, ATTRIBUTE = 0x0A, 0x0B, 0x0C
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8}  # byte, char, short, int, float, double
HEADER_BYTES = 16 << 20  # ours have a few KB; the stimuli's units are in them
MOST_DIMENSIONS = 32  # of one variable; NumPy's own limit is 64
PRIVATE = {"_FillValue", "_Encoding"}  # written by xarray; no other name begins with a line
TAKEN = {
    *("fp", "filename", "use_mmap", "mode", "version_byte", "maskandscale", "dimensions"),
    *("variables", "close", "createDimension", "createVariable", "flush", "sync", "data"),
    *("isrec", "shape", "getValue", "assignValue", "typecode", "itemsize"),
}  # fields and methods of SciPy's classes


class _Header:
    """Reads forward, and never beyond the file or the limit of a header."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.size = size
        self._left = min(size, HEADER_BYTES)
        if self.take(3) != b"CDF" or (version := self.take(1)[0]) not in (1, 2):
            raise ValueError("it is not a netCDF-3 file")
        self.begin_bytes = 4 * version
        self.number()  # of records
        self.lengths = self._dimensions()

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self._left:
            raise ValueError("its header says more than the file holds")
        self._left -= size
        return self._file.read(size)

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "big")

    def name(self) -> str:
        size = self.number()
        return self.take(size + -size % 4)[:size].decode("utf-8")

    def count(self, tag: int) -> int:
        found, count = self.number(), self.number()
        if found != tag and (found, count) != (0, 0):
            raise ValueError("its header has its parts in no known order")
        return count

    def _dimensions(self) -> list[int]:
        found: dict[str, int] = {}
        for _ in range(self.count(DIMENSION)):
            name, length = self.name(), self.number()
            if name in found or not 1 <= length < 2**31:
                raise ValueError(f"dimension {name!r:.60} is there twice, empty or too long")
            found[name] = length
        return list(found.values())

    def attributes(self) -> None:
        for _ in range(self.count(ATTRIBUTE)):
            name, kind, count = self.name(), self.number(), self.number()
            if name in TAKEN or (name.startswith("_") and name not in PRIVATE) or not name:
                raise ValueError(f"it has an attribute called {name!r:.60}")
            if kind not in SIZES:
                raise ValueError(f"attribute {name!r:.60} has an unknown type")
            size = SIZES[kind] * count
            value = self.take(size + -size % 4)[:size]
            if name == "_Encoding" and value != b"utf-8":  # xarray would look for any codec
                raise ValueError(f"it is written in {value!r:.60} instead of utf-8")

    def variable(self) -> int:
        """Bytes of the next variable."""
        name, dimensions = self.name(), self.number()
        if dimensions > MOST_DIMENSIONS:
            raise ValueError(f"variable {name!r:.60} has {dimensions} dimensions")
        numbers = [self.number() for _ in range(dimensions)]
        self.attributes()
        kind = self.number()
        self.number()  # its size, said again
        begin = self.number(self.begin_bytes)
        if kind not in SIZES or len(set(numbers)) < dimensions:
            raise ValueError(f"variable {name!r:.60} has an unknown type or a dimension twice")
        if any(number >= len(self.lengths) for number in numbers):
            raise ValueError(f"variable {name!r:.60} has an unknown dimension")
        size = SIZES[kind] * prod(self.lengths[number] for number in numbers)
        if begin + size > self.size:
            raise ValueError(f"variable {name!r:.60} says that it has {size} bytes")
        return size


def check_netcdf(path: str | Path) -> None:
    """Refuse a file whose header cannot be true."""
    path = Path(path)
    with open_limited(path, 1 << 62) as (file, size):
        try:
            header = _Header(file, size)
            header.attributes()
            total = sum(header.variable() for _ in range(header.count(VARIABLE)))
            if total > size:
                raise ValueError(f"its variables say that they have {total} bytes together")
        except ValueError as error:  # names that are not UTF-8 among them
            raise UnreadableError(path, f"{error}; it is damaged") from None
