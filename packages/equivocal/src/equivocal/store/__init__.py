"""Results on disk: find, verify, save, lock and resume them; readers of untrusted files.

    store       a store for everything a run produces: find, verify, recompute, save, resume
    files       atomic writing, checksums, names of files, labelled arrays (netCDF-4)
    locks       one run at a time in a folder
    folders     training runs, earlier results and foreign files in a folder
    text        TOML, JSON and CSV, with limits on size and depth

Nothing here executes what it reads. A file that is refused raises an `UnreadableError`.
"""

from equivocal.store.files import read_dataset, write_dataset
from equivocal.store.store import Store, hash_content, hash_files
from equivocal.store.text import (
    parse_json,
    parse_toml,
    read_cells,
    read_json,
    read_table,
    read_text,
    read_toml,
    split_pair,
)

__all__ = [
    "Store",
    "hash_content",
    "hash_files",
    "parse_json",
    "parse_toml",
    "read_cells",
    "read_dataset",
    "read_json",
    "read_table",
    "read_text",
    "read_toml",
    "split_pair",
    "write_dataset",
]
