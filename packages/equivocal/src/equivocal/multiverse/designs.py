"""Designs: specifications spread over all choices at once, instead of all combinations of them.

    study = "paper"
    networks = 10
    [design]
    trainings = 32             # P, spread over the choices about training
    posteriors = 12            # Q for each training, spread over the choices about the posterior
    [levels]                   # values to try; numbers in order of size
    weight_decay = [0.0, 1e-6, 1e-4]
    [printed]                  # values that the paper prints: every second training and posterior
    num_steps = 17             # has them

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
    printed: dict[str, Any] = Field(default={})


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
    printed : dict
        The values that the paper prints, for some choices.
    points : tuple of Specification
        The study's own first; those that share a training are next to one another.
    free : frozenset of Specification
        Points whose choices about the posterior were all drawn, none fixed to the printed value.
    """

    study: StudySettings
    size: DesignSize
    levels: dict[str, list[Any]]
    printed: dict[str, Any]
    points: tuple[Specification, ...]
    free: frozenset[Specification]

    def is_as_printed(self, choices: dict[str, Any]) -> bool:
        """Return whether choices have every value that the paper prints."""
        return all(choices[name] == value for name, value in self.printed.items())

    @property
    def readings(self) -> list[tuple[str, str]]:
        """The pairs of items and critical word at which each posterior is read."""
        words, items = (self.levels.get(name, ["study"]) for name in READING)
        return [(one, word) for one in items for word in words]


def load_design(
    name_or_path: str | Path = "match",
    *,
    networks: int | None = None,
    trainings: int | None = None,
    posteriors: int | None = None,
    quick: bool = False,
) -> Design:
    """Load a design, and draw its points.

    Parameters
    ----------
    name_or_path : str or Path
        "match", or the path of a TOML file.
    networks, trainings, posteriors : int, optional
        Replace the numbers of the file.
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
    given = {"trainings": trainings, "posteriors": posteriors}
    numbers = {name: value for name, value in given.items() if value is not None}
    size = file.design.model_copy(update=(QUICK if quick else {}) | numbers)
    small = {"training.networks": networks} if networks else {}
    study = load_study(source, {"training.networks": file.networks} if not quick else {})
    study = study.change(small, quick=quick)
    own = find_own_choices(study)
    levels = check_choices(file.levels, own, f"{path}, levels")
    printed = check_choices({k: [v] for k, v in file.printed.items()}, own, f"{path}, printed")
    if quick:  # do not vary the settings that make the study small
        choices = {f"training.{name}": name for name in TRAINING}
        choices |= {setting: name for name, setting in SETTINGS.items()}
        frozen = {choices[name] for name in study.small if name in choices}
        levels = {name: values for name, values in levels.items() if name not in frozen}
        printed = {name: values for name, values in printed.items() if name not in frozen}
    if not any(len(values) > 1 for values in levels.values()):
        raise UserError(f"{path} varies nothing; give some choice a second value.")
    fixed = {name: value for name, (value,) in printed.items()}
    return Design(study, size, levels, fixed, *_spread(study, own, size, levels, fixed))


def _spread(
    study: StudySettings,
    own: Specification,
    size: DesignSize,
    levels: dict[str, list[Any]],
    printed: dict[str, Any],
) -> tuple[tuple[Specification, ...], frozenset[Specification]]:
    """Spread P trainings over their choices and P × Q posteriors over theirs.

    Returns `points` and `free` of the `Design`.
    """
    about = {name: values for name, values in levels.items() if name in TRAINING}
    rest = {name: values for name, values in levels.items() if name in SETTINGS}
    trainings = _draw_levels(about, size.trainings, size.seed)
    posteriors = _draw_levels(rest, size.trainings * size.posteriors, size.seed + 1)
    points, free = [own], set()
    for number, training in enumerate(trainings):
        kept = {name: printed[name] for name in TRAINING if name in printed and number % 2 == 0}
        base = change_specification(own, study, training | kept)
        for place in range(size.posteriors):
            posterior = posteriors[number * size.posteriors + place]
            if place % 2 == 0:
                posterior |= {name: printed[name] for name in SETTINGS if name in printed}
            points.append(base.model_copy(update=posterior))
            if place % 2:
                free.add(points[-1])
    return tuple(dict.fromkeys(points)), frozenset(free)


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
