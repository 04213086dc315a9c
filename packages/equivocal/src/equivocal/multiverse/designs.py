"""Designs: specifications spread over all choices at once, instead of all combinations of them.

    study = "paper"
    networks = 10
    [design]
    trainings = 32             # P, spread over the choices about training
    posteriors = 12            # Q for each training, spread over the choices about the posterior
    [levels]                   # values to try, of what the paper leaves open
    weight_decay = [0.0, 1e-6, 1e-4]

Training takes most of the time, so P trainings serve P × Q posteriors. Both are Latin hypercubes:
every value of a choice is drawn equally often (at least once if there are as many points as
values), and pairs of choices are spread as evenly as the number of points allows. The first point
is the study itself.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from scipy.stats import qmc

from equivocal.beliefs import SettingsTable
from equivocal.multiverse.grid import (
    GRIDS,
    READING,
    SETTINGS,
    TRAINING,
    GridFile,
    Specification,
    change_specification,
    check_choices,
    find_own_choices,
    read_grid_file,
)
from equivocal.paper.settings import StudySettings, load_study
from equivocal.store import read_toml
from equivocal.store.text import find_named_file
from lastlayer.errors import UserError

__all__ = ["Design", "load_design"]

MOST_OPTIMISED = 128  # points; more take seconds to optimise, and are spread evenly without it
QUICK = {"trainings": 2, "posteriors": 2}


class DesignSize(SettingsTable):
    """The numbers of points."""

    trainings: int = Field(default=32, ge=1, le=10_000)  # P
    posteriors: int = Field(default=12, ge=1, le=10_000)  # Q, for each training
    seed: int = Field(default=0, ge=0)


class _DesignFile(GridFile):
    networks: int = Field(default=10, ge=1, le=10_000)
    design: DesignSize
    levels: dict[str, list[Any]]


@dataclass(frozen=True)
class Design:
    """Specifications of a study; `items` and `critical_word` are not drawn.

    Attributes
    ----------
    study : StudySettings
        The study whose choices are varied.
    size : DesignSize
        The numbers of points.
    levels : dict of str to list
        The values of each choice.
    points : tuple of Specification
        The study's own first; those that share a training are next to one another.
    """

    study: StudySettings
    size: DesignSize
    levels: dict[str, list[Any]]
    points: tuple[Specification, ...]

    @property
    def readings(self) -> list[tuple[str, str]]:
        """The pairs of items and critical word at which each posterior is read."""
        words, items = (self.levels.get(name, ["study"]) for name in READING)
        return [(one, word) for one in items for word in words]


def load_design(
    name_or_path: str | Path = "match",
    *,
    networks: int | None = None,
    quick: bool = False,
) -> Design:
    """Load a design, and draw its points.

    Parameters
    ----------
    name_or_path : str or Path
        "match", or the path of a TOML file.
    networks : int, optional
        Replaces the number of the file.
    quick : bool
        A few small networks, only to check that it works; do not report the results.

    Raises
    ------
    UserError
        Where the file is wrong, before any work is done.
    """
    path = find_named_file(name_or_path, GRIDS, "grid")
    if "design" not in read_toml(path):
        raise UserError(f"{path} is a grid and has no table [design]; run it without --match.")
    file, source = read_grid_file(path, _DesignFile)
    size = file.design.model_copy(update=QUICK if quick else {})
    small = {"training.networks": networks} if networks else {}
    study = load_study(source, {"training.networks": file.networks} if not quick else {})
    study = study.change(small, quick=quick)
    own = find_own_choices(study)
    levels = check_choices(file.levels, own, f"{path}, levels")
    if quick:  # do not vary the settings that make the study small
        choices = {f"training.{name}": name for name in TRAINING}
        choices |= {setting: name for name, setting in SETTINGS.items()}
        frozen = {choices[name] for name in study.small if name in choices}
        levels = {name: values for name, values in levels.items() if name not in frozen}
    if not any(len(values) > 1 for values in levels.values()):
        raise UserError(f"{path} varies nothing; give some choice a second value.")
    return Design(study, size, levels, _spread(study, own, size, levels))


def _spread(
    study: StudySettings,
    own: Specification,
    size: DesignSize,
    levels: dict[str, list[Any]],
) -> tuple[Specification, ...]:
    """Spread P trainings over their choices and P × Q posteriors over theirs."""
    about = {name: values for name, values in levels.items() if name in TRAINING}
    rest = {name: values for name, values in levels.items() if name in SETTINGS}
    trainings = _draw_levels(about, size.trainings, size.seed)
    posteriors = _draw_levels(rest, size.trainings * size.posteriors, size.seed + 1)
    points = [own]
    for number, training in enumerate(trainings):
        base = change_specification(own, study, training)
        first = number * size.posteriors
        for posterior in posteriors[first : first + size.posteriors]:
            points.append(base.model_copy(update=posterior))
    return tuple(dict.fromkeys(points))


def _draw_levels(levels: dict[str, list[Any]], number: int, seed: int) -> list[dict[str, Any]]:
    """Draw points of a Latin hypercube, whose strata are divided equally among the levels."""
    if not levels:
        return [{} for _ in range(number)]
    how: Any = "random-cd" if number <= MOST_OPTIMISED else None
    drawn = qmc.LatinHypercube(len(levels), optimization=how, rng=seed).random(number)
    strata = np.minimum((drawn * number).astype(int), number - 1)
    return [
        {
            name: values[at * len(values) // number]
            for at, (name, values) in zip(row, levels.items(), strict=True)
        }
        for row in strata
    ]
