"""What a specification of a design measures, and how a record of it is read.

A record holds the cells behind the paper's tables and figures: for every reading (items and word),
every condition and every measure (`equivocal.study.measures`), an array of networks × items for the
trained network and for the Bayesian model at three priors, 0.01, 1 and 5 times the prior variance
of the specification (appendix D; 1 is that of the main analysis). Facts are judged from records, so
a new fact needs no new posterior unless it asks for a measure that is not here.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.inference import infer_posterior
from equivocal.store.store import hash_content, hash_files
from equivocal.study.activations import list_non_relevant
from equivocal.study.comparisons import collect_features
from equivocal.study.designs import Design
from equivocal.study.grids import Point, Specification, make_point
from equivocal.study.measures import list_measures
from equivocal.study.multiverse import collect_layers, load_run
from equivocal.study.stimuli import Stimuli, choose_items, load_stimuli
from equivocal.study.tasks import Parcel, Task
from equivocal.world import World

__all__ = ["Reading", "list_readings", "make_reading_tasks", "make_training_tasks"]

PRIORS = (0.01, 1.0, 5.0)  # appendix D, times the specification's prior variance
SCORES = ("unit_accuracy", "exact_match")
STATE = ("time", "converged", "put_back")
PLACE = ("items", "word", "condition", "measure")  # of an array of cells
DIGITS = 9  # of a float32


def make_reading_tasks(design: Design, points: list[Specification]) -> dict[str, Task]:
    """Make a task for each specification, by a key of all that its record depends on."""
    study = design.study
    world, source = World.load(study.world_source), study.stimuli_path
    asked = _list_asked(load_stimuli(source, world), world, design)
    number = len(asked.groupby(list(PLACE)))
    tasks = {}
    for one in points:
        point = make_point(study, one)
        training, inference = point.settings.training_settings, point.settings.inference
        sampler = inference.samplers["paper"].model_dump()
        what = [inference.rows, inference.central_prior, inference.seed, design.readings, PRIORS]
        data = [world.fingerprint, hash_files(source), study.stimuli.non_relevant]
        key = hash_content("reading", sampler, asdict(training), *what, *data)
        is_valid = partial(_is_record, training.networks, number)
        tasks[key] = Task(world, training, _measure_cells, (point, asked), is_valid)
    return tasks


def make_training_tasks(design: Design) -> dict[str, Task]:
    """Make a task for each training of a design, which does no more than score its networks."""
    world, tasks = World.load(design.study.world_source), {}
    for one in design.points:
        training = make_point(design.study, one).settings.training_settings
        key = hash_content("scores", world.fingerprint, asdict(training))
        tasks[key] = Task(world, training, _score_networks, (), _is_score)
    return tasks


def _list_asked(own: Stimuli, world: World, design: Design) -> pd.DataFrame:
    """List every measure of every sentence: `place`, item, probe, units and the words so far."""
    others, rows = list_non_relevant(own, design.study), []
    for items, word in design.readings:
        there = choose_items(own, world, items, word)
        tracked = {
            condition: {item: there.rows[condition, item].tracked for item in there.items}
            for condition in there.conditions
        }
        for condition, item, measure, probe, units in list_measures(tracked, others):
            heard = there.rows[condition, item]
            said = heard.utterance.first(heard.critical)
            rows.append((items, word, condition, measure, item, probe, units, said))
    return pd.DataFrame(rows, columns=[*PLACE, "item", "probe", "units", "heard"])


def _score_networks(networks: Parcel) -> dict[str, list[float]]:
    scores = load_run(networks).scores
    return {name: [float(value) for value in scores[name]] for name in SCORES}


def _is_score(row: Any) -> bool:
    return isinstance(row, dict) and row.keys() == set(SCORES)


def _measure_cells(networks: Parcel, point: Point, asked: pd.DataFrame) -> dict[str, Any]:
    """Measure everything about one specification, on a worker."""
    inference, run = point.settings.inference, load_run(networks)
    names = list(dict.fromkeys(unit for units in asked["units"] for unit in units))
    watched = [run.world.units.index(unit) for unit in names]
    sets = [[names.index(unit) for unit in units] for units in asked["units"]]
    answers: dict[str, list[np.ndarray]] = {name: [] for name in ("mle", *map(str, PRIORS))}
    infos = []
    for index, rows in enumerate(collect_layers(networks, inference.rows)):
        psi, first = _collect_distinct(run.networks[index], asked)
        layer = rows.select(watched)
        found = {"mle": expit((psi @ layer.trained.T).astype(float))}
        for factor in PRIORS:
            variance, seed = factor * inference.central_prior, inference.get_seed(index)
            sampler = inference.samplers["paper"]
            posterior = infer_posterior(layer, sampler, variance, seed, diagnose=False)
            found[str(factor)] = posterior.predict_proba(psi).astype(float)
            if factor == 1:
                infos.append(posterior.info)
        for name, values in found.items():
            answers[name].append(
                np.array([values[at, units].mean() for at, units in zip(first, sets, strict=True)])
            )
    return {
        "scores": _score_networks(networks),
        "time": float(np.median([info.time for info in infos])),  # τ reached
        "converged": bool(all(info.converged for info in infos)),
        "put_back": int(sum(info.repaired for info in infos)),
        "cells": _arrange(asked, {name: np.stack(values) for name, values in answers.items()}),
    }


def _collect_distinct(network: Any, asked: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Collect ψ of each distinct question, and the question of each row."""
    texts = asked["heard"].map(str) + "\n" + asked["probe"]
    number, _ = pd.factorize(texts)
    return collect_features(network, asked[~texts.duplicated()]), number


def _arrange(asked: pd.DataFrame, answers: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Arrange answers (networks, rows) as arrays (networks, items), one for each place."""
    return [
        {name: str(asked[name].iloc[rows[0]]) for name in PLACE}
        | {
            name: [[float(f"{x:.{DIGITS}g}") for x in row] for row in values[:, rows]]
            for name, values in answers.items()
        }
        for rows in asked.groupby(list(PLACE), sort=False).indices.values()
    ]


def _is_record(networks: int, number: int, record: Any) -> bool:
    """Return whether something is what `_measure_cells` returns."""
    try:
        cells = record["cells"]
        arrays = [np.asarray(cell[name], float) for cell in cells for name in ("mle", "1.0")]
        keys = {"scores", *STATE, "cells"}
        shapes = all(one.ndim == 2 and len(one) == networks for one in arrays)
        return record.keys() == keys and len(cells) == number and shapes
    except (KeyError, TypeError, ValueError, AttributeError):
        return False


@dataclass(frozen=True)
class Reading:
    """One way to read a record: cells at one word of some items.

    Attributes
    ----------
    scores : dict of str to list
        Accuracies of the networks.
    cells : dict
        Activations (networks, items) by condition, measure and estimate: "mle", or the factor of
        the prior variance.
    """

    scores: dict[str, list[float]]
    cells: dict[tuple[str, str, str], np.ndarray]

    def get(self, condition: str, measure: str, estimate: str) -> np.ndarray:
        """Return activations (networks, items): none at all where they were not measured."""
        return self.cells.get((condition, measure, estimate), np.empty((0, 0)))


def list_readings(record: dict[str, Any]) -> dict[tuple[str, str], Reading]:
    """List the readings of a record, by items and critical word."""
    found: dict[tuple[str, str], Reading] = {}
    for cell in record["cells"]:
        reading = found.setdefault((cell["items"], cell["word"]), Reading(record["scores"], {}))
        for name in ("mle", *map(str, PRIORS)):
            place = (cell["condition"], cell["measure"], name)
            reading.cells[place] = np.asarray(cell[name], float)
    return found
