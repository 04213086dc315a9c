"""The central effect under every specification of a grid: does it hang on an open choice?

    effect of ROLE = activation of the indicated ROLE, Bayesian − trained (MLE)

at the critical word of the last condition (reversals), averaged over networks and items. `low` and
`high` are mean ± 1.96 standard errors over the network × item cells. Cells of one network or item
are not independent, so with few networks the interval describes and does not test.

    DIR/multiverse.csv          one row per specification, in the order of the grid
    DIR/results/, networks/     what is finished, by the content of all it depends on (`many`)

The table is written from the results at the end. A run that is killed goes on where it was.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.gestalt import Run
from equivocal.inference import LastLayer, collect_last_layer, infer_posterior
from equivocal.progress import Advance
from equivocal.store.files import write_text_atomically
from equivocal.store.locks import hold_folder
from equivocal.store.parcels import Parcel
from equivocal.store.stages import hash_content, hash_files
from equivocal.study.all_items import all_items
from equivocal.study.cluster import Hire, alone
from equivocal.study.many import Task, do_missing, scratch_folder
from equivocal.study.paths import Watched, watched_rows
from equivocal.study.running import Study
from equivocal.study.settings import StudySettings
from equivocal.study.specifications import CHOICES, Grid, Specification
from equivocal.study.stimuli import load_stimuli

__all__ = ["curve_table", "movements", "roles_of", "run_multiverse", "summary"]

NORMAL_95 = 1.96
CELLS = ("mle", "bayes", "effect", "low", "high")  # of one role, see `_cells`


def run_multiverse(grid: Grid, folder: Path, on_step: Advance, hire: Hire = alone) -> pd.DataFrame:
    """Every specification that is not there yet; returns `multiverse.csv`."""
    tasks = _tasks(grid)
    with hold_folder(folder):
        done = do_missing(tasks, folder, hire, on_step)
        table = pd.DataFrame([{"key": key, **row} for key, row in done.results.items()])
        if len(table):
            write_text_atomically(folder / "multiverse.csv", table.to_csv(index=False))
    done.check()
    return table


def _tasks(grid: Grid) -> dict[str, Task]:
    """The specifications by key, in the order of the grid."""
    study = grid.study
    source = study.stimuli_path
    world = Study(study, source.parent).world
    own = load_stimuli(source, world)
    condition = own.conditions[-1]
    watched = {"study": Watched(own, condition)}
    if any(one.items == "all" for one in grid.specifications):
        watched["all"] = Watched(all_items(own, world), condition)
    tasks, stimuli_key = {}, hash_files(source)
    for one in grid.specifications:
        training = one.training(study)
        sampler = one.sampler(study.inference.samplers["paper"]).model_dump()
        what = [world.fingerprint, stimuli_key, condition]
        seed = study.inference.seed
        key = hash_content(one.model_dump(), sampler, seed, asdict(training), *what)
        there = watched[one.items]
        accepts = partial(_is_effect, one.model_dump(mode="json"), there.roles)
        tasks[key] = Task(world, training, _effect, (study, one, there), accepts)
    return tasks


def _is_effect(choices: dict[str, Any], roles: Sequence[str], row: Any) -> bool:
    """Whether something found in a store is what `_effect` gives for these choices."""
    if not isinstance(row, dict) or not choices.items() <= row.items():
        return False
    counted = ("networks", "num_items", "time", "converged", "put_back")
    numbers = [*counted, *(f"{name}_{role}" for role in roles for name in CELLS)]
    return set(row) == {*choices, *numbers} and all(
        isinstance(row[name], int | float) for name in numbers
    )


def _effect(
    networks: Parcel, study: StudySettings, one: Specification, watched: Watched
) -> dict[str, Any]:
    """On a worker: what a specification gives."""
    run, layers = _run_of(networks), _layers_of(networks, one.rows)
    sampler = one.sampler(study.inference.samplers["paper"])
    units_watched = [run.world.units.index(unit) for unit in watched.units]
    trained, bayes, infos = [], [], []
    for index, network in enumerate(run.networks):
        psi = watched_rows(network, watched)
        # units that are not watched would cost time and say nothing
        layer = layers[index].select(units_watched)
        posterior = infer_posterior(
            layer, sampler, one.prior_variance, study.inference.seed_of(index)
        )
        each = np.arange(len(watched.items))
        asked = list(zip(psi, watched.unit_of, strict=True))  # role by role
        logits = [(rows * layer.trained[units]).sum(axis=1) for rows, units in asked]
        trained.append(expit(np.array(logits, float)))
        bayes.append([posterior.predict_proba(rows)[each, units] for rows, units in asked])
        infos.append(posterior.info)
    row: dict[str, Any] = one.model_dump()
    row |= {"networks": len(infos), "num_items": len(watched.items)}
    for r, role in enumerate(watched.roles):
        of_role = (np.array(values, float)[:, r] for values in (trained, bayes))
        row |= {f"{name}_{role}": value for name, value in _cells(*of_role).items()}
    row["time"] = float(np.median([info.time for info in infos]))  # τ reached
    row["converged"] = bool(all(info.converged for info in infos))
    row["put_back"] = int(sum(info.repaired for info in infos))  # particles lost on the way
    return row


@lru_cache(maxsize=1)  # specifications that share networks follow one another
def _run_of(networks: Parcel) -> Run:
    with scratch_folder() as folder:
        networks.unpack(folder)
        return Run.load(folder)


@lru_cache(maxsize=2)  # every word and last word
def _layers_of(networks: Parcel, rows: str) -> list[LastLayer]:
    run = _run_of(networks)
    return [collect_last_layer(run, network, rows) for network in run.networks]


def _cells(trained: np.ndarray, bayes: np.ndarray) -> dict[str, float]:
    """Averages over the (network, item) cells of one role, with their interval."""
    change = (bayes - trained).ravel()
    mean = float(change.mean())
    several = len(change) > 1
    half = NORMAL_95 * float(change.std(ddof=1)) / len(change) ** 0.5 if several else np.nan
    ends = {"effect": mean, "low": mean - half, "high": mean + half}
    return {"mle": float(trained.mean()), "bayes": float(bayes.mean()), **ends}


def roles_of(table: pd.DataFrame) -> list[str]:
    """Roles whose effect is in a table."""
    names = (str(name) for name in table.columns)
    return [name.removeprefix("effect_") for name in names if name.startswith("effect_")]


def curve_table(table: pd.DataFrame, role: str) -> pd.DataFrame:
    """Effect, interval and the choices that vary, as `specification_curve` draws them."""
    varied = [name for name in CHOICES if table[name].nunique() > 1]
    shown = {name: table[f"{name}_{role}"] for name in ("effect", "low", "high")}
    return pd.DataFrame({**shown, **{name.replace("_", " "): table[name] for name in varied}})


def movements(table: pd.DataFrame, role: str) -> "pd.Series[float]":
    """How far each choice alone moves the effect: the largest range with all others held fixed."""
    effect, moved = f"effect_{role}", {}
    for name in CHOICES:
        if table[name].nunique() > 1:
            others = [other for other in CHOICES if other != name]
            groups = table.groupby(others, sort=False)[effect]
            moved[name] = float((groups.max() - groups.min()).max())
    return pd.Series(moved, dtype=float).sort_values(ascending=False, kind="stable")


def summary(table: pd.DataFrame, role: str) -> dict[str, float]:
    """The distribution of the effect over specifications."""
    effect = table[f"effect_{role}"]
    return {
        "share_positive": float((effect > 0).mean()),
        "share_interval_above": float((table[f"low_{role}"] > 0).mean()),
        "smallest": float(effect.min()),
        "median": float(effect.median()),
        "largest": float(effect.max()),
    }
