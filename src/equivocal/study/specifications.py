"""The choices that the paper leaves open, and grids of them.

A grid is a TOML file that names a study and lists values for choices:

    study = "paper"            a preset, or a file beside this one
    networks = 2
    [one_at_a_time]            each of these values alone, all else as in the study
    prior_variance = [1.0, 0.01]
    [factorial]                all combinations of these
    num_steps = [17, 50]
    taming = ["consistent", "printed"]

The first value of a list is the study's own, so that a reader of the file sees what is varied.
"""

from dataclasses import dataclass
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equivocal.errors import UserError, did_you_mean, explain_validation, join_names
from equivocal.gestalt import TrainingSettings
from equivocal.inference import SamplerSettings
from equivocal.sampling.samplers.dropout_deterministic import NUM_STEPS, DropoutConfig
from equivocal.store import read_toml, resolve_inside
from equivocal.study.settings import (
    StudySettings,
    load_study,
    named_file,
    names_in,
)

__all__ = ["CHOICES", "Grid", "Specification", "grid_names", "load_grid"]

_GRIDS = resources.files("equivocal.study") / "grids"
AUTOMATIC = "automatic"
MOST_COMBINATIONS = 100_000  # of a factorial; the full grid has 3,456
Positive = Annotated[float, Field(gt=0, lt=float("inf"))]


class Specification(BaseModel):
    """One value for each open choice."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_particles: int = Field(ge=2)  # J
    step_size: Literal["automatic"] | Positive  # Δτ
    num_steps: int = Field(ge=1)
    dropout_rate: float = Field(ge=0, lt=1)  # ρ
    taming: Literal["consistent", "printed"]
    prior_variance: Positive
    weight_decay: float = Field(ge=0, lt=float("inf"))
    hidden: int = Field(ge=1, le=10_000)
    rows: Literal["every word", "last word"]
    items: Literal["study", "all"]  # those of the study, or every such item of its world

    def sampler(self, own: SamplerSettings) -> SamplerSettings:
        """The study's sampler with these choices."""
        options = own.options | {"dropout_rate": self.dropout_rate, "taming": self.taming}
        options["step_size"] = None if self.step_size == AUTOMATIC else self.step_size
        changes = {"num_particles": self.num_particles, "num_steps": self.num_steps}
        return own.model_copy(update={**changes, "options": options})

    def training(self, study: StudySettings) -> TrainingSettings:
        """The study's training with these choices."""
        chosen = {"weight_decay": self.weight_decay, "hidden": self.hidden}
        return TrainingSettings.from_dict(study.training | chosen)


CHOICES = tuple(Specification.model_fields)


@dataclass(frozen=True)
class Grid:
    """A study, and the specifications to try; the first is the study's own."""

    study: StudySettings
    specifications: tuple[Specification, ...]


class _GridFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    study: str = "paper"
    networks: int = Field(default=2, ge=1, le=10_000)
    one_at_a_time: dict[str, list[Any]] = {}
    factorial: dict[str, list[Any]] = {}


def grid_names() -> list[str]:
    """The grids that come with the package."""
    return names_in(_GRIDS)


def load_grid(name_or_path: str | Path, networks: int | None = None) -> Grid:
    """A grid by name or a user's file; `networks` replaces the number that it names."""
    path = named_file(name_or_path, _GRIDS, "grid")
    file = _read(path)
    beside = resolve_inside(path.parent, file.study, "study")
    changes = {"training.networks": networks or file.networks}
    is_file = beside.is_file() or beside.suffix == ".toml"
    study = load_study(beside if is_file else file.study, changes)
    own = _own_choices(study)
    alone = _values(file.one_at_a_time, own, f"{path}, one_at_a_time")
    crossed = _values(file.factorial, own, f"{path}, factorial")
    if (total := prod(map(len, crossed.values()))) > MOST_COMBINATIONS:
        raise UserError(
            f"{path}, factorial has {total:,} combinations, and at most {MOST_COMBINATIONS:,} are "
            "tried; give fewer values."
        )
    combinations = product(*crossed.values())
    varied = [
        own,
        *(own.model_copy(update={name: value}) for name in alone for value in alone[name]),
        *(own.model_copy(update=dict(zip(crossed, row, strict=True))) for row in combinations),
    ]
    specifications = tuple(dict.fromkeys(varied))
    if len(specifications) == 1:
        raise UserError(f"{path} varies nothing; give some choice a second value.")
    return Grid(study, specifications)


def _own_choices(study: StudySettings) -> Specification:
    """What the study itself chose."""
    sampler, training = study.inference.samplers["paper"], study.training_settings
    if sampler.method != "dropout-deterministic":
        raise UserError(
            "a multiverse varies the sampler dropout-deterministic, but in this study "
            f"inference.samplers.paper.method is {sampler.method!r}; choose another study."
        )
    known = {name: value for name, value in sampler.options.items() if value is not None}
    config = DropoutConfig(**known)
    return Specification(
        num_particles=sampler.num_particles,
        step_size=config.step_size or "automatic",
        num_steps=sampler.num_steps or NUM_STEPS,
        dropout_rate=config.dropout_rate,
        taming=str(config.taming),
        prior_variance=study.inference.central_prior,
        weight_decay=training.weight_decay,
        hidden=training.hidden,
        rows=study.inference.rows,
        items="study",
    )


def _values(lists: dict[str, list[Any]], own: Specification, where: str) -> dict[str, list[Any]]:
    """The lists, checked value by value."""
    checked = {}
    for name, values in lists.items():
        if name not in CHOICES:
            hint = did_you_mean(name, CHOICES) or f"; choices are {join_names(CHOICES)}."
            raise UserError(f"{where}: unknown choice {name!r}{hint}")
        checked[name] = [_checked(name, value, own, where) for value in values]
        first, wanted = [*checked[name], None][0], getattr(own, name)
        if first != wanted:
            raise UserError(
                f"{where}: the first value of {name} must be the study's own, {wanted!r}, "
                f"got {first!r}; put it first."
            )
    return checked


def _checked(name: str, value: Any, own: Specification, where: str) -> Any:
    try:
        return getattr(Specification(**(own.model_dump() | {name: value})), name)
    except ValidationError as error:
        why = error.errors()[-1]["msg"].lower()
        raise UserError(f"{where}: {name} = {value!r} is wrong: {why}.") from None


def _read(path: Path) -> _GridFile:
    try:
        return _GridFile(**read_toml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {explain_validation(error, _GridFile, 'key')}") from None
