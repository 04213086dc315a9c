"""Which networks answer, with which settings, and where their files are cached.

    CACHE/WORLD-KEY/run/                          the default networks of a world, as `train` saves
    CACHE/WORLD-KEY/converged_1_0.safetensors     ensembles by prior variance and network, computed
    CACHE/WORLD-KEY/path_1_0.safetensors          when first asked for (`asking.posteriors`)

CACHE is the user's cache folder; `EQUIVOCAL_CACHE` names another. KEY is a hash of everything the
networks depend on: the code that trains them, the world, the settings and, for a run of the user's
own, its weights and its training. So a changed number makes new files beside the old ones. The
record of an ensemble has the hash of the code that samples it, too.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from equivocal.machine import find_cache_folder
from equivocal.store import read_toml
from equivocal.store.files import compute_checksum
from equivocal.store.folders import check_run, find_runs, locate_network
from equivocal.store.store import NETWORK_CODE, hash_content
from equivocal.world import World
from lastlayer.errors import UserError, join_names
from lastlayer.files import read_tensors

FORMAT = "equivocal-networks-1"
KINDS = frozenset({"F16", "F32", "I8", "U8"})
FOLDER = resources.files("equivocal.asking") / "networks"
CONVERGED = "converged"  # in place of a step: the converged posterior
PAPER_STEP = 17  # of the paper's sampler: "τ = 17 discrete time-steps", §3
PAPER_PAIR = ("during dinner, the woman eats the pizza", "during dinner, the pizza eats the woman")
DEFAULT_WORLD = "slips"  # where a reversed sentence has a true answer


# sizes as in the paper; three networks, so that the doubt between them is known; the other settings
# are the defaults of `TrainingSettings`
TRAINING = {"networks": 3, "sentences": 10_000, "epochs": 60, "hidden": 100, "gestalt": 100}


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """Settings of the default networks and of the ensembles; the paper's where it names them.

    Parameters
    ----------
    training : dict
        Settings of the default networks by name, as `TrainingSettings` takes them.
    prior_variances : tuple of float
        The prior variances that can be asked for.
    prior_variance : float
        The one that is used unless another is asked for.
    kept_steps : tuple of int
        Steps of the paper's sampler that are kept where a posterior is made here: 0 is the prior,
        and the paper stops at 17. The networks of the package have fewer (`Source.steps`).
    dropout_rate : float
        ρ of the paper's sampler, as in the preset `paper`; it runs with infinitely many particles.
    tolerance : float
        When the posterior counts as converged, in posterior standard deviations.
    """

    training: dict[str, int] = field(default_factory=TRAINING.copy)
    prior_variances: tuple[float, ...] = (0.01, 1.0, 5.0)
    prior_variance: float = 1.0
    kept_steps: tuple[int, ...] = (0, 1, 2, 3, 4, 8, 12, 17, 25, 40, 60)
    dropout_rate: float = 0.3
    tolerance: float = 0.01


DEFAULT = AskSettings()


@dataclass(frozen=True)
class Source:
    """One network of a run, several of a folder together, or the default networks of a world."""

    world: World = field(compare=False)
    spellings: str = field(repr=False)  # the world's text: it changes parsing, though not the files
    run: Path | None  # None: the default networks
    network: int
    settings: AskSettings = field(compare=False)
    folder: Path  # in the cache; its name holds a hash of the settings
    together: "tuple[Source, ...]" = ()  # the networks of a folder, where all of them are asked

    @classmethod
    def choose(
        cls,
        *,
        world: World | str | Path | None = None,
        run: str | Path | None = None,
        network: int | None = None,
        settings: AskSettings = DEFAULT,
    ) -> "Source":
        """Choose the networks in a folder, or else the default networks of a world.

        Parameters
        ----------
        world : World, str or Path, optional
            A world, its name or its file; `slips` unless given. With a run, the name of a world
            where the folder has networks of several.
        run : str or Path, optional
            A folder that a command has written; it brings its own world.
        network : int, optional
            One network of the folder, counted from 0; all of them unless given.
        settings : AskSettings
            How ensembles are sampled, and how default networks are trained.

        Returns
        -------
        Source
            A description of the network; nothing is loaded or trained yet.

        Raises
        ------
        UserError
            Where the choice contradicts itself, or the run is missing or damaged.
        """
        if run is not None:
            name = world.name if isinstance(world, World) else world
            return _choose_run(Path(run), None if name is None else str(name), network, settings)
        if network is not None:
            raise UserError(
                f"network {network!r} is one of a run: add --run FOLDER, or run= in Python."
            )
        if not isinstance(world, World):
            world = World.load(DEFAULT_WORLD if world is None else world)
        one = cls(world, world.text, None, 0, settings, _choose_folder(world, settings))
        number = settings.training.get("networks", TRAINING["networks"])
        return replace(one, together=tuple(replace(one, network=n) for n in range(number)))

    @property
    def run_folder(self) -> Path:
        """The folder of the network, which the default networks may not have yet."""
        return self.folder / "run" if self.run is None else self.run

    @property
    def members(self) -> tuple["Source", ...]:
        """Each network that is asked, as a source of its own."""
        return self.together or (self,)

    @property
    def network_path(self) -> Path:
        """The file of the network's weights."""
        return locate_network(self.run_folder, self.network)

    @property
    def shipped(self) -> Path | None:
        """The file of the package that has these networks; None where there is none."""
        known = self.run is None and self.settings == DEFAULT
        return find_shipped(self.world) if known else None

    @property
    def training(self) -> dict[str, Any]:
        """The settings of the networks' training, of which the others are defaults."""
        if self.run is not None:
            found: dict[str, Any] = read_toml(self.run / "run.toml")["training"]
            return found
        shipped = self.shipped
        return self.settings.training if shipped is None else read_header(shipped)["training"]

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of the paper's sampler that can be asked for."""
        shipped = self.shipped
        return self.settings.kept_steps if shipped is None else list_steps(shipped)

    @property
    def name(self) -> str:
        """The networks in words, for people."""
        if self.shipped is not None:
            return f"the networks of world {self.world.name} that come with the package"
        if self.run is None:
            return f"the default networks of world {self.world.name}"
        several = f"the {len(self.together)} networks in"
        return f"{several if self.together else f'network {self.network} of'} {self.run}"

    @property
    def member_names(self) -> tuple[str, ...]:
        """Each network in words, among the others; those of several runs by their folder."""
        runs = {member.run for member in self.members}
        return tuple(
            f"network {member.network}" + (f" of {member.run}" if len(runs) > 1 else "")
            for member in self.members
        )


def list_shipped() -> dict[str, Path]:
    """Return the files that come with the package, by the name of their world."""
    files = sorted(Path(str(FOLDER)).glob("*.safetensors"))
    return {file.stem: file for file in files}


def find_shipped(world: World) -> Path | None:
    """Return the file of a world's networks; None if the world differs from theirs in any way."""
    path = list_shipped().get(world.name)
    fits = path is not None and read_header(path)["fingerprint"] == world.fingerprint
    return path if fits else None


@cache
def read_header(path: Path) -> dict[str, Any]:
    """Return the header of a file: fingerprint of the world, prior variances, stops."""
    about, _ = read_tensors(path, names=(), kinds=KINDS)
    header: dict[str, Any] = json.loads(about["equivocal"])
    return header


def list_steps(path: Path) -> tuple[int, ...]:
    """Return the sampler steps that a file offers; step 0 is the prior, which is not stored."""
    return 0, *(stop for stop in read_header(path)["stops"] if isinstance(stop, int))


def _choose_run(
    directory: Path, name: str | None, network: int | None, settings: AskSettings
) -> Source:
    """Choose one or all of the networks in a folder, which must be of one world."""
    runs = find_runs(directory)
    for run in runs or [directory]:
        check_run(run)
    trained = [
        (run, World.load(run / "world.toml"), read_toml(run / "run.toml")["training"])
        for run in runs
    ]
    chosen = [one for one in trained if name in (None, one[1].name)]
    if not chosen:
        raise UserError(f"{directory} has no networks of world {name!r}; leave out --world.")
    if len({world.fingerprint for _, world, _ in chosen}) > 1:
        worlds = join_names(sorted({world.name for _, world, _ in chosen}))
        raise UserError(
            f"the networks in {directory} differ in their world; choose one of the worlds {worlds} "
            f"with --world, or one of the folders {join_names(map(str, runs), most=3)}."
        )
    each = [(*one, index) for one in chosen for index in range(one[2]["networks"])]
    if network is not None:
        if not 0 <= network < len(each):
            raise UserError(
                f"{directory} has no network {network!r}; it has {len(each)}, counted from 0."
            )
        each = each[network : network + 1]
    members = tuple(_open_network(*one, settings) for one in each)
    if len(members) == 1:
        return members[0]
    folder = _choose_folder(members[0].world, settings, *(one.folder.name for one in members))
    return replace(members[0], run=directory, folder=folder, together=members)


def _open_network(
    run: Path, world: World, training: dict[str, Any], index: int, settings: AskSettings
) -> Source:
    """Return the source of one network of a run."""
    weights = compute_checksum(locate_network(run, index))
    folder = _choose_folder(world, settings, weights, training)
    return Source(world, world.text, run, index, settings, folder)


def _choose_folder(world: World, settings: AskSettings, *run: object) -> Path:
    """Return the cache folder for the networks of a world, or of a run given by its content."""
    key = hash_content(world.fingerprint, asdict(settings), *run, code=NETWORK_CODE)
    plain = "".join(letter for letter in world.name if letter.isalnum())[:24]
    return find_cache_folder() / f"{plain}-{key}"
