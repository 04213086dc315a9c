"""Files that may come from strangers: their size and shape are checked before they are believed.

    text        TOML, JSON and CSV, within a size and a depth
    tensors     safetensors: header first, arrays once their shapes are what was expected
    netcdf      netCDF-3: the header, by hand, before anything is allocated for it
    paths       names in files that must not lead out of a folder

Nothing here runs what it reads. Whatever is refused is refused with an `UnreadableError`.
"""

from equivocal.reading.errors import UnreadableError
from equivocal.reading.netcdf import check_netcdf
from equivocal.reading.paths import inside, is_plain_name
from equivocal.reading.tensors import SEAL, Shapes, read_tensors, sealed_tensors
from equivocal.reading.text import (
    SETTINGS_BYTES,
    TABLE_BYTES,
    parse_json,
    parse_toml,
    read_cells,
    read_json,
    read_table,
    read_text,
    read_toml,
)

__all__ = [
    "SEAL",
    "SETTINGS_BYTES",
    "TABLE_BYTES",
    "Shapes",
    "UnreadableError",
    "check_netcdf",
    "inside",
    "is_plain_name",
    "parse_json",
    "parse_toml",
    "read_cells",
    "read_json",
    "read_table",
    "read_tensors",
    "read_text",
    "read_toml",
    "sealed_tensors",
]
