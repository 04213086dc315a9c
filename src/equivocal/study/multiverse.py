"""The paper's central effect at every point of a grid: does it depend on an open choice?

    effect of ROLE = activation of the indicated ROLE, Bayesian − trained (MLE)

at the critical word of the last condition (reversals), averaged over networks and items. `low` and
`high` are mean ± 1.96 standard errors over the network × item cells. Cells of one network or item
are not independent, so with few networks the interval describes and does not test. What is measured
at a point is decided in `_measure_effect`; which points there are, in `equivocal.study.grids`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.gestalt import Run
from equivocal.inference import LayerRows, collect_last_layer, infer_posterior
from equivocal.store.store import hash_content, hash_files
from equivocal.study.comparisons import collect_features, list_questions
from equivocal.study.grids import CHOICES, SETTINGS, TRAINING, Grid, Point
from equivocal.study.stimuli import choose_items, load_stimuli
from equivocal.study.tasks import Parcel, Task, make_scratch_folder
from equivocal.study.variance import compute_variance_shares
from equivocal.world import World

__all__ = [
    "collect_layers",
    "compute_effect_shares",
    "list_roles",
    "load_run",
    "make_curve_table",
    "make_effect_tasks",
    "tabulate_effects",
]

NORMAL_95 = 1.96
CELLS = ("mle", "bayes", "effect", "low", "high")  # of one role, see `_average_cells`


def make_effect_tasks(grid: Grid) -> dict[str, Task]:
    """Make a task for each point of a multiverse, by a key of all that its result depends on."""
    study = grid.points[0].settings
    world, source = World.load(study.world_source), study.stimuli_path
    own = load_stimuli(source, world)
    condition, stimuli_key = own.conditions[-1], hash_files(source)
    readings = {_get_reading(point) for point in grid.points}
    watched = {one: list_questions(choose_items(own, world, *one), condition) for one in readings}
    tasks = {}
    for point in grid.points:
        training, inference = point.settings.training_settings, point.settings.inference
        there, sampler = watched[_get_reading(point)], inference.samplers["paper"].model_dump()
        what = [world.fingerprint, stimuli_key, condition]
        key = hash_content(point.varied, sampler, inference.seed, asdict(training), *what)
        is_valid = partial(_is_effect, point.varied, list(there["probe"].unique()))
        tasks[key] = Task(world, training, _measure_effect, (point, there), is_valid)
    return tasks


def _get_reading(point: Point) -> tuple[str, str]:
    return point.varied["items"], point.varied["critical_word"]


def _is_effect(choices: dict[str, Any], roles: Sequence[str], row: Any) -> bool:
    """Return whether something is what `_measure_effect` returns for these choices."""
    numbers = {"networks", "num_items", "time", "converged", "put_back"}
    numbers |= {f"{name}_{role}" for role in roles for name in CELLS}
    return (
        isinstance(row, dict)
        and row.keys() == numbers | choices.keys()
        and choices.items() <= row.items()
        and all(isinstance(row[name], int | float) for name in numbers)
    )


def _measure_effect(networks: Parcel, point: Point, asked: pd.DataFrame) -> dict[str, Any]:
    """Measure the effect at one point, on a worker."""
    inference = point.settings.inference
    run, layers = load_run(networks), collect_layers(networks, inference.rows)
    column, units = pd.factorize(asked["unit"])
    units_watched = [run.world.units.index(unit) for unit in units]
    trained, bayes, infos = [], [], []
    for index, network in enumerate(run.networks):
        # units that are not watched would cost time and change nothing
        layer = layers[index].select(units_watched)
        posterior = infer_posterior(
            layer,
            inference.samplers["paper"],
            inference.central_prior,
            inference.get_seed(index),
            diagnose=False,
        )
        psi = collect_features(network, asked)
        trained.append(expit((psi * layer.trained[column]).sum(axis=1).astype(float)))
        bayes.append(posterior.predict_proba(psi)[np.arange(len(psi)), column].astype(float))
        infos.append(posterior.info)
    row = {**point.varied, "networks": len(infos), "num_items": asked["item"].nunique()}
    for role in asked["probe"].unique():
        here = (asked["probe"] == role).to_numpy()
        cells = _average_cells(*(np.stack(values)[:, here] for values in (trained, bayes)))
        row |= {f"{name}_{role}": value for name, value in cells.items()}
    row["time"] = float(np.median([info.time for info in infos]))  # τ reached
    row["converged"] = bool(all(info.converged for info in infos))
    row["put_back"] = int(sum(info.repaired for info in infos))  # particles lost on the way
    return row


@lru_cache(maxsize=1)  # points that share networks follow one another
def load_run(networks: Parcel) -> Run:
    """Load trained networks, on a worker."""
    with make_scratch_folder() as folder:
        networks.unpack(folder)
        return Run.load(folder)


@lru_cache(maxsize=3)  # every word, last word, drawn pairs
def collect_layers(networks: Parcel, rows: str) -> list[LayerRows]:
    """Collect the rows of every network, on a worker."""
    run = load_run(networks)
    return [collect_last_layer(run, network, rows) for network in run.networks]


def _average_cells(trained: np.ndarray, bayes: np.ndarray) -> dict[str, float]:
    """Average over the (network, item) cells of one role, with an interval."""
    change = (bayes - trained).ravel()
    mean = float(change.mean())
    several = len(change) > 1
    half = NORMAL_95 * float(change.std(ddof=1)) / len(change) ** 0.5 if several else np.nan
    ends = {"effect": mean, "low": mean - half, "high": mean + half}
    return {"mle": float(trained.mean()), "bayes": float(bayes.mean()), **ends}


def list_roles(table: pd.DataFrame) -> list[str]:
    """List the roles whose effect is in a table."""
    names = (str(name) for name in table.columns)
    return [name.removeprefix("effect_") for name in names if name.startswith("effect_")]


def make_curve_table(table: pd.DataFrame, role: str) -> pd.DataFrame:
    """Select effect, interval and the choices that vary, as `specification_curve` draws them."""
    varied = [name for name in CHOICES if table[name].nunique() > 1]
    shown = {name: table[f"{name}_{role}"] for name in ("effect", "low", "high")}
    return pd.DataFrame({**shown, **{name.replace("_", " "): table[name] for name in varied}})


def compute_effect_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Compute how much of the variance of each role's effect the choices explain.

    Parameters
    ----------
    table : DataFrame
        As `run_multiverse` returns it.

    Returns
    -------
    DataFrame
        As `equivocal.study.variance.compute_variance_shares` returns it, for every role.
    """
    units = {"training": TRAINING, "posterior": (*TRAINING, *SETTINGS)}  # what rows share
    numbered = table.assign(
        **{unit: table.groupby(list(own), sort=False).ngroup() for unit, own in units.items()}
    )
    outcomes = [f"effect_{role}" for role in list_roles(table)]
    return pd.concat(
        [compute_variance_shares(numbered, one, CHOICES, units=list(units)) for one in outcomes],
        ignore_index=True,
    )


def tabulate_effects(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the distribution of each role's effect over specifications.

    Parameters
    ----------
    table : DataFrame
        As `run_multiverse` returns it.

    Returns
    -------
    DataFrame
        A row for each role: shares of positive effects and of intervals above zero; smallest,
        median, largest.
    """
    rows = []
    for role in list_roles(table):
        effect, low = table[f"effect_{role}"], table[f"low_{role}"]
        shares = {"share_positive": (effect > 0).mean(), "share_interval_above": (low > 0).mean()}
        ends = {"smallest": effect.min(), "median": effect.median(), "largest": effect.max()}
        rows.append({"role": role, **shares, **ends})
    return pd.DataFrame(rows)
