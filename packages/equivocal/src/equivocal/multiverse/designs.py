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
is the study itself. `refine_design` adds neighbours of points that a caller names.
"""

from collections.abc import Sequence
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

__all__ = ["Design", "load_design", "refine_design"]

MOST_OPTIMISED = 128  # points; more take seconds to optimise, and are spread evenly without it
QUICK = {"trainings": 2, "posteriors": 2, "rounds": 1, "near": 1, "changes": 2}


class DesignSize(SettingsTable):
    """The numbers of points and of refinements."""

    trainings: int = Field(default=32, ge=1, le=10_000)  # P
    posteriors: int = Field(default=12, ge=1, le=10_000)  # Q, for each training
    seed: int = Field(default=0, ge=0)
    rounds: int = Field(default=1, ge=0, le=100)  # rounds of refinement
    near: int = Field(default=4, ge=1, le=1_000)  # points that a round refines
    changes: int = Field(default=6, ge=1, le=1_000)  # neighbours of each; a third retrain networks


class _DesignFile(GridFile):
    networks: int = Field(default=10, ge=1, le=10_000)
    design: DesignSize
    levels: dict[str, list[Any]]
    printed: dict[str, Any] = Field(default={})


@dataclass(frozen=True)
class Design:
    """Specifications of a study, before refinement; `items` and `critical_word` are not drawn.

    Attributes
    ----------
    study : StudySettings
        The study whose choices are varied.
    size : DesignSize
        The numbers of points and of refinements.
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
    rounds: int | None = None,
    quick: bool = False,
) -> Design:
    """Load a design, and draw its points.

    Parameters
    ----------
    name_or_path : str or Path
        "match", or the path of a TOML file.
    networks, trainings, posteriors, rounds : int, optional
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
    given = {"trainings": trainings, "posteriors": posteriors, "rounds": rounds}
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


def refine_design(
    design: Design, best: Sequence[Specification], known: Sequence[Specification], seed: int
) -> list[Specification]:
    """Draw neighbours of some specifications, each with one choice changed.

    Parameters
    ----------
    design : Design
        The design whose levels are used. A category takes another of its values; a number takes a
        neighbouring level, or a value halfway to it.
    best : sequence of Specification
        The points whose neighbours are drawn.
    known : sequence of Specification
        Points that are not drawn again.
    seed : int
        The same seed draws the same points.
    """
    rng, found = np.random.default_rng(seed), dict.fromkeys(known)
    start = len(found)
    for one in best:
        for number in range(design.size.changes):
            kind = TRAINING if number % 3 == 2 else tuple(SETTINGS)
            names = [name for name in kind if len(design.levels.get(name, [])) > 1]
            if names:
                name = str(rng.choice(names))
                value = _draw_neighbour(getattr(one, name), design.levels[name], rng)
                found.setdefault(change_specification(one, design.study, {name: value}))
    return list(found)[start:]


def _draw_neighbour(value: Any, levels: list[Any], rng: np.random.Generator) -> Any:
    """Draw another level; for a number, a neighbouring one or a value halfway to it."""
    others = [level for level in levels if level != value]
    numbers = [level for level in others if isinstance(level, int | float)]
    if not isinstance(value, int | float) or not numbers:
        return others[int(rng.integers(len(others)))]
    place = _find_nearest_level(value, levels)
    near = sorted(numbers, key=lambda level: abs(levels.index(level) - place))[:2]
    other = near[int(rng.integers(len(near)))]
    if rng.integers(2) or isinstance(value, int):
        return other
    return float(np.sqrt(value * other)) if min(value, other) > 0 else (value + other) / 2


def _find_nearest_level(value: int | float, levels: list[Any]) -> int:
    """Return the index of the level nearest to a number."""
    numbers = [n for n, level in enumerate(levels) if isinstance(level, int | float)]
    return min(numbers, key=lambda n: abs(levels[n] - value))
