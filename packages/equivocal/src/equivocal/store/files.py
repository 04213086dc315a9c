"""What a run needs of single files: names that are safe, orphans, checksums, labelled arrays.

Files are written and untrusted ones opened by `lastlayer.files`. Names in untrusted files are
checked here before they lead anywhere.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from lastlayer.errors import UserError
from lastlayer.files import UnreadableError, explain_write_errors, write_atomically

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "compute_checksum",
    "ensure_writable",
    "is_plain_name",
    "read_dataset",
    "refuse_mistakes",
    "remove_orphans",
    "resolve_inside",
    "write_dataset",
    "write_text_atomically",
]

# Names of temporary files: .NAME.0123abcd.tmp here, .tmpAbC123 (safetensors), .tmpabc_1234 (Python)
ORPHAN = re.compile(r"\..+\.[0-9a-f]{8}\.tmp|\.tmp([A-Za-z0-9]{6}|[a-z0-9_]{8})")
DEPTH = 4  # how many levels of folders a run makes in its own folder


def resolve_inside(folder: str | Path, name: str, where: str, *, links: bool = False) -> Path:
    """Return the path that a name in an untrusted file refers to, which must lie in `folder`.

    Paths given on the command line are trusted and are not checked here.

    Parameters
    ----------
    folder : str or Path
        Where the file that contains the name is.
    name : str
        The name, as written there.
    where : str
        What messages call the setting.
    links : bool
        Whether a symbolic link may lead out of the folder.

    Returns
    -------
    Path
        The path, which need not exist.

    Raises
    ------
    UserError
        For an absolute path, a `..`, a link that leads out of the folder, or no name at all.
    """
    folder, written = Path(folder), PureWindowsPath(name)  # reads both / and \, and drives
    outside = bool(written.anchor) or ".." in written.parts or Path(name).is_absolute()
    try:
        path = folder / name
        path.exists()
        leaves = not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # a name too long, a link to itself, a NUL
        raise UserError(f"{where} = {name!r:.80} cannot be looked up; rename the file.") from None
    if not name or outside or (leaves and not links):
        why = "leads out of its folder" if name else "names no file"
        raise UserError(
            f"{where} = {name!r:.200} {why}; put the file itself beside the one that names it, or "
            "give its path on the command line."
        )
    return path


def is_plain_name(name: str) -> bool:
    """Return whether a name can be part of a file's name: one line, no slashes, not long.

    Parameters
    ----------
    name : str
        The name, of unknown origin.

    Returns
    -------
    bool
        False for an empty name, and for one with control characters.

    Examples
    --------
    >>> is_plain_name("reversal"), is_plain_name("a/../../b"), is_plain_name("")
    (True, False, False)
    """
    signs = {"/", "\\", ":"}
    return 0 < len(name.encode("utf-8", "replace")) <= 100 and not any(
        letter in signs or unicodedata.category(letter).startswith("C") for letter in name
    )


def ensure_writable(directory: str | Path) -> None:
    """Create a folder and check that it can be written to, before work on its content begins."""
    directory = Path(directory)
    with explain_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory, prefix=".tmp"):  # has no name, where the system allows it
            pass


def write_text_atomically(path: str | Path, text: str) -> None:
    """Write text (UTF-8) so that `path` is never half-written."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_orphans(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder or up to four levels below it.

    No other process may be writing there; `equivocal.store.locks` ensures that.
    """
    for depth in range(DEPTH + 1):
        for file in folder.glob("*/" * depth + ".*"):
            if ORPHAN.fullmatch(file.name) and file.is_file() and not file.is_symlink():
                file.unlink(missing_ok=True)


def compute_checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


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


def read_dataset(path: str | Path) -> "xr.Dataset":
    """Read a dataset from netCDF-4, which is HDF5 and holds numbers and texts, and no code.

    Raises
    ------
    UnreadableError
        Where the file is missing or damaged.
    """
    import xarray as xr

    try:
        # without the encoding, what is made of it is written as if it had just been made
        return xr.load_dataset(path, engine="h5netcdf").drop_encoding()
    except Exception as error:  # h5py raises errors of many kinds on a damaged file
        raise UnreadableError(Path(path), f"it is not a netCDF file ({error})") from None


def write_dataset(dataset: "xr.Dataset", path: str | Path) -> None:
    """Write a dataset; the same content gives the same bytes."""
    dataset.to_netcdf(path, engine="h5netcdf")
