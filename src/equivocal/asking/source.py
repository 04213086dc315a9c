"""Which network is asked, and where what belongs to it is kept.

    CACHE/WORLD-KEY/run/                         the default network of a world, as `train` saves it
    CACHE/WORLD-KEY/converged_1.safetensors      its ensembles, made when first asked for; see
    CACHE/WORLD-KEY/path_1.safetensors           `equivocal.asking.ensembles`

CACHE is the user's cache folder; `EQUIVOCAL_CACHE` names another. KEY is a hash of what the files
depend on: the version of the package, the world, the settings and, for a run of your own, its
weights and its training.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from equivocal import __version__
from equivocal.asking.settings import DEFAULT, AskSettings
from equivocal.errors import UserError
from equivocal.machine import cache_folder
from equivocal.store import UnreadableError, parse_toml, read_text
from equivocal.store.files import compute_checksum, has_checksum_mismatch
from equivocal.world import World

__all__ = ["Source", "altered_file", "cache_folder"]

DEFAULT_WORLD = "paper"


@dataclass(frozen=True, eq=False)
class Source:
    """A network of a run, or the default network of a world."""

    world: World
    run: Path | None  # None: the default network
    network: int
    settings: AskSettings
    folder: Path  # in the cache; named by a hash of what its files depend on

    def _identity(self) -> tuple[Path, str, Path | None, int]:
        # spellings do not matter to the files, but to what is understood: hence the world's text
        return self.folder, self.world.text, self.run, self.network

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    @classmethod
    def choose(
        cls,
        *,
        world: World | str | Path | None = None,
        run: str | Path | None = None,
        network: int = 0,
        settings: AskSettings = DEFAULT,
    ) -> "Source":
        """A network of a run, or else of a world (`paper` unless told otherwise)."""
        if run is None:
            if network != 0:
                raise UserError(f"network {network!r} needs a run to be named beside it.")
            chosen = (
                world
                if isinstance(world, World)
                else World.load(DEFAULT_WORLD if world is None else world)
            )
            return cls(chosen, None, 0, settings, _folder(chosen, {}, settings))
        if world is not None:
            raise UserError(f"the run {run} brings its own world; give a run or a world, not both.")
        if not isinstance(run, str | Path) or not str(run):
            raise UserError(f"run is the folder of a trained run, got {run!r}.")
        if isinstance(network, bool) or not isinstance(network, int) or network < 0:
            raise UserError(f"network is a whole number, 0 or more, got {network!r}.")
        return cls._of_run(Path(run), network, settings)

    @classmethod
    def _of_run(cls, run: Path, network: int, settings: AskSettings) -> "Source":
        settings_file = _existing(run, run / "run.toml")
        world = World.load(_existing(run, run / "world.toml"))
        try:
            content = _content(settings_file)
            training = content["training"]
            count = int(training["networks"])
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise UserError(
                f"{settings_file} is damaged ({error}); train again into another folder."
            ) from None
        if network >= count:
            raise UserError(f"{run} holds networks 0 to {count - 1}; there is no {network}.")
        weights = _existing(run, _network_path(run, network))
        if altered := altered_file(run, network):
            raise UserError(
                f"{altered} cannot be read (it is not as it was written); train again into "
                "another folder."
            )
        made_of = {"network": compute_checksum(weights), "training": training}
        return cls(world, run, network, settings, _folder(world, made_of, settings))

    @property
    def run_folder(self) -> Path:
        """Where the network lies, or will lie once it is trained."""
        return self.folder / "run" if self.run is None else self.run

    @property
    def network_path(self) -> Path:
        """The file of its weights."""
        return _network_path(self.run_folder, self.network)

    @property
    def is_trained(self) -> bool:
        """Whether there is a network."""
        return (self.run_folder / "run.toml").exists()

    @property
    def name(self) -> str:
        """For people."""
        if self.run is None:
            return f"the default network of world {self.world.name}"
        return f"network {self.network} of {self.run}"


def _network_path(run: Path, network: int) -> Path:
    return run / "networks" / f"{network:02d}.safetensors"


def _folder(world: World, made_of: Mapping[str, object], settings: AskSettings) -> Path:
    content = {"version": __version__, "world": world.fingerprint, "settings": asdict(settings)}
    key = hashlib.sha256(json.dumps(content | dict(made_of), sort_keys=True).encode())
    plain = "".join(letter for letter in world.name if letter.isalnum())[:24]
    return cache_folder() / f"{plain}-{key.hexdigest()[:16]}"


def altered_file(run: Path, network: int) -> Path | None:
    """The first file behind a network that is not as it was written, if there is one."""
    try:
        sums = dict(_content(run / "run.toml").get("checksums", {}))
    except ValueError:
        return run / "run.toml"
    for path in (run / "world.toml", _network_path(run, network)):
        known = sums.get(path.relative_to(run).as_posix())  # an older run has none
        if known is not None and compute_checksum(path) != known:
            return path
    return None


def _content(path: Path) -> dict[str, Any]:
    text = read_text(path)
    if has_checksum_mismatch(text):
        raise UnreadableError(path, "it is not as it was written")
    return parse_toml(text)


def _existing(run: Path, path: Path) -> Path:
    if not path.is_file():
        raise UserError(
            f"{path} is missing; `equivocal train --out {run}` (or `reproduce`) writes it."
        )
    return path
