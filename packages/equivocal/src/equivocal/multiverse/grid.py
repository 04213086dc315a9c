"""Grids: a study, and points at which choices that the paper leaves open are changed.

    study = "paper"            # a preset, or a file beside this one
    networks = 2
    [one_at_a_time]            # each of these values alone, all else as in the study
    prior_variance = [1.0, 0.01]
    [factorial]                # all combinations of these
    num_steps = [17, 50]
    [design]                   # or points spread over all choices at once
    trainings = 32             # P, spread over the choices about training
    posteriors = 8             # Q for each training, spread over the choices about the posterior
    [levels]                   # the values of a design
    weight_decay = [0.0, 1e-6, 1e-4]

The study's own specification comes first, whether the file lists its values or not. Training takes
most of the time, so P trainings of a design serve P × Q posteriors; every value of a choice is
drawn equally often, in random order. A new choice is a field of `Specification` and an entry of
`TRAINING` or `SETTINGS`.
"""

from collections.abc import Iterator
from dataclasses import asdict
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from equivocal.beliefs import Positive, RowsOfPosterior, SettingsTable
from equivocal.errors import validate
from equivocal.paper.settings import StudySettings, load_study
from equivocal.store import read_toml
from equivocal.store.files import resolve_inside
from equivocal.store.text import find_named_file
from lastlayer.algorithm1 import DropoutConfig
from lastlayer.algorithm1_run import NUM_STEPS
from lastlayer.errors import UserError

__all__ = ["CHOICES", "Point", "Specification", "load_grid"]

GRIDS = resources.files("equivocal.multiverse") / "grids"
MOST_POINTS = 100_000  # the full multiverse has 1,728


class Point(NamedTuple):
    """One specification: its choices, and the settings of the study with them."""

    varied: dict[str, Any]
    settings: StudySettings


class Specification(SettingsTable):
    """One value for each choice that the paper leaves open."""

    recipe: Literal["paper", "fast", "sg2018"]  # gives the training settings not chosen below
    decay: Literal["decoupled", "coupled"]
    weight_decay: float = Field(ge=0, lt=float("inf"))
    loss: Literal["sum", "mean", "total"]
    batch: int = Field(ge=0, le=1_000_000)  # sentences per step; 0: questions drawn one by one
    epochs: int = Field(ge=1, le=1_000_000)
    patience: int = Field(ge=0, le=1_000_000)  # epochs until early stopping; 0: none
    hidden: int = Field(ge=1, le=10_000)
    num_particles: int = Field(ge=2)  # J
    step_size: Literal["automatic"] | Positive  # Δτ
    num_steps: int = Field(ge=1)
    dropout_rate: float = Field(ge=0, lt=1)  # ρ
    taming: Literal["consistent", "printed"]
    prior_variance: Positive
    rows: RowsOfPosterior
    evidence: Positive | Literal["sentence"]  # b, the weight of every row
    critical_word: Literal["study", "verb", "last"]  # where activations are read


CHOICES = tuple(Specification.model_fields)
# choices about the training, by their names in `TrainingSettings`
TRAINING = ("recipe", "decay", "weight_decay", "loss", "batch", "epochs", "patience", "hidden")
SETTINGS = {  # choices about the posterior, and the settings of a study that they change
    "num_particles": "inference.samplers.paper.num_particles",
    "num_steps": "inference.samplers.paper.num_steps",
    "step_size": "inference.samplers.paper.options.step_size",
    "dropout_rate": "inference.samplers.paper.options.dropout_rate",
    "taming": "inference.samplers.paper.options.taming",
    "prior_variance": "inference.central_prior",
    "rows": "inference.rows",
    "evidence": "inference.samplers.paper.evidence",
}


class DesignSize(SettingsTable):
    """The numbers of points of a design."""

    trainings: int = Field(default=32, ge=1, le=10_000)  # P
    posteriors: int = Field(default=8, ge=1, le=10_000)  # Q, for each training
    seed: int = Field(default=0, ge=0)


class _GridFile(SettingsTable):
    study: str = "paper"
    networks: int = Field(default=2, ge=1, le=10_000)
    one_at_a_time: dict[str, list[Any]] = Field(default={})
    factorial: dict[str, list[Any]] = Field(default={})
    design: DesignSize = Field(default=DesignSize())
    levels: dict[str, list[Any]] = Field(default={})


def _combine(lists: dict[str, list[Any]], where: str) -> Iterator[dict[str, Any]]:
    """Yield all combinations of values, the last name varying fastest."""
    if (total := prod(map(len, lists.values()))) > MOST_POINTS:
        raise UserError(
            f"{where} has {total:,} combinations, and at most {MOST_POINTS:,} are tried; give "
            "fewer values."
        )
    return (dict(zip(lists, values, strict=True)) for values in product(*lists.values()))


def _spread(levels: dict[str, list[Any]], size: DesignSize) -> Iterator[dict[str, Any]]:
    """Yield the changes of a design: P trainings, and Q posteriors for each."""
    rng = np.random.default_rng(size.seed)
    about, rest = (
        {name: values for name, values in levels.items() if (name in TRAINING) == first}
        for first in (True, False)
    )
    posteriors = iter(_draw(rest, size.trainings * size.posteriors, rng))
    for training in _draw(about, size.trainings, rng):
        for _ in range(size.posteriors):
            yield training | next(posteriors)


def _draw(
    levels: dict[str, list[Any]], number: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Draw points in which every value of a choice occurs equally often."""
    places = {
        name: rng.permutation(np.arange(number) * len(values) // number)
        for name, values in levels.items()
    }
    return [
        {name: values[places[name][row]] for name, values in levels.items()}
        for row in range(number)
    ]


def load_grid(name_or_path: str | Path, networks: int | None = None) -> tuple[Point, ...]:
    """Load the points of a grid.

    Parameters
    ----------
    name_or_path : str or Path
        "small", "full", "match" or the path of a TOML file.
    networks : int, optional
        Replaces the number of networks given in the file.

    Returns
    -------
    tuple of Point
        The first is the study's own specification.

    Raises
    ------
    UserError
        Where the file is wrong, before any work is done.
    """
    path = find_named_file(name_or_path, GRIDS, "grid")
    file = validate(_GridFile, read_toml(path), "key", f"{path}: ")
    beside = resolve_inside(path.parent, file.study, "study")
    source = beside if beside.is_file() or beside.suffix == ".toml" else file.study
    study = load_study(source, {"training.networks": networks or file.networks})
    own = find_own_choices(study)
    alone, crossed, levels = (
        check_choices(getattr(file, part), own, f"{path}, {part}")
        for part in ("one_at_a_time", "factorial", "levels")
    )
    changes = [
        {},
        *({name: value} for name, values in alone.items() for value in values),
        *_combine(crossed, f"{path}, factorial"),
        *(_spread(levels, file.design) if levels else ()),
    ]
    varied = dict.fromkeys(change_specification(own, study, change) for change in changes)
    if len(varied) == 1:
        raise UserError(f"{path} varies nothing; give some choice a second value.")
    return tuple(make_point(study, one) for one in varied)


def change_specification(
    own: Specification, study: StudySettings, change: dict[str, Any]
) -> Specification:
    """Change some choices; a new recipe also sets the other choices about training."""
    if "recipe" in change:
        training = study.training_settings.change({"recipe": change["recipe"]})
        change = {name: getattr(training, name) for name in TRAINING} | change
    return own.model_copy(update=change)


def make_point(study: StudySettings, specification: Specification) -> Point:
    """Make the point of a specification: its choices and the settings of its study."""
    varied = specification.model_dump()
    training = study.training_settings.change({name: varied[name] for name in TRAINING})
    changes: dict[str, Any] = {"training": asdict(training)}
    changes |= {setting: varied[name] for name, setting in SETTINGS.items()}
    changes["inference.prior_variances"] = [specification.prior_variance]
    if specification.step_size == "automatic":
        changes[SETTINGS["step_size"]] = None
    return Point(varied, study.change(changes))


def find_own_choices(study: StudySettings) -> Specification:
    """Return the study's own specification.

    Raises
    ------
    UserError
        Where its sampler is not the paper's.
    """
    sampler, training = study.inference.samplers["paper"], study.training_settings
    if sampler.method != "dropout-deterministic":
        raise UserError(
            "a multiverse varies the sampler dropout-deterministic, but in this study "
            f"inference.samplers.paper.method is {sampler.method!r}; choose another study."
        )
    known = {name: value for name, value in sampler.options.items() if value is not None}
    config = DropoutConfig(**known)
    return Specification(
        **{name: getattr(training, name) for name in TRAINING},
        num_particles=sampler.num_particles,
        step_size=config.step_size or "automatic",
        num_steps=sampler.num_steps or NUM_STEPS,
        dropout_rate=config.dropout_rate,
        taming=str(config.taming),
        prior_variance=study.inference.central_prior,
        rows=study.inference.rows,
        evidence=sampler.evidence,
        critical_word="study",
    )


def check_choices(
    lists: dict[str, list[Any]], own: Specification, where: str
) -> dict[str, list[Any]]:
    """Check every value of lists of choices, and return the lists as validated."""
    checked = {}
    for name, values in lists.items():
        choices = [own.model_dump() | {name: value} for value in values or [None]]
        found = [validate(Specification, one, "choice", f"{where}: ") for one in choices]
        checked[name] = [getattr(one, name) for one in found]
    return checked
