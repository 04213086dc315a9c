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

from equivocal.errors import UserError
from equivocal.gestalt import Run
from equivocal.inference import LastLayer, collect_last_layer, infer_posterior
from equivocal.store.store import hash_content, hash_files
from equivocal.study.comparisons import collect_features, list_questions
from equivocal.study.grids import CHOICES, Grid, Point
from equivocal.study.stimuli import Stimuli, Stimulus, load_stimuli
from equivocal.study.tasks import Parcel, Task, make_scratch_folder
from equivocal.world import Utterance, World

__all__ = [
    "compute_movements",
    "list_roles",
    "make_curve_table",
    "make_effect_tasks",
    "summarise_effect",
]

NORMAL_95 = 1.96
CELLS = ("mle", "bayes", "effect", "low", "high")  # of one role, see `_average_cells`


def make_effect_tasks(grid: Grid) -> dict[str, Task]:
    """Make a task for each point of a multiverse, by a key of all that its result depends on."""
    study = grid.points[0].settings
    world, source = World.load(study.world_source), study.stimuli_path
    own = load_stimuli(source, world)
    condition, stimuli_key = own.conditions[-1], hash_files(source)
    watched = {"study": list_questions(own, condition)}
    if any(point.varied["items"] == "all" for point in grid.points):
        watched["all"] = list_questions(find_all_items(own, world), condition)
    tasks = {}
    for point in grid.points:
        training, inference = point.settings.training_settings, point.settings.inference
        there, sampler = watched[point.varied["items"]], inference.samplers["paper"].model_dump()
        what = [world.fingerprint, stimuli_key, condition]
        key = hash_content(point.varied, sampler, inference.seed, asdict(training), *what)
        is_valid = partial(_is_effect, point.varied, list(there["probe"].unique()))
        tasks[key] = Task(world, training, _measure_effect, (point, there), is_valid)
    return tasks


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
    run, layers = _load_run(networks), _collect_layers(networks, inference.rows)
    column, units = pd.factorize(asked["unit"])
    units_watched = [run.world.units.index(unit) for unit in units]
    trained, bayes, infos = [], [], []
    for index, network in enumerate(run.networks):
        # units that are not watched would cost time and change nothing
        layer = layers[index].select(units_watched)
        posterior = infer_posterior(
            layer, inference.samplers["paper"], inference.central_prior, inference.get_seed(index)
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
def _load_run(networks: Parcel) -> Run:
    with make_scratch_folder() as folder:
        networks.unpack(folder)
        return Run.load(folder)


@lru_cache(maxsize=2)  # every word and last word
def _collect_layers(networks: Parcel, rows: str) -> list[LastLayer]:
    run = _load_run(networks)
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


def compute_movements(table: pd.DataFrame, role: str) -> "pd.Series[float]":
    """Compute how far each choice alone moves the effect.

    Parameters
    ----------
    table : DataFrame
        As `run_multiverse` returns it.
    role : str
        Whose effect is looked at.

    Returns
    -------
    Series
        By choice, largest first: the largest range of the effect with all other choices fixed.
    """
    effect, moved = f"effect_{role}", {}
    for name in CHOICES:
        if table[name].nunique() > 1:
            others = [other for other in CHOICES if other != name]
            groups = table.groupby(others, sort=False)[effect]
            moved[name] = float((groups.max() - groups.min()).max())
    return pd.Series(moved, dtype=float).sort_values(ascending=False, kind="stable")


def summarise_effect(table: pd.DataFrame, role: str) -> dict[str, float]:
    """Summarise the distribution of the effect over specifications.

    Parameters
    ----------
    table : DataFrame
        As `run_multiverse` returns it.
    role : str
        Whose effect is looked at.

    Returns
    -------
    dict of str to float
        Shares of positive effects and of intervals above zero; smallest, median, largest.
    """
    effect = table[f"effect_{role}"]
    return {
        "share_positive": float((effect > 0).mean()),
        "share_interval_above": float((table[f"low_{role}"] > 0).mean()),
        "smallest": float(effect.min()),
        "median": float(effect.median()),
        "largest": float(effect.max()),
    }


def find_all_items(stimuli: Stimuli, world: World) -> Stimuli:
    """Find every item of a world that is built like those of a study.

    The first item of the study is the pattern. A sentence of the world is an item if it begins with
    as many constituents, the same markers, and the same agent. In the paper's world these are all
    pairs of a situation and what the woman does there to what: sixteen, of which the study has
    eight. The reversal is the same sentence with agent and patient exchanged, whatever the world
    makes of it.

    Parameters
    ----------
    stimuli : Stimuli
        Of a study whose last condition exchanges agent and patient of the first.
    world : World
        Whose sentences are looked through.

    Raises
    ------
    UserError
        Where the study's stimuli are built otherwise.
    """
    baseline, reversal = stimuli.conditions[0], stimuli.conditions[-1]
    pattern, turned = (stimuli.rows[name, stimuli.items[0]] for name in (baseline, reversal))
    agent, patient = (_find_position(pattern, role, world) for role in ("agent", "patient"))
    if turned.utterance.tokens != _exchange(pattern.utterance, agent, patient).tokens:
        raise UserError(
            "items = 'all' needs a study whose last condition exchanges agent and patient of the "
            f"first, unlike {str(pattern.utterance)!r} and {str(turned.utterance)!r}; leave it out."
        )
    rows: dict[tuple[str, str], Stimulus] = {}
    for utterance in _find_similar(pattern, agent, world):
        who, what = (utterance.constituents[place].word for place in (agent, patient))
        if who == what:
            continue
        if unknown := {who, what} - set(world.units):
            raise UserError(
                f"items = 'all' needs a unit named {min(unknown)!r}, as the word; leave it out."
            )
        name = str(utterance)
        back = _exchange(utterance, agent, patient)
        tracked, exchanged = {"agent": who, "patient": what}, {"agent": what, "patient": who}
        rows[baseline, name] = Stimulus(baseline, name, utterance, pattern.critical, tracked)
        rows[reversal, name] = Stimulus(reversal, name, back, turned.critical, exchanged)
    return Stimuli((baseline, reversal), tuple(dict.fromkeys(item for _, item in rows)), rows)


def _find_similar(pattern: Stimulus, agent: int, world: World) -> list[Utterance]:
    """Find beginnings of sentences that fit the pattern, each once, likeliest first."""
    wanted = pattern.utterance.constituents
    markers = [part.marker for part in wanted]
    found: dict[tuple[tuple[str, ...], ...], Utterance] = {}
    for sentence in world.sentences:
        heard = world.parse(sentence.text).first(len(wanted))
        same_markers = [part.marker for part in heard] == markers
        if same_markers and heard.constituents[agent].word == wanted[agent].word:
            found.setdefault(heard.tokens, heard)
    return list(found.values())


def _find_position(row: Stimulus, role: str, world: World) -> int:
    """Find where in a sentence the filler of a role stands."""
    unit = row.tracked.get(role)
    places = [
        place
        for place, part in enumerate(row.utterance)
        if unit and world.find_filler_units(part.word)[world.units.index(unit)]
    ]
    if len(places) != 1:
        raise UserError(
            f"items = 'all' needs one word for the {role} of {str(row.utterance)!r}, found "
            f"{len(places)}; track it in the stimulus file, or leave items out."
        )
    return places[0]


def _exchange(utterance: Utterance, one: int, other: int) -> Utterance:
    parts = list(utterance.constituents)
    parts[one], parts[other] = parts[other], parts[one]
    return Utterance(tuple(parts))
