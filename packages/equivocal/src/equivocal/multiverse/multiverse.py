"""The measurements at every point of a grid: the paper's central effect, or a whole study.

A multiverse asks whether the effect depends on choices that the paper leaves open:

    effect of ROLE = activation of the indicated ROLE, Bayesian − trained (MLE)

at the critical word of the last condition (reversals), averaged over networks and items. `low` and
`high` are the 95 % interval by Student's t over the networks' means, since the cells of one network
are not independent; with a single network there is none. Points share networks, so how many
intervals lie above zero is a description of the grid and not a test.
`_measure_effect` measures a point; `equivocal.multiverse.grid` makes the points.

A sweep runs a study at every point, and joins the tables of all points:

    DIR/sweep.csv           claims: a row per point and claim, the varied settings in front
    DIR/tables/NAME.csv     each table of the study likewise

Cells are copied as text from the tables of the studies, and no number is parsed and formatted
again, so that an interrupted sweep ends with the same bytes. `equivocal.multiverse.tasks` trains
the networks and runs the points.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.beliefs import LayerRows, collect_last_layer, infer_posterior
from equivocal.multiverse.grid import CHOICES, SETTINGS, TRAINING, Grid, Point
from equivocal.multiverse.tasks import Parcel, Task, make_scratch_folder
from equivocal.network import Run
from equivocal.paper.claims import COLUMNS
from equivocal.paper.comparisons import collect_features, list_questions
from equivocal.paper.preparation import check_nuts, check_questions, check_samplers, prepare
from equivocal.paper.settings import StudySettings
from equivocal.statistics.summaries import compare_pairs, compute_variance_shares
from equivocal.store.store import STUDY_CODE, hash_content, hash_files
from equivocal.world import World
from equivocal.world.items import choose_items, load_stimuli
from lastlayer import Posterior

CELLS = ("mle", "bayes", "effect", "low", "high")  # keys of `average_cells`
STATE = ("time", "converged", "diverged")  # keys of `describe_state`
GIVEN = "given.csv"  # the stimuli sent to a worker; the study makes its own copy of them


def make_effect_tasks(grid: Grid) -> dict[str, Task]:
    """Make a task for each point of a multiverse, by a hash of all that its result depends on."""
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
        what = [asdict(training), world.fingerprint, stimuli_key, condition]
        key = hash_content(point.varied, sampler, inference.seed, *what, code=STUDY_CODE)
        is_valid = partial(_is_effect, point.varied, list(there["probe"].unique()))
        tasks[key] = Task(world, training, _measure_effect, (point, there), is_valid)
    return tasks


def _get_reading(point: Point) -> tuple[str, str]:
    """Return the items and the critical word of a point."""
    return point.varied["items"], point.varied["critical_word"]


def _is_effect(choices: dict[str, Any], roles: Sequence[str], row: Any) -> bool:
    """Return whether a value has the form of a result of `_measure_effect` for these choices."""
    numbers = {"networks", "num_items", *STATE}
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
def load_run(networks: Parcel) -> Run:
    """Load trained networks, on a worker."""
    with make_scratch_folder() as folder:
        networks.unpack(folder)
        return Run.load(folder)


@lru_cache(maxsize=3)  # one for each kind of rows
def collect_layers(networks: Parcel, rows: str) -> list[LayerRows]:
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


def compute_effect_shares(table: pd.DataFrame) -> pd.DataFrame:
    """Compute how much of the variance of each role's effect the choices explain.

    Parameters
    ----------
    table : DataFrame
        As `run_multiverse` returns it.

    Returns
    -------
    DataFrame
        As `equivocal.statistics.summaries.compute_variance_shares` returns it, for every role.
    """
    units = {"training": TRAINING, "posterior": (*TRAINING, *SETTINGS)}  # choices that they share
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
        above = low.dropna() > 0  # a single network has no interval
        shares = {"share_positive": (effect > 0).mean(), "share_interval_above": above.mean()}
        ends = {"smallest": effect.min(), "median": effect.median(), "largest": effect.max()}
        rows.append({"role": role, **shares, **ends})
    return pd.DataFrame(rows)


def make_study_task(settings: StudySettings) -> tuple[str, Task]:
    """Make the task of one point of a sweep, which a worker can run without files of this machine.

    Parameters
    ----------
    settings : StudySettings
        What the study is run with.

    Returns
    -------
    str
        A hash of all that the result depends on.
    Task
        The study's run on trained networks.
    """
    source, world = settings.stimuli_path, World.load(settings.world_source)
    check_questions(world, load_stimuli(source, world), settings)
    training = settings.training_settings
    # the world is sent with the networks
    changes = {"world": "world.toml", "stimuli.file": GIVEN, "training": asdict(training)}
    there = settings.change(changes).model_copy(update={"folder": "", "given": ()})
    stimuli = source.read_text(encoding="utf-8-sig")
    what = there.model_dump(mode="json"), stimuli, world.text
    key = hash_content("study", *what, code=STUDY_CODE)
    check = partial(_check_before_training, there)
    return key, Task(world, training, _run_study, (there, stimuli), _is_study, check)


def _check_before_training(settings: StudySettings) -> None:
    """Check on a worker, before networks are trained, that posteriors can be sampled there."""
    check_samplers(settings)
    check_nuts(settings)


def _run_study(networks: Parcel, settings: StudySettings, stimuli: str) -> dict[str, Any]:
    """Run a study on trained networks, on a worker, and return its tables as text."""
    with make_scratch_folder() as folder:
        networks.unpack(folder)
        (folder / GIVEN).write_text(stimuli, encoding="utf-8")
        study = prepare(settings.model_copy(update={"folder": str(folder)}), folder)
        for stage in (study.infer, study.probe):
            stage(lambda *_: None)  # the sweep's progress counts points, not their stages
        study.analyse()
        tables = {
            path.stem: path.read_text(encoding="utf-8")
            for path in sorted((folder / "tables").glob("*.csv"))
        }
        claims = (folder / "claims.csv").read_text(encoding="utf-8")
        return {"settings": settings.model_dump(mode="json"), "claims": claims, "tables": tables}


def _is_study(content: Any) -> bool:
    """Return whether a value has the form of a result of `_run_study`."""
    try:
        tables = [_read_cells(text) for text in content["tables"].values()]
        return list(_read_cells(content["claims"])) == COLUMNS and len(tables) > 0
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _read_cells(text: str) -> pd.DataFrame:
    """Read a CSV table, with every cell as text."""
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)


def join_tables(parts: Iterable[tuple[dict[str, Any], str]]) -> str:
    """Join CSV tables, given as text with the varied settings, which go in front of every row.

    A table without rows (the claims of a study that is not the paper's) gives one row of settings.
    """
    joined = []
    for varied, text in parts:
        front = {name: str(value) for name, value in varied.items()}
        cells = dict(_read_cells(text).items()) if text else {}
        rows = len(next(iter(cells.values()), ()))
        joined.append(pd.DataFrame(front | cells if rows else [front]))
    return pd.concat(joined).to_csv(index=False)
