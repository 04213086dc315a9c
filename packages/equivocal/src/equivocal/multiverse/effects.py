"""The paper's central effect at every point of a grid.

A multiverse asks whether the effect depends on choices that the paper leaves open:

    effect of ROLE = activation of the indicated ROLE, Bayesian − trained (MLE)

at the critical word of the last condition (reversals), averaged over networks and items. `low` and
`high` are the 95 % interval by Student's t over the networks' means, since the cells of one network
are not independent; with a single network there is none. Points share networks, so how many
intervals lie above zero is a description of the grid and not a test.
`_measure_effect` measures a point; `equivocal.multiverse.grid` makes the points.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.beliefs import LayerRows, collect_last_layer, infer_posterior
from equivocal.multiverse.grid import CHOICES, Point
from equivocal.multiverse.item_choices import choose_items
from equivocal.multiverse.tasks import Task
from equivocal.network import Run
from equivocal.paper.activations import collect_features, list_questions
from equivocal.statistics.summaries import compare_pairs
from equivocal.store.store import POSTERIOR_CODE, hash_content, hash_files
from equivocal.world import World
from equivocal.world.items import load_stimuli
from lastlayer import Posterior

# what the result of a point depends on
GRID_CODE = (
    *POSTERIOR_CODE,
    *(f"equivocal/{part}" for part in ("truth.py", "statistics", "paper", "multiverse")),
)
STATE = ("time", "converged", "diverged")  # keys of `describe_state`


def make_effect_tasks(points: Sequence[Point]) -> dict[str, Task]:
    """Make a task for each point of a multiverse, by a hash of all that its result depends on."""
    study = points[0].settings
    world, source = World.load(study.world_source), study.stimuli_path
    own = load_stimuli(source, world)
    condition, stimuli_key = own.conditions[-1], hash_files(source)
    tasks = {}
    for point in points:
        training, inference = point.settings.training_settings, point.settings.inference
        reading = (point.varied["items"], point.varied["critical_word"])
        asked = list_questions(choose_items(own, world, *reading), condition)
        what = [asdict(training), world.fingerprint, stimuli_key, condition]
        sampler = inference.samplers["paper"].model_dump()
        key = hash_content(point.varied, sampler, inference.seed, *what, code=GRID_CODE)
        tasks[key] = Task(world, training, _measure_effect, (point, asked))
    return tasks


def _measure_effect(networks: Path, point: Point, asked: pd.DataFrame) -> dict[str, Any]:
    """Measure the effect at one point, on a worker."""
    inference = point.settings.inference
    run, layers = load_run(networks), collect_layers(networks, inference.rows)
    column, units = pd.factorize(asked["unit"])
    units_watched = [run.world.units.index(unit) for unit in units]
    trained, bayes, posteriors = [], [], []
    for index, network in enumerate(run.networks):
        # units that are not watched would cost time and change nothing
        layer = layers[index].select(units_watched)
        sampler, seed = inference.samplers["paper"], inference.get_seed(index)
        posterior = infer_posterior(layer, sampler, inference.central_prior, seed, diagnose=False)
        psi = collect_features(network, asked)
        trained.append(expit((psi * layer.trained[column]).sum(axis=1).astype(float)))
        bayes.append(posterior.predict_proba(psi)[np.arange(len(psi)), column].astype(float))
        posteriors.append(posterior)
    row = {**point.varied, "networks": len(posteriors), "num_items": asked["item"].nunique()}
    for role in asked["probe"].unique():
        here = (asked["probe"] == role).to_numpy()
        cells = average_cells(*(np.stack(values)[:, here] for values in (trained, bayes)))
        row |= {f"{name}_{role}": value for name, value in cells.items()}
    return row | describe_state(posteriors)


def describe_state(posteriors: Sequence[Posterior]) -> dict[str, float]:
    """Return the state of the samplers of all networks at their end, by the names of `STATE`."""
    infos = [posterior.info for posterior in posteriors]
    return {
        "time": float(np.median([info.time for info in infos])),  # τ reached
        "converged": all(info.converged for info in infos),
        "diverged": int(sum(info.diverged.sum() for info in infos)),  # units of all networks
    }


@lru_cache(maxsize=1)  # points that share networks are run one after the other
def load_run(networks: Path) -> Run:
    """Load trained networks, on a worker."""
    return Run.load(networks)


@lru_cache(maxsize=3)  # one for each kind of rows
def collect_layers(networks: Path, rows: str) -> list[LayerRows]:
    """Collect the rows of every network, on a worker."""
    run = load_run(networks)
    return [collect_last_layer(run, network, rows) for network in run.networks]


def average_cells(trained: np.ndarray, bayes: np.ndarray) -> dict[str, float]:
    """Average activations (network, item) of one role, with an interval over networks."""
    test = compare_pairs(bayes.mean(axis=1), trained.mean(axis=1))
    ends = {"effect": test.mean, "low": test.ci_low, "high": test.ci_high}
    return {"mle": float(trained.mean()), "bayes": float(bayes.mean()), **ends}


def list_roles(table: pd.DataFrame) -> list[str]:
    """List the roles whose effect is in a table."""
    names = (str(name) for name in table.columns)
    return [name.removeprefix("effect_") for name in names if name.startswith("effect_")]


def make_curve_table(table: pd.DataFrame, role: str) -> pd.DataFrame:
    """Make the input of `draw_specification_curve`: effect, interval and varying choices."""
    columns = {name: table[f"{name}_{role}"] for name in ("effect", "low", "high")}
    columns |= {
        name.replace("_", " "): table[name] for name in CHOICES if table[name].nunique() > 1
    }
    return pd.DataFrame(columns)


def tabulate_effects(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the distribution of each role's effect over specifications.

    Returns
    -------
    DataFrame
        A row for each role: shares of positive effects and of intervals above zero; smallest,
        median, largest.
    """
    rows = []
    for role in list_roles(table):
        effect, low = table[f"effect_{role}"], table[f"low_{role}"]
        above = low.dropna() > 0  # a single network has no interval
        shares = {"share_positive": (effect > 0).mean(), "share_interval_above": above.mean()}
        ends = {"smallest": effect.min(), "median": effect.median(), "largest": effect.max()}
        rows.append({"role": role, **shares, **ends})
    return pd.DataFrame(rows)


def describe_effects(table: pd.DataFrame) -> tuple[str, ...]:
    """Say how the effect is distributed over specifications, a sentence for each role."""
    said = [
        f"Indicated {row['role']}: the effect is positive in {row['share_positive']:.0%} of "
        f"{len(table)} specifications, from {row['smallest']:.2g} to {row['largest']:.2g}, median "
        f"{row['median']:.2g} (activation, Bayesian − trained)."
        for row in tabulate_effects(table).to_dict("records")
    ]
    diverged = (table["diverged"] > 0).sum()
    counts = f"{table['networks'].iloc[0]} networks; {table['converged'].sum()} specifications"
    return (*said, f"{counts} converged and {diverged} diverged in some unit.")
