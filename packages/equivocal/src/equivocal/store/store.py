"""A store for everything a run produces: find, verify, recompute, save, resume.

    FOLDER/NAME…                  the files of a result, anywhere in the folder
    FOLDER/records/NAME.json      {"key": KEY, "files": {"NAME.csv": SHA256, …}}

A key is a hash of everything that the result depends on (`hash_content`). A record is written after
the files it names, and all of them are written atomically. So an interrupted run resumes where it
stopped and ends with the same numbers, a folder may be copied to another machine or filled by
several, and a file that was damaged or edited is named in a warning and recomputed.

    store = Store(folder)
    table = store.load_or_make("tables/scores", key, ".csv", load=read, make=compute, save=write)

A new kind of result needs only `load`, `make` and `save`.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import lastlayer
from equivocal.store.files import compute_checksum, resolve_inside, write_text_atomically
from equivocal.store.text import read_json
from lastlayer.errors import UserError
from lastlayer.files import write_atomically

__all__ = [
    "NETWORK_CODE",
    "POSTERIOR_CODE",
    "Store",
    "hash_code",
    "hash_content",
    "hash_files",
]

RECORDS = "records"
# files and folders of the package that networks and posteriors depend on
NETWORK_CODE = ("equivocal/world", "equivocal/network", "lastlayer/seeds.py")
POSTERIOR_CODE = (*NETWORK_CODE, "lastlayer", "equivocal/beliefs.py")
KINDS = {".py", ".toml", ".csv", ".j2", ".css", ".svg", ".mplstyle"}  # of the package's own files
Result = TypeVar("Result")
_PACKAGES = {"equivocal": Path(__file__).parents[1], "lastlayer": Path(lastlayer.__file__).parent}


def hash_content(*parts: Any, code: Sequence[str]) -> str:
    """Return a short hash of values and of the code that makes a result of them.

    Parameters
    ----------
    *parts
        Values that JSON can hold; others are converted to text.
    code : sequence of str
        Files and folders of the package that the result depends on, as `hash_code` takes them:
        the module that makes it and whatever that imports.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    text = json.dumps([hash_code(*code), *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_files(*paths: Path) -> str:
    """Return a short hash of the contents of files.

    Parameters
    ----------
    *paths : Path
        The files; the hash depends on their order.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def hash_code(*parts: str) -> str:
    """Return a short hash of the package's own files.

    Statistics and drawing take seconds, so they are repeated whenever anything in the package has
    changed; networks and posteriors, which take long, when the code that makes them has.

    Parameters
    ----------
    *parts : str
        Files and folders of the package, with their data; without any, the whole package.

    Returns
    -------
    str
        16 hexadecimal digits.
    """
    places = [_PACKAGES[name] / rest for name, _, rest in (part.partition("/") for part in parts)]
    places = places or [*_PACKAGES.values()]
    files = {path for place in places for path in (place, *place.rglob("*"))}
    return hash_files(*sorted(path for path in files if path.suffix in KINDS))


class Store:
    """The results in one folder, each found by its name and a key of everything it depends on.

    Parameters
    ----------
    folder : Path
        The folder of the files and their records. The caller locks it by `hold_folder`, unless it
        is `shared`.
    shared : bool
        Whether several processes use the folder at once, as a cache: results are then made under
        the folder's lock, and a second process waits and finds them.
    """

    def __init__(self, folder: str | Path, *, shared: bool = False) -> None:
        self.folder, self._shared = Path(folder), shared
        self._checksums: dict[tuple[str, int, int], str | None] = {}  # by path, time and size

    def find_key(self, name: str) -> str | None:
        """Find the key that a finished result was made with.

        Parameters
        ----------
        name : str
            The name of the result in this folder.

        Returns
        -------
        str or None
            None where the result has no record, so it is not finished.
        """
        record = self._read_record(name)
        return None if record is None else record["key"]

    def find(self, name: str, key: str | None = None, *, warn: bool = True) -> list[Path] | None:
        """Find the files of a finished result.

        Parameters
        ----------
        name : str
            The name of the result in this folder; may contain slashes.
        key : str, optional
            The hash of everything it depends on; None accepts any key.
        warn : bool
            Whether to warn of damaged files before they are recomputed; there is never a warning
            of missing ones.

        Returns
        -------
        list of Path or None
            None where the result is missing, has another key, or is damaged.
        """
        record = self._read_record(name)
        if record is None or key not in (None, record["key"]):
            return None
        damaged = self._find_mismatches(record)
        for path in damaged:
            if warn and path.exists():
                warnings.warn(f"{path}: checksum mismatch; recomputing it.", stacklevel=2)
        return None if damaged else [self.folder / file for file in record["files"]]

    def find_damaged(self, *names: str) -> list[Path]:
        """Find files of these results that are missing or have a checksum mismatch.

        Parameters
        ----------
        *names : str
            Names of results; those that are not finished are skipped.

        Returns
        -------
        list of Path
            Their paths, whether they exist or not.
        """
        records = (record for name in names if (record := self._read_record(name)) is not None)
        return [path for record in records for path in self._find_mismatches(record)]

    def record(self, name: str, key: str, files: Iterable[Path]) -> None:
        """Record that a result is finished; its files must have been written.

        Parameters
        ----------
        name, key : str
            As in `find`.
        files : iterable of Path
            The files of the result, inside the folder.
        """
        checksums = {
            path.relative_to(self.folder).as_posix(): str(self._compute_checksum(path))
            for path in files
        }
        text = json.dumps({"key": key, "files": checksums}, indent=1, sort_keys=True) + "\n"
        write_text_atomically(self._locate_record(name), text)

    def remove(self, *names: str) -> None:
        """Remove results: their records first, then their files, then folders that are empty.

        Parameters
        ----------
        *names : str
            As in `find`.
        """
        for name in names:
            record, place = self._read_record(name), self._locate_record(name)
            place.unlink(missing_ok=True)
            for path in [place, *(self.folder / file for file in (record or {}).get("files", ()))]:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # not empty
                    path.parent.rmdir()
                    path.parent.parent.rmdir()

    def make(self, name: str, key: str, work: Callable[[], Iterable[Path]]) -> bool:
        """Make a result of several files, unless it is finished already.

        Parameters
        ----------
        name, key : str
            As in `find`.
        work : callable
            Writes the files and returns their paths.

        Returns
        -------
        bool
            Whether the work was done now.
        """
        if self._shared and self.find(name, key, warn=False) is not None:
            return False
        with self._lock_if_shared():
            if self.find(name, key) is not None:
                return False
            self.record(name, key, list(work()))
            return True

    def load_or_make(
        self,
        name: str,
        key: str,
        suffix: str,
        *,
        load: Callable[[Path], Result],
        make: Callable[[], Result],
        save: Callable[[Result, Path], object],
    ) -> Result:
        """Load a result of one file, FOLDER/NAME + suffix, or make and save it.

        Parameters
        ----------
        name, key : str
            As in `find`.
        suffix : str
            How the file's name ends, such as ".safetensors".
        load : callable
            Reads the file; after an `UnreadableError` or another `UserError` it is recomputed.
        make : callable
            Computes the result.
        save : callable
            Writes the result to a temporary path, which is renamed afterwards.

        Returns
        -------
        object
            What `load` or `make` returned.
        """
        if self._shared and (found := self._load_result(name, key, load, warn=False)) is not None:
            return found
        with self._lock_if_shared():
            if (found := self._load_result(name, key, load, warn=True)) is not None:
                return found
            made, path = make(), self.folder / f"{name}{suffix}"
            with write_atomically(path) as temporary:
                save(made, temporary)
            self.record(name, key, [path])
        return made

    def _load_result(
        self, name: str, key: str, load: Callable[[Path], Result], *, warn: bool
    ) -> Result | None:
        """Load a finished result, or return None where it must be made."""
        paths = self.find(name, key, warn=warn)
        if not paths:
            return None
        try:
            return load(paths[0])
        except UserError as error:
            if warn:
                warnings.warn(f"{str(error).rstrip('.')}; recomputing it.", stacklevel=4)
            return None

    def _lock_if_shared(self) -> AbstractContextManager[None]:
        """Lock the folder if it is shared, waiting for other processes."""
        if not self._shared:
            return nullcontext()
        from equivocal.store.locks import hold_folder

        return hold_folder(self.folder, wait=True)

    def _locate_record(self, name: str) -> Path:
        return self.folder / RECORDS / f"{name}.json"

    def _read_record(self, name: str) -> dict[str, Any] | None:
        """Read a record, which is not trusted: the files it names must lie in this folder."""
        path = self._locate_record(name)
        if not path.exists():
            return None
        try:
            record = read_json(path)
            files = {str(file): str(checksum) for file, checksum in record["files"].items()}
            for file in files:
                resolve_inside(self.folder, file, "files", links=True)
            return {"key": str(record["key"]), "files": files}
        except (ValueError, KeyError, TypeError, AttributeError):  # a UserError is a ValueError
            warnings.warn(f"{path} is damaged, so its result counts as unfinished.", stacklevel=3)
            return None

    def _find_mismatches(self, record: dict[str, Any]) -> list[Path]:
        files = ((self.folder / name, checksum) for name, checksum in record["files"].items())
        return [path for path, checksum in files if self._compute_checksum(path) != checksum]

    def _compute_checksum(self, path: Path) -> str | None:
        """Compute the checksum of a file, or look it up if the file has not changed since."""
        try:
            about = path.stat()
        except OSError:
            return None
        state = (str(path), about.st_mtime_ns, about.st_size)
        if state not in self._checksums:
            self._checksums[state] = compute_checksum(path)
        return self._checksums[state]
