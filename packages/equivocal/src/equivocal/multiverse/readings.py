"""The measurements of a design's specifications, and which of the paper's facts they meet.

A record contains the cells behind the paper's tables and figures: for every reading (items and
word), condition and measure (`equivocal.paper.tables`), an array of networks × items for the
trained network and for the Bayesian model at three priors, 0.01, 1 and 5 times the prior variance
of the specification (appendix D; 1 is that of the main analysis). Facts are judged from records, so
a new fact needs no new posterior unless it asks for a measure that records lack.

The facts that the paper prints about its results, their sources and tolerances are data:
`record/facts.toml`, which also explains each rule. A new fact of a known rule is an entry there; a
new rule is a function and a line of `RULES`. A fact is 1 (met), 0 (not met), or NaN where the
reading cannot decide it: too few networks for a test, differences that do not vary, or a measure
that was not taken. `tabulate_matches` makes a row for each specification and reading, from which
the other tables are computed: how many meet each fact, and which specification is nearest.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from equivocal.beliefs import infer_posterior
from equivocal.multiverse.designs import Design
from equivocal.multiverse.effects import (
    GRID_CODE,
    STATE,
    collect_layers,
    describe_state,
    load_run,
)
from equivocal.multiverse.grid import TRAINING, Point, Specification, make_point
from equivocal.multiverse.item_choices import choose_items
from equivocal.multiverse.tasks import Task
from equivocal.paper.activations import collect_features
from equivocal.paper.study import list_non_relevant
from equivocal.paper.tables import list_measures
from equivocal.statistics.summaries import compare_with_zero
from equivocal.store import read_toml
from equivocal.store.store import hash_content, hash_files
from equivocal.world import World
from equivocal.world.items import Items, load_stimuli

PRIORS = (0.01, 1.0, 5.0)  # factors of the specification's prior variance, from appendix D
SCORES = ("unit_accuracy", "exact_match")
PLACE = ("items", "word", "condition", "measure")  # keys of an array of cells
DIGITS = 9  # as many as a float32 needs
Fact = dict[str, Any]
ESTIMATES = ("mle", *map(str, PRIORS))
MAIN = "1.0"  # factor of the prior variance in the main analysis
CERTAIN = 1e-12  # activations are clipped to this distance from 0 and 1


def make_reading_tasks(design: Design) -> dict[str, Task]:
    """Make a task for each specification, by a hash of all that its record depends on."""
    study = design.study
    world, source = World.load(study.world_source), study.stimuli_path
    asked = _list_questions(load_stimuli(source, world), world, design)
    tasks = {}
    for one in design.points:
        point = make_point(study, one)
        training, inference = point.settings.training_settings, point.settings.inference
        sampler = inference.samplers["paper"].model_dump()
        what = [inference.rows, inference.central_prior, inference.seed, design.readings, PRIORS]
        data = [world.fingerprint, hash_files(source), study.stimuli.non_relevant]
        key = hash_content("reading", sampler, asdict(training), *what, *data, code=GRID_CODE)
        tasks[key] = Task(world, training, _measure_cells, (point, asked))
    return tasks


def _list_questions(own: Items, world: World, design: Design) -> pd.DataFrame:
    """List every measure of every sentence: `PLACE`, item, probe, units and the words so far."""
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


def _score_networks(networks: Path) -> dict[str, list[float]]:
    scores = load_run(networks).scores
    return {name: [float(value) for value in scores[name]] for name in SCORES}


def _measure_cells(networks: Path, point: Point, asked: pd.DataFrame) -> dict[str, Any]:
    """Measure everything about one specification, on a worker."""
    inference, run = point.settings.inference, load_run(networks)
    names = list(dict.fromkeys(unit for units in asked["units"] for unit in units))
    watched = [run.world.units.index(unit) for unit in names]
    sets = [[names.index(unit) for unit in units] for units in asked["units"]]
    answers: dict[str, list[np.ndarray]] = {name: [] for name in ESTIMATES}
    main = []  # posteriors of the main analysis
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
                main.append(posterior)
        for name, values in found.items():
            answers[name].append(
                np.array([values[at, units].mean() for at, units in zip(first, sets, strict=True)])
            )
    return {
        "scores": _score_networks(networks),
        **describe_state(main),
        "cells": _arrange(asked, {name: np.stack(values) for name, values in answers.items()}),
    }


def _collect_distinct(network: Any, asked: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Collect ψ of each distinct question, and the index of each row's question."""
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


@dataclass(frozen=True)
class Reading:
    """The part of a record that belongs to one choice of items and critical word.

    Attributes
    ----------
    scores : dict of str to list
        Accuracies of the networks, by name.
    cells : dict
        Activations (networks, items) by condition, measure and estimate: "mle", or the factor of
        the prior variance.
    """

    scores: dict[str, list[float]]
    cells: dict[tuple[str, str, str], np.ndarray]

    def get(self, condition: str, measure: str, estimate: str) -> np.ndarray:
        """Return activations (networks, items), or a single NaN where they were not measured."""
        return self.cells.get((condition, measure, estimate), np.full((1, 1), np.nan))


def list_readings(record: dict[str, Any]) -> dict[tuple[str, str], Reading]:
    """List the readings of a record, by items and critical word."""
    found: dict[tuple[str, str], Reading] = {}
    for cell in record["cells"]:
        reading = found.setdefault((cell["items"], cell["word"]), Reading(record["scores"], {}))
        for name in ESTIMATES:
            place = (cell["condition"], cell["measure"], name)
            reading.cells[place] = np.asarray(cell[name], float)
    return found


@cache
def load_facts() -> tuple[Fact, ...]:
    """Load the facts in the order of the paper: id, kind, text, where, rule and its parameters."""
    path = resources.files("equivocal.multiverse") / "record" / "facts.toml"
    return tuple(read_toml(str(path))["facts"])


def judge_facts(reading: Reading) -> dict[str, float]:
    """Judge every fact: 1 where it is met, 0 where not, NaN where the reading cannot decide."""
    return {fact["id"]: RULES[fact["rule"]](fact, reading) for fact in load_facts()}


def _get(reading: Reading, fact: Fact, measure: str, estimate: str) -> np.ndarray:
    """Get activations (networks, items); "change" is Bayesian − trained at the main prior."""
    if estimate == "change":
        return _get_change(reading, fact, measure, MAIN)
    return reading.get(fact["condition"], measure, estimate)


def _get_change(reading: Reading, fact: Fact, measure: str, prior: str) -> np.ndarray:
    """Get Bayesian − trained activations (networks, items) at a prior."""
    bayes, trained = (_get(reading, fact, measure, name) for name in (prior, "mle"))
    return np.asarray(bayes - trained)


def _decide(value: float, above: float = -np.inf, below: float = np.inf) -> float:
    """Return 1 if a number lies between two limits, 0 if not, and NaN for NaN."""
    return value if np.isnan(value) else float(above < value < below)


def _judge_score(fact: Fact, reading: Reading) -> float:
    """Judge an accuracy; the paper does not say what it counts, so either score may meet it."""
    values = [100 * float(np.mean(reading.scores[name])) for name in fact["scores"]]
    return float(any(abs(value - fact["percent"]) <= fact["tolerance"] for value in values))


def _judge_level(fact: Fact, reading: Reading) -> float:
    """Judge whether a mean activation lies between limits."""
    value = float(_get(reading, fact, fact["measure"], fact["estimate"]).mean())
    return _decide(value, fact.get("above", -np.inf), fact.get("below", np.inf))


def _judge_order(fact: Fact, reading: Reading) -> float:
    """Judge whether the mean activations of measures decrease in the order given."""
    means = [_get(reading, fact, name, fact["estimate"]).mean() for name in fact["measures"]]
    return _decide(float(np.diff(means).max()), below=0.0)


def _judge_zero(fact: Fact, reading: Reading) -> float:
    """Judge a test of activations against zero."""
    return _judge_test(fact, _get(reading, fact, fact["measure"], fact["estimate"]))


def _judge_paired(fact: Fact, reading: Reading) -> float:
    """Judge a paired test of Bayesian against trained activations."""
    return _judge_test(fact, _get_change(reading, fact, fact["measure"], fact["prior"]))


def _judge_test(fact: Fact, cells: np.ndarray) -> float:
    """Judge sign, p and t of a test over networks or over items."""
    test = compare_with_zero(cells.mean(axis=1 if fact["by"] == "networks" else 0))
    met = _decide(test.p, fact.get("p_above", -np.inf), fact.get("p_below", np.inf))
    if "sign" in fact:
        met *= float(np.sign(test.t) == fact["sign"])
    if "t" in fact:
        met *= float(abs(test.t - fact["t"]) <= fact["tolerance"])
    return met


def _judge_nearer(fact: Fact, reading: Reading) -> float:
    """Judge whether the first of two priors changes activations less than the second."""
    small, large = (
        abs(float(_get_change(reading, fact, fact["measure"], prior).mean()))
        for prior in fact["priors"]
    )
    return _decide(small, below=large)


RULES: dict[str, Callable[[Fact, Reading], float]] = {
    "score": _judge_score,
    "level": _judge_level,
    "order": _judge_order,
    "zero": _judge_zero,
    "paired": _judge_paired,
    "nearer": _judge_nearer,
}


def tabulate_matches(
    points: Mapping[str, Specification],
    records: Mapping[str, dict[str, Any]],
) -> pd.DataFrame:
    """Make a row for each specification: its choices, what it meets, and the effect.

    Parameters
    ----------
    points, records : mapping
        Specification and record by key.

    Returns
    -------
    DataFrame
        `key`, `training` (a number), the choices, a column for each fact (1, 0 or NaN), `met`,
        `claims_met`, `numbers_met`, `undecided`, `effect_agent`, `effect_patient`, the same as
        differences of logits (`logit_agent`, `logit_patient`), and the state of the sampler.
    """
    trainings: dict[tuple[Any, ...], int] = {}
    rows = []
    for key, record in records.items():
        choices = points[key].model_dump()
        training = tuple(choices[name] for name in TRAINING)
        number = trainings.setdefault(training, len(trainings))
        state = {name: record[name] for name in STATE}
        for (items, word), reading in list_readings(record).items():
            own = choices | {"items": items, "critical_word": word}
            row, facts = {"key": key, "training": number}, judge_facts(reading)
            rows.append(row | own | facts | _count_met(facts) | _measure_effects(reading) | state)
    return pd.DataFrame(rows)


def _count_met(facts: dict[str, float]) -> dict[str, int]:
    """Count the facts that are met, in all and by kind, and those that are undecided."""
    kinds = {fact["id"]: fact["kind"] for fact in load_facts()}
    met = [kinds[name] for name, value in facts.items() if value == 1]
    return {
        "met": len(met),
        "claims_met": met.count("claim"),
        "numbers_met": met.count("number"),
        "undecided": int(np.isnan(list(facts.values())).sum()),
    }


def _measure_effects(reading: Reading) -> dict[str, float]:
    """Measure Bayesian − trained of the indicated words of reversals, as activations and logits."""
    effects = {}
    for role in ("agent", "patient"):
        cells = [reading.get("reversal", f"indicated {role}", name) for name in (MAIN, "mle")]
        logits = [logit(np.clip(each, CERTAIN, 1 - CERTAIN)) for each in cells]
        for name, (bayes, mle) in (("effect", cells), ("logit", logits)):
            effects[f"{name}_{role}"] = float((bayes - mle).mean())
    return effects


def find_nearest(matches: pd.DataFrame) -> pd.Series:
    """Return the row that meets most claims, and among those most facts."""
    return matches.sort_values(["claims_met", "met"], ascending=False, kind="stable").iloc[0]


def tabulate_facts(matches: pd.DataFrame) -> pd.DataFrame:
    """Tabulate each fact: where it is printed, and how many specifications meet it."""
    table = pd.DataFrame(load_facts())[["id", "kind", "text", "where"]]
    values = matches[table["id"]]
    return table.assign(
        met_by=(values == 1).sum().to_numpy(),
        undecided=values.isna().sum().to_numpy(),
        nearest=find_nearest(matches)[table["id"]].to_numpy(float),
    )
