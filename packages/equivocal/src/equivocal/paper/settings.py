"""The settings of a study: every number in one TOML file, none in code.

A preset is such a file inside the package (`presets/paper.toml`); a user's own file has the same
tables. A preset may name another one as its `base`, whose tables it takes over unless it gives its
own. A change by dotted name, `inference.samplers.paper.num_particles = 100`, replaces a single
value. To add a setting, add a field here and, with its reason, a line in the preset.
"""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, ValidationError, model_validator

from equivocal.beliefs import Positive, RowsOfPosterior, SamplerSettings, SettingsTable
from equivocal.errors import explain_validation, locate_mistake
from equivocal.network import TrainingSettings
from equivocal.store import read_toml, split_pair
from equivocal.store.files import resolve_inside, write_text_atomically
from equivocal.store.text import find_named_file
from equivocal.world import list_shipped_worlds
from equivocal.world.items import find_shipped_items
from equivocal.world.loading import split_world_name
from lastlayer.errors import UserError

__all__ = ["StudySettings", "load_study", "parse_changes", "write_example"]

_EXAMPLE = resources.files("equivocal.paper") / "example"
_RECORD = resources.files("equivocal.paper") / "record"
_PRESETS = resources.files("equivocal.paper") / "presets"
Count = Annotated[int, Field(ge=1)]


class InferenceSettings(SettingsTable):
    """The posterior over the last layer, about the trained weights."""

    prior_variances: tuple[Positive, ...] = (0.01, 1.0, 5.0)
    central_prior: Positive = 1.0
    rows: RowsOfPosterior = "every word"
    units: Literal["all", "tracked"] = "all"  # tracked: and the units that should stay off
    seed: int = Field(default=0, ge=0)
    samplers: dict[str, SamplerSettings]

    def get_seed(self, index: int) -> int:
        """Return the seed of one network's ensembles."""
        return self.seed + index

    @model_validator(mode="after")
    def _complete(self) -> "InferenceSettings":
        if list(self.samplers) != ["paper", "converged"]:
            raise ValueError("samplers must be the two tables paper and converged, in this order")
        if self.central_prior not in self.prior_variances:
            raise ValueError("central_prior must be one of prior_variances")
        return self


class PathSettings(SettingsTable):
    """How many steps the ensemble is followed along τ, and in how many networks."""

    num_steps: Count = 120
    networks: Count = 2


class StepsSettings(SettingsTable):
    """Other J, Δτ and ρ that the paper's sampler is run with, and in how many networks."""

    networks: int = Field(default=0, ge=0)  # 0: leave it out
    num_particles: tuple[Annotated[int, Field(ge=2)], ...] = (50, 200)
    step_sizes: tuple[Literal["automatic"] | Positive, ...] = ("automatic", 1e-6, 1e-5, 3e-5, 1e-4)
    dropout_rates: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = (0.0, 0.3)


class ExactSettings(SettingsTable):
    """How the exact posterior of the tracked units is sampled, by Hamiltonian Monte Carlo."""

    networks: int = Field(default=1_000, ge=0)  # the most to sample; 0: leave it out
    units: Count = 99  # the most tracked units to sample
    num_particles: int = Field(default=1_000, ge=2)


class NutsSettings(SettingsTable):
    """How NUTS samples the same posterior of one network, to check draws and to compare times."""

    networks: int = Field(default=1, ge=0)  # 0: leave it out
    units: Count = 99  # the most tracked units to sample
    draws: Count = 1_000
    warmup: Count = 500
    chains: Count = 4


class StimuliSettings(SettingsTable):
    """Which sentences are used and which roles are probed."""

    file: str
    probes: tuple[str, ...] = ("agent", "patient")
    example: str = ""  # the item that examples are about; by default the first
    # units that should stay off; by default the fillers of other items
    non_relevant: tuple[str, ...] = ()


class StudySettings(SettingsTable):
    """All settings of a study.

    Attributes
    ----------
    name, world : str
        The name of the study, and the name or the file of its world, perhaps with values of its
        parameters: "slips:rare=0.02".
    training, stimuli, inference, path, steps, exact, nuts
        The tables of a study file.
    is_paper : bool
        Whether this is the study of the paper: its claims are judged, and the numbers that it
        prints stand beside ours.
    keep_posteriors : bool
        Whether posteriors stay in the folder once they have answered.
    quick_run : bool
        Whether the changes of the table [quick] were made.
    folder : str
        Where files that the settings name are looked for; not part of the file.
    given : tuple of str
        Settings that the caller named, whose paths may lead anywhere; not part of the file.
    """

    name: str
    world: str
    training: dict[str, bool | int | float | str] = Field(default={})
    stimuli: StimuliSettings
    inference: InferenceSettings
    path: PathSettings = PathSettings()
    steps: StepsSettings = StepsSettings()
    exact: ExactSettings = ExactSettings()
    nuts: NutsSettings = NutsSettings()
    is_paper: bool = False
    keep_posteriors: bool = True
    folder: str = Field(default="", exclude=True)
    given: tuple[str, ...] = Field(default=(), exclude=True)
    small: dict[str, Any] = Field(default={}, exclude=True)  # the table [quick]
    quick_run: bool = False

    @property
    def stimuli_path(self) -> Path:
        """The stimulus file: beside the study's file, where the path leads, or of the package."""
        own = self._locate("stimuli.file", self.stimuli.file)
        shipped = find_shipped_items(Path(self.stimuli.file).stem)
        return shipped if shipped.exists() and not own.exists() else own

    @property
    def world_source(self) -> str | Path:
        """The world: a file beside the study's, or the name of a world of the package."""
        whole = self._locate("world", self.world)
        name, values = (self.world, "") if whole.is_file() else split_world_name(self.world)
        beside = self._locate("world", name)
        if not beside.is_file() and ("world" in self.given or name in list_shipped_worlds()):
            return self.world
        return Path(f"{beside}{values}")

    def _locate(self, setting: str, name: str) -> Path:
        """Return the path of a file, which only the caller may place outside the study's folder."""
        if any(f"{setting}.".startswith(f"{given}.") for given in self.given):
            return Path(self.folder) / name
        # an installed package may be a tree of links
        return resolve_inside(self.folder, name, setting, links=self.folder == str(_PRESETS))

    @property
    def training_settings(self) -> TrainingSettings:
        """The table [training], checked; a `UserError` names what is wrong with it."""
        return TrainingSettings(**self.training)

    def change(self, changes: dict[str, Any], *, quick: bool = False) -> "StudySettings":
        """Return these settings with some values replaced.

        Parameters
        ----------
        changes : dict
            New values by dotted name, such as "training.networks".
        quick : bool
            Whether to make the changes of the table [quick] first.

        Returns
        -------
        StudySettings
            New settings; these are unchanged.

        Raises
        ------
        UserError
            For an unknown setting or a wrong value.
        """
        content = self.model_dump() | {"quick_run": quick or self.quick_run}
        for name, value in {**(self.small if quick else {}), **changes}.items():
            _replace(content, name, value)
        return StudySettings(**content, folder=self.folder, given=self.given, small=self.small)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a study file, with every default spelled out.

        Returns
        -------
        dict
            Tables and plain values.
        """
        return self.model_dump(mode="json", exclude_none=True)

    def write(self, path: Path) -> None:
        """Write a study file.

        Parameters
        ----------
        path : Path
            The TOML file, which `load_study` reads back.
        """
        write_text_atomically(path, tomli_w.dumps(self.to_dict()))


def read_record(name: str) -> dict[str, Any]:
    """Read record/NAME.toml: printed numbers, layouts of files, or the wording of results."""
    return read_toml(str(_RECORD / f"{name}.toml"))


def load_study(
    name_or_path: str | Path,
    changes: dict[str, Any] | None = None,
    *,
    quick: bool = False,
) -> StudySettings:
    """Load the settings of a study.

    Parameters
    ----------
    name_or_path : str or Path
        The name of a preset, or a study file, which ends in .toml.
    changes : dict, optional
        Values that replace those of the file, by dotted name.
    quick : bool
        Whether to make the changes of the table [quick].

    Returns
    -------
    StudySettings
        The checked settings.

    Raises
    ------
    UserError
        Where the file cannot be read, or a setting is unknown or wrong; the message names it.
    """
    path = find_named_file(name_or_path, _PRESETS, "preset")
    content = read_toml(path)
    if path.parent == Path(str(_PRESETS)) and "base" in content:
        content = read_toml(path.with_stem(content.pop("base"))) | content
    small, changes = content.pop("quick", {}), changes or {}
    if not isinstance(small, dict):
        raise UserError(f"{path}: quick must be a table of settings, got {small!r:.60}.")
    for key, value in {**(small if quick else {}), **changes}.items():
        _replace(content, key, value)
    ours: dict[str, Any] = {"folder": str(path.parent), "given": tuple(changes), "small": small}
    if taken := sorted(ours.keys() & content.keys()):
        raise UserError(f"{path}: unknown setting {taken[0]!r}; remove it.")
    try:
        ours["quick_run"] = quick or bool(content.pop("quick_run", False))
        study = StudySettings(**content, **ours)
        TrainingSettings(**study.training)  # refuse mistakes now, not when it is used
    except ValidationError as error:
        place, why = locate_mistake(error), explain_validation(error, StudySettings, "setting")
        given = any(place == name or place.startswith(f"{name}.") for name in changes)
        raise UserError(why if given else f"{path}: {why}") from None
    return study


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """Parse `name=value` pairs; a value that is not TOML is taken as text.

    >>> parse_changes(["training.networks=2", "inference.rows=last word"])
    {'training.networks': 2, 'inference.rows': 'last word'}
    """
    changes = {}
    for pair in pairs:
        name, text = split_pair(pair, "--set", "training.networks=2")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text
        changes[name] = value
    return changes


def _replace(content: dict[str, Any], key: str, value: Any) -> None:
    """Set a value by its dotted name in nested tables, which are added where they are missing."""
    *tables, name = key.split(".")
    for table in tables:
        content = content.setdefault(table, {})
        if not isinstance(content, dict):
            raise UserError(f"{key!r} is not a valid setting: {table!r} is a value, not a table.")
    content[name] = value


def write_example(path: Path) -> Path:
    """Write a commented example study, with its stimulus file beside it.

    Parameters
    ----------
    path : Path
        The study file, which ends in .toml; the stimulus file has the same stem.

    Returns
    -------
    Path
        The stimulus file.

    Raises
    ------
    UserError
        Where either file exists already.
    """
    stimuli = path.with_suffix(".csv")
    if path.suffix != ".toml":
        raise UserError(f"a study's file ends in .toml, got {path.name!r}.")
    for file in (path, stimuli):
        if file.exists():
            raise UserError(f"{file} exists already; choose another name or remove it first.")
    text = (_EXAMPLE / "study.toml").read_text(encoding="utf-8").replace("STUDY", path.stem)
    write_text_atomically(stimuli, (_EXAMPLE / "stimuli.csv").read_text(encoding="utf-8"))
    write_text_atomically(path, text)
    return stimuli
