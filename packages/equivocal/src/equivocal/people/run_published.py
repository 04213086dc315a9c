"""Comprehenders compared with people: the function behind `equivocal people`.

    OUT/networks/                    trained networks
    OUT/tables/, OUT/figures/, OUT/people.toml

The comprehenders:

ideal             the exact noisy-channel comprehender of the world; a single one
trained           a participant is a trained network
paper's sampler   a participant is a particle, stopped after 17 steps
posterior         a participant is a particle of the converged posterior; also with the evidence of
                  a sentence counted once (b by sentence)
deep ensemble     the mean belief of all networks; a single one
ensemble, b = …   the mean belief of all networks' posteriors, the evidence weighted by b, with
                  settings on the frontier (`frontier`); a single one each

Participants answer by drawing from their beliefs, so shares, w and b are expectations. Human
numbers, readings and areas are defined in `equivocal.people`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.doubt.run_frontier import FrontierSettings
from equivocal.network import Run, TrainingSettings
from equivocal.network.train_or_load import choose_training, train_or_load
from equivocal.people import participants, reading_tables
from equivocal.people.fitting import POINTS, WorldFit, fit_world, tabulate_ranges
from equivocal.people.published import (
    compare_with_people,
    describe_people,
    load_people,
    select_shares,
    summarise_scores,
)
from equivocal.people.questions import AskedItems, ask_about_items, believe_ideal
from equivocal.people.reading_tables import SENTENCES, adapt_to_list, select_learner
from equivocal.progress import Advance, progress
from equivocal.result import Figures, Result, describe_run
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.world import World
from lastlayer.errors import UserError
from lastlayer.seeds import Seed

__all__ = ["IDEAL", "PeopleResult", "compare_people"]

Arrays = dict[str, np.ndarray]  # by comprehender

IDEAL, TRAINED, SAMPLER = "ideal", "trained", "paper's sampler"
POSTERIOR, BY_SENTENCE, ENSEMBLE = "posterior", "posterior, b by sentence", "deep ensemble"
PARTICLES = 5  # participants per network
VARIANCE = 1.0  # prior variance, the paper's central one
CONVERGED = SamplerSettings(method="exact-flow", num_particles=2, tolerance=0.01)
# ensembles of posteriors on the frontier (docs/doubt.md): weight of the evidence, prior variance
FRONTIER = {"ensemble, b = 1/10": (1 / 10, 1.0), "ensemble, b = 1/300": (1 / 300, 0.1)}
AVERAGED = 50  # particles of each network in an ensemble of posteriors
# settings that make a run a different one
COMPARED = ("world", "parameters", "fitted", "networks", "seed", "training")
QUICK_POINTS = 3  # points of a profile with `quick`
DIGITS = 4  # significant digits of fitted values, short enough to type after a world's name


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleResult(Result):
    """Comprehenders compared with people.

    `tables` holds "people" (every human number beside that of every comprehender, with source,
    status and comparability), "scores" (deviances and their floors), "readings", "areas", "list"
    (what a list of sentences teaches the ideal comprehender), "items" and "against_ideal" (beliefs
    in every sentence compared with the exact belief) and, if the world was fitted, "fit",
    "fit_shares" and "profiles".
    """

    def draw(self) -> Figures:
        """Draw comprehenders beside people, each against the ideal one, and the fit."""
        from equivocal.people.figures import draw_against_ideal, draw_fit, draw_people

        tables = self.tables
        drawn = (tables[name] for name in ("people", "readings", "areas", "list"))
        figures = {"people": draw_people(*drawn)}
        if len(tables["against_ideal"]):
            figures["against_ideal"] = draw_against_ideal(tables["items"], tables["against_ideal"])
        if "fit" in tables:
            profiles = tables["profiles"]
            excess = profiles["deviance"] - profiles["deviance"].min()
            figures["fit"] = draw_fit(
                tables["fit"], profiles.assign(excess=excess), tables["people"]
            )
        return figures


def compare_people(
    world: str | Path | World = "both_ways",
    out: str | Path = "runs/people",
    *,
    quick: bool = False,
    networks: int | None = None,
    seed: Seed | None = None,
    fit: bool = False,
    parameters: Sequence[str] = (),
    training: TrainingSettings | None = None,
) -> PeopleResult:
    """Compare comprehenders with published data on how people read implausible sentences.

    Networks in the folder are reused.

    Parameters
    ----------
    world : str, Path or World
        A world with agents and patients that can be enumerated.
    out : str or Path
        Folder for networks, tables and figures.
    quick : bool
        Two small networks, only to check that it works; do not report the results.
    networks : int, optional
        The number of networks to train; ten unless `quick`. With 0 only the ideal comprehender is
        compared.
    seed : int or numpy.random.Generator, optional
        The same seed gives the same numbers.
    fit : bool
        First fit the parameters of the world to people's shares of readings, by the likelihood of
        the ideal comprehender; everything else then uses the world with the fitted values.
    parameters : sequence of str
        The parameters to fit; by default all that have an effect.
    training : TrainingSettings, optional
        How networks are trained; replaces `quick`, `networks` and `seed`.

    Returns
    -------
    PeopleResult
        Already written to `out`.

    Raises
    ------
    UserError
        If an argument is wrong, the world has no such sentences or nothing to fit, or the folder
        holds networks with other settings.
    """
    began, out, people = perf_counter(), Path(out), load_people()
    if parameters and not fit:
        raise UserError("parameters (--parameter) are those to be fitted; add fit (--fit) as well.")
    alone = networks == 0 and training is None
    training = training or choose_training(networks or None, seed, quick=quick)
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
            believed, owners = _believe(run, asked, training.seed, advance) if run else ({}, {})
        beliefs = {IDEAL: believe_ideal(asked), **believed}
        tables = _tabulate(people, asked, beliefs, owners, fitted, training.seed)
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
    """Return everything that the tables depend on, for the record."""
    return {
        "world": world.name,
        "fingerprint": world.fingerprint,
        "parameters": world.parameters,
        "fitted": fitted,
        "networks": len(run.networks) if run else 0,
        "particles": PARTICLES,
        "prior_variance": VARIANCE,
        "ensemble_particles": AVERAGED,
        "ensembles": {name: list(map(float, values)) for name, values in FRONTIER.items()},
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
    """Return the world with the fitted values, rounded so that a user can type them."""
    values = {name: float(f"{value:.{DIGITS}g}") for name, value in fitted.values.items()}
    return World.from_toml(world.text, world.source, values)


def _list_samplers() -> dict[str, tuple[SamplerSettings, float, int]]:
    """Return the sampler, prior variance and particles per network of each posterior, by name."""
    by_sentence = CONVERGED.model_copy(update={"evidence": "sentence"})
    samplers = {SAMPLER: FrontierSettings().sampler, POSTERIOR: CONVERGED, BY_SENTENCE: by_sentence}
    participants = {name: (each, VARIANCE, PARTICLES) for name, each in samplers.items()}
    ensembles = {
        name: (CONVERGED.model_copy(update={"evidence": b}), v, AVERAGED)
        for name, (b, v) in FRONTIER.items()
    }
    return participants | ensembles


def _believe(run: Run, asked: AskedItems, seed: int, advance: Advance) -> tuple[Arrays, Arrays]:
    """Compute the beliefs of networks and of particles of their posteriors.

    Returns
    -------
    beliefs : (participants, questions, 3) by comprehender
        The beliefs of every participant.
    networks : (participants,) by comprehender
        The network of every participant; single comprehenders have no entry.
    """
    units = sorted({unit for question in asked.questions for unit in question.units})
    numbers = [run.world.units.index(unit) for unit in units]
    samplers = _list_samplers()
    found: dict[str, list[np.ndarray]] = {name: [] for name in (TRAINED, *samplers)}
    for index, network in enumerate(run.networks):
        advance(index, len(run.networks), f"network {index}")
        psi = participants.compute_question_features(network, asked.questions)
        layer = collect_last_layer(run, network).select(numbers)
        layers = {TRAINED: layer.trained[:, None]}
        for name, (sampler, variance, size) in samplers.items():
            posterior = infer_posterior(layer, sampler, variance, seed + index, diagnose=False)
            layers[name] = participants.take_particles(posterior, size, seed + index)
        for name, own in layers.items():
            found[name].append(participants.answer_questions(psi, asked.questions, units, own))
    advance(len(run.networks), len(run.networks), "all have answered")
    every = {name: np.concatenate(parts) for name, parts in found.items()}
    averages = {ENSEMBLE: every[TRAINED]} | {name: every.pop(name) for name in FRONTIER}
    ones = {name: each.mean(axis=0, keepdims=True) for name, each in averages.items()}
    count = len(run.networks)
    networks = {n: np.repeat(np.arange(count), len(own) // count) for n, own in every.items()}
    return every | ones, networks


def _add_ranges(
    compared: pd.DataFrame, people: pd.DataFrame, asked: AskedItems, fitted: WorldFit
) -> pd.DataFrame:
    """Mark the fitted numbers, and add profile ranges of the ideal comprehender's numbers."""
    compared["fitted"] = compared["deviance"].notna()
    compared.loc[compared["fitted"], "floor"] = np.nan  # the fit chose shares near these
    with progress("predictions") as advance:
        ranges = tabulate_ranges(people, asked, fitted.list_likely_values(), advance)
    ideal = compared["comprehender"] == IDEAL  # one row for each row of `ranges`, in order
    compared.loc[ideal, ["found_low", "found_high"]] = ranges.to_numpy()
    compared.loc[ideal, "found_interval"] = "profile range"
    return compared


def _tabulate(
    people: pd.DataFrame,
    asked: AskedItems,
    beliefs: Arrays,
    networks: Arrays,
    fitted: WorldFit | None,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """Compute every table of the result."""
    readings = reading_tables.tabulate_readings(asked, beliefs, networks, seed=seed)
    areas = reading_tables.tabulate_areas(asked, beliefs, networks, seed=seed)
    listed = adapt_to_list(asked) if asked.world.parameters else pd.DataFrame()
    learned = select_learner(listed, IDEAL) if len(listed) else listed
    compared = compare_with_people(people, readings, areas, learned)
    sampled = compared["comprehender"].isin(list(networks))
    compared["found_interval"] = np.where(sampled, "networks and items", "items")
    if fitted is not None:
        compared = _add_ranges(compared, people, asked, fitted)
    compared.loc[compared["found_low"].isna(), "found_interval"] = ""
    ideal = beliefs[IDEAL]
    others = {name: own for name, own in beliefs.items() if name != IDEAL}
    tables = {
        "people": compared,
        "scores": summarise_scores(compared),
        "readings": readings,
        "areas": areas,
        "list": listed,
        "items": reading_tables.tabulate_items(asked, beliefs, ideal),
        "against_ideal": reading_tables.compare_with_ideal(asked, others, ideal, networks),
    }
    if fitted is not None:
        found = {"fit": fitted.estimates, "fit_shares": fitted.shares}
        tables |= found | {"profiles": fitted.profiles}
    return tables
