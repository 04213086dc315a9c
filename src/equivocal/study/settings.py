"""What a study runs with: every number in one TOML file, none in code.

A preset is such a file inside the package (`presets/paper.toml`); a user's own has the same tables.
`--set inference.paper.num_particles=100` replaces single values; a wrong name proposes the nearest.
"""

import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, ValidationError, model_validator

from equivocal.errors import (
    UserError,
    did_you_mean,
    explain_validation,
    join_names,
    locate_mistake,
)
from equivocal.gestalt import TrainingSettings
from equivocal.inference import Positive, SamplerSettings, SettingsTable
from equivocal.store import read_toml, resolve_inside
from equivocal.store.files import write_text_atomically
from equivocal.world import shipped_worlds

__all__ = [
    "InferenceSettings",
    "StudySettings",
    "load_study",
    "named_file",
    "names_in",
    "parse_changes",
    "preset_names",
]

_PRESETS = resources.files("equivocal.study") / "presets"
Count = Annotated[int, Field(ge=1)]


class InferenceSettings(SettingsTable):
    """The posterior over the last layer, about the trained weights."""

    prior_variances: tuple[Positive, ...] = (0.01, 1.0, 5.0)
    central_prior: Positive = 1.0
    rows: Literal["every word", "last word"] = "every word"
    units: Literal["all", "tracked"] = "all"  # tracked: with those that should stay off
    seed: int = Field(default=0, ge=0)
    samplers: dict[str, SamplerSettings]

    def seed_of(self, index: int) -> int:
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
    """The ensemble watched along τ: the tracked units alone, beyond the steps of the paper."""

    num_steps: Count = 120
    networks: Count = 2


class NutsSettings(SettingsTable):
    """The exact posterior of the tracked units, for comparison."""

    networks: int = Field(default=1, ge=0)  # 0: leave it out
    units: int = Field(default=99, ge=1)  # at most so many of the tracked units
    draws: Count = 1_000
    warmup: Count = 500
    chains: Count = 4


class StimuliSettings(SettingsTable):
    """What is heard and what is asked."""

    file: str
    shown: str | None = None  # the item that is drawn word by word; by default the first
    probes: tuple[str, ...] = ("agent", "patient")
    non_relevant: tuple[
        str, ...
    ] = ()  # units that should stay off; by default other items' fillers


class StudySettings(SettingsTable):
    """All of a study; `folder` is where its files are looked for."""

    name: str
    world: str
    training: dict[str, float | int] = Field(default={})
    stimuli: StimuliSettings
    inference: InferenceSettings
    path: PathSettings = PathSettings()
    nuts: NutsSettings = NutsSettings()
    folder: str = Field(default="", exclude=True)
    given: tuple[str, ...] = Field(default=(), exclude=True)  # settings that the caller named
    quick_run: bool = False  # made with the changes of the table [quick]

    @property
    def stimuli_path(self) -> Path:
        """Beside the study's file, or wherever the caller said."""
        return self._located("stimuli.file", self.stimuli.file)

    @property
    def world_source(self) -> str | Path:
        """A file beside the study's, or the name of a world of the package."""
        beside = self._located("world", self.world)
        if not beside.is_file() and ("world" in self.given or self.world in shipped_worlds()):
            return self.world
        return beside

    def _located(self, setting: str, name: str) -> Path:
        if any(f"{setting}.".startswith(f"{given}.") for given in self.given):
            return Path(self.folder) / name
        # an installed package may be a tree of links
        return resolve_inside(self.folder, name, setting, links=self.folder == str(_PRESETS))

    @property
    def training_settings(self) -> TrainingSettings:
        """The table [training], checked."""
        return TrainingSettings.from_dict(self.training)

    def check_training(self) -> None:
        """Raises where a training setting is wrong."""
        TrainingSettings.from_dict(self.training)

    def write(self, path: Path) -> None:
        """As TOML, with every default spelled out."""
        content = self.model_dump(mode="json", exclude_none=True)
        write_text_atomically(path, tomli_w.dumps(content))


def preset_names() -> list[str]:
    """The studies that come with the package."""
    return names_in(_PRESETS)


def names_in(folder: Traversable) -> list[str]:
    """The TOML files of a folder of the package, by name."""
    names = (entry.name for entry in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def named_file(name_or_path: str | Path, folder: Traversable, kind: str) -> Path:
    """A file of the package by name, or a user's own, which ends in .toml."""
    name, known = str(name_or_path), names_in(folder)
    if Path(name).suffix == ".toml":
        return Path(name)
    if name not in known:
        why = (
            did_you_mean(name, known) or f"; {kind}s are {join_names(known)}, a file ends in .toml."
        )
        raise UserError(f"there is no {kind} {name!r}{why}")
    return Path(str(folder / f"{name}.toml"))


def load_study(
    name_or_path: str | Path,
    changes: dict[str, Any] | None = None,
    *,
    quick: bool = False,
    from_file: bool = False,
) -> StudySettings:
    """A preset by name or a user's file; `changes` by dotted name replace single values.

    Paths in `changes` may lead anywhere, unless they come `from_file` themselves.
    """
    path = named_file(name_or_path, _PRESETS, "preset")
    content = read_toml(path)
    small, changes = content.pop("quick", {}), changes or {}
    if not isinstance(small, dict):
        raise UserError(f"{path}: quick must be a table of settings, got {small!r:.60}.")
    for key, value in {**(small if quick else {}), **changes}.items():
        _replace(content, key, value)
    ours: dict[str, Any] = {
        "folder": str(path.parent),
        "given": () if from_file else tuple(changes),
    }
    if taken := sorted(ours.keys() & content.keys()):
        raise UserError(f"{path}: unknown setting {taken[0]!r}; remove it.")
    try:
        ours["quick_run"] = quick or bool(content.pop("quick_run", False))
        return StudySettings(**content, **ours)
    except ValidationError as error:
        place, why = locate_mistake(error), explain_validation(error, StudySettings, "setting")
        given = any(place == name or place.startswith(f"{name}.") for name in changes)
        raise UserError(why if given else f"{path}: {why}") from None


def parse_changes(pairs: list[str]) -> dict[str, Any]:
    """`name=value` as TOML would read the value; what it cannot read is taken as text.

    >>> parse_changes(["training.networks=2", "inference.rows=last word"])
    {'training.networks': 2, 'inference.rows': 'last word'}
    """
    changes = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip():
            raise UserError(f"--set takes name=value, as training.networks=2, got {pair!r}.")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (ValueError, RecursionError):
            value = text
        changes[name.strip()] = value
    return changes


def _replace(content: dict[str, Any], key: str, value: Any) -> None:
    *tables, name = key.split(".")
    for table in tables:
        content = content.setdefault(table, {})
        if not isinstance(content, dict):
            raise UserError(f"{key!r} leads nowhere: {table!r} is a value, not a table.")
    content[name] = value
