"""Comprehenders beside people: what `equivocal people` does.

    OUT/networks/                    trained networks
    OUT/tables/, OUT/figures/, OUT/people.toml

Who is compared:

ideal             the exact noisy-channel comprehender of the world; one
trained           a participant is a trained network
paper's sampler   a participant is a particle, stopped after 17 steps
posterior         a participant is a particle of the converged posterior; also with the evidence of
                  a sentence counted once (b)
deep ensemble     the mean belief of all networks; one

Participants answer by drawing from their beliefs, so that shares, w and b are expectations. What a
number, a reading or an area is, is defined in `equivocal.human_data`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from equivocal.errors import UserError
from equivocal.experiments.frontier import FrontierSettings
from equivocal.experiments.networks import choose_training, train_or_load
from equivocal.experiments.result import Figures, Result, describe_run
from equivocal.gestalt import Run, TrainingSettings
from equivocal.human_data.adaptation import SENTENCES, adapt_to_list
from equivocal.human_data.fitting import POINTS, WorldFit, fit_world
from equivocal.human_data.ideal_comparison import compare_with_ideal, tabulate_items
from equivocal.human_data.participants import (
    answer_questions,
    compute_question_features,
    take_particles,
)
from equivocal.human_data.people import (
    compare_with_people,
    load_people,
    select_shares,
    tabulate_areas,
    tabulate_readings,
)
from equivocal.human_data.people_summary import describe_people, summarise_scores
from equivocal.human_data.plausibility import ANY, AskedItems, ask_about_items, believe_ideal
from equivocal.inference import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.progress import Advance, progress
from equivocal.store.locks import hold_folder
from equivocal.store.overwrite import announce_overwrite, refuse_foreign_files
from equivocal.world import World

__all__ = ["IDEAL", "PeopleResult", "compare_people"]

IDEAL, TRAINED, SAMPLER = "ideal", "trained", "paper's sampler"
POSTERIOR, BY_SENTENCE, ENSEMBLE = "posterior", "posterior, b by sentence", "deep ensemble"
PARTICLES = 5  # of each network that are participants
VARIANCE = 1.0  # of the prior, the paper's central one
CONVERGED = SamplerSettings(method="exact-flow", num_particles=2, tolerance=0.01)
COMPARED = ("world", "parameters", "fitted", "networks", "seed", "training")  # make it another run
QUICK_POINTS = 3  # of a profile
DIGITS = 4  # of fitted values, so that they can be written behind a world's name


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleResult(Result):
    """Comprehenders beside people.

    `tables` holds "people" (every human number beside every comprehender, with source, status and
    what is comparable), "scores" (deviances and their floors), "readings", "areas", "list" (what a
    list of sentences teaches the ideal comprehender), "items" and "against_ideal" (every sentence
    beside the exact belief) and, if the world was fitted, "fit", "fit_shares" and "profiles".
    """

    def draw(self) -> Figures:
        """Draw comprehenders beside people, each against the ideal one, and the fit."""
        from equivocal.report.people_figures import draw_against_ideal, draw_fit, draw_people

        tables = self.tables
        drawn = (tables[name] for name in ("people", "readings", "areas", "list"))
        figures = {"people": draw_people(*drawn)}
        if len(tables["against_ideal"]):
            figures["against_ideal"] = draw_against_ideal(tables["items"], tables["against_ideal"])
        if "fit" in tables:
            figures["fit"] = draw_fit(tables["fit"], tables["profiles"], tables["people"])
        return figures


def compare_people(
    world: str | Path | World = "both_ways",
    out: str | Path = "runs/people",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: int | None = None,
    fit: bool = False,
    parameters: Sequence[str] = (),
    training: TrainingSettings | None = None,
) -> PeopleResult:
    """Compare comprehenders with published data on how people read implausible sentences.

    Networks that the folder holds are used again.

    Parameters
    ----------
    world : str, Path or World
        In which agents and patients are named, and which can be enumerated.
    out : str or Path
        Folder for networks, tables and figures.
    quick : bool
        Two small networks, only to check that it works; do not report the results.
    networks : int, optional
        How many networks to train; ten unless `quick`. With 0 the ideal comprehender is alone.
    seed : int, optional
        The same seed gives the same numbers.
    fit : bool
        Fit the parameters of the world to people's shares of readings first, by the likelihood of
        the ideal comprehender; everything else is done in the world with the fitted values.
    parameters : sequence of str
        Those that are fitted; all that have an effect, unless given.
    training : TrainingSettings, optional
        How networks are trained, in the place of `quick`, `networks` and `seed`.

    Returns
    -------
    PeopleResult
        Already written to `out`.

    Raises
    ------
    UserError
        Where an argument is wrong, the world has no such sentences or nothing to fit, or the folder
        holds networks with other settings.
    """
    began, out, people = perf_counter(), Path(out), load_people()
    if parameters and not fit:
        raise UserError("parameters (--parameter) are those to be fitted; add fit (--fit) as well.")
    alone = networks == 0 and training is None
    if training is None:
        training = choose_training(None if alone else networks, seed, quick=quick)
    world = world if isinstance(world, World) else World.load(world)
    asked, fitted = ask_about_items(world), None
    with hold_folder(out):
        if not (out / "people.toml").exists():
            refuse_foreign_files(out / "networks", ["tables", "figures"])
        if fit:
            fitted = _fit(asked, select_shares(people), parameters, quick)
            asked = ask_about_items(_set_values(world, fitted))
        run = None if alone else train_or_load(asked.world, training, out / "networks")
        with progress("comprehenders") as advance:
            beliefs = _believe(run, asked, training.seed, advance) if run else {}
        beliefs = {IDEAL: believe_ideal(asked), **beliefs}
        tables = _tabulate(people, asked, beliefs, run, fitted, training.seed)
        about = _describe_settings(asked.world, run, training, fitted=fit)
        result = PeopleResult(
            name="people",
            tables=tables,
            settings=describe_run(began, **about),
            summary=describe_people(tables, asked.world),
        )
        announce_overwrite(out / "people.toml", result.settings, COMPARED)
        result.write(out)
    return result


def _describe_settings(
    world: World, run: Run | None, training: TrainingSettings, *, fitted: bool
) -> dict[str, object]:
    """Return all that shaped the tables, for the record."""
    return {
        "world": world.name,
        "fingerprint": world.fingerprint,
        "parameters": world.parameters,
        "fitted": fitted,
        "networks": len(run.networks) if run else 0,
        "particles": PARTICLES,
        "prior_variance": VARIANCE,
        "list_sentences": SENTENCES,
        "seed": training.seed,
        "training": asdict(training) if run else {},
    }


def _fit(
    asked: AskedItems, shares: pd.DataFrame, parameters: Sequence[str], quick: bool
) -> WorldFit:
    with progress("fitting the world to people") as advance:
        points = QUICK_POINTS if quick else POINTS
        return fit_world(asked, shares, parameters=parameters, points=points, advance=advance)


def _set_values(world: World, fitted: WorldFit) -> World:
    """Return the world with fitted values, rounded so that they can be written by hand."""
    values = {name: float(f"{value:.{DIGITS}g}") for name, value in fitted.values.items()}
    return World.from_toml(world.text, world.source, values)


def _believe(run: Run, asked: AskedItems, seed: int, advance: Advance) -> dict[str, np.ndarray]:
    """Return what the participants of each kind believe: (participants, questions, 3)."""
    units = sorted({unit for question in asked.questions for unit in question.units})
    numbers = [run.world.units.index(unit) for unit in units]
    samplers = {
        SAMPLER: FrontierSettings().sampler,
        POSTERIOR: CONVERGED,
        BY_SENTENCE: CONVERGED.model_copy(update={"evidence": "sentence"}),
    }
    found: dict[str, list[np.ndarray]] = {name: [] for name in (TRAINED, *samplers)}
    for index, network in enumerate(run.networks):
        advance(index, len(run.networks), f"network {index}")
        psi = compute_question_features(network, asked.questions)
        layer = collect_last_layer(run, network).select(numbers)
        layers = {TRAINED: layer.trained[:, None]}
        for name, sampler in samplers.items():
            posterior = infer_posterior(layer, sampler, VARIANCE, seed + index, diagnose=False)
            layers[name] = take_particles(posterior, PARTICLES, seed + index)
        for name, own in layers.items():
            found[name].append(answer_questions(psi, asked.questions, units, own))
    advance(len(run.networks), len(run.networks), "all have answered")
    beliefs = {name: np.concatenate(parts) for name, parts in found.items()}
    return {**beliefs, ENSEMBLE: beliefs[TRAINED].mean(axis=0, keepdims=True)}


def _tabulate(
    people: pd.DataFrame,
    asked: AskedItems,
    beliefs: dict[str, np.ndarray],
    run: Run | None,
    fitted: WorldFit | None,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Tabulate everything that is written."""
    readings = tabulate_readings(asked, beliefs, seed=seed)
    areas = tabulate_areas(asked, beliefs)
    listed = adapt_to_list(asked) if asked.world.parameters else pd.DataFrame()
    learned = listed
    if len(listed):
        learned = listed[(listed["learns"] == "both") & (listed["construction"] == ANY)]
        learned = learned.assign(comprehender=IDEAL)
    compared = compare_with_people(people, readings, areas, learned)
    if fitted is not None:
        compared["fitted"] = compared["deviance"].notna()
        compared.loc[compared["fitted"], "floor"] = np.nan  # the shares were chosen to be near
    ideal = beliefs[IDEAL]
    others = {name: own for name, own in beliefs.items() if name != IDEAL}
    tables = {
        "people": compared,
        "scores": summarise_scores(compared),
        "readings": readings,
        "areas": areas,
        "list": listed,
        "items": tabulate_items(asked, beliefs, ideal),
        "against_ideal": compare_with_ideal(asked, others, ideal, len(run.networks) if run else 1),
    }
    if fitted is not None:
        tables |= {"fit": fitted.estimates, "fit_shares": fitted.shares}
        tables |= {"profiles": fitted.profiles}
    return tables
