"""Files that may come from strangers: their size and shape are checked before they are believed.

    text        TOML, JSON and CSV, within a size and a depth
    tensors     safetensors: header first, arrays once their shapes are what was expected
    netcdf      netCDF-3: the header, by hand, before anything is allocated for it
    paths       names in files that must not lead out of a folder

Nothing here runs what it reads. Whatever is refused is refused with an `UnreadableError`.
"""

from equivocal.store.netcdf import check_netcdf
from equivocal.store.paths import is_plain_name, resolve_inside
from equivocal.store.tensors import SEAL, Shapes, add_tensor_checksum, read_tensors
from equivocal.store.text import (
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
from equivocal.store.unreadable import UnreadableError

__all__ = [
    "SEAL",
    "SETTINGS_BYTES",
    "TABLE_BYTES",
    "Shapes",
    "UnreadableError",
    "add_tensor_checksum",
    "check_netcdf",
    "is_plain_name",
    "parse_json",
    "parse_toml",
    "read_cells",
    "read_json",
    "read_table",
    "read_tensors",
    "read_text",
    "read_toml",
    "resolve_inside",
]
