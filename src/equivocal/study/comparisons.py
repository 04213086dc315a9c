"""The paper's sampler watched along its own time τ, and beside the exact posterior.

An ensemble starts at its prior and moves to the posterior, so how much uncertainty it shows
depends on when it is stopped; `trace_effect` follows it. The paper (§2.1.1) says that its sampler
gives the uncertainty of Hamiltonian Monte Carlo, and sooner. `compare_with_exact` puts it beside
Hamiltonian Monte Carlo on all networks; `compare_with_nuts` runs an independent program, NumPyro's
NUTS, on the rows of one, to check the draws and to compare the time. Only the tracked units are
sampled here, which takes a twentieth of the time of all units.
"""

from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from equivocal.errors import join_names
from equivocal.gestalt import Network, Run
from equivocal.inference import LastLayer, SamplerSettings, collect_last_layer, infer_posterior
from equivocal.sampling import Posterior
from equivocal.sampling.engine.settings import Snapshot
from equivocal.study.activations import HEARD, SAMPLERS, SUMMARIES, summarise_answers
from equivocal.study.measures import compute_measures, find_central_prior
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli

__all__ = [
    "Watched",
    "add_reference_levels",
    "compare_with_exact",
    "compare_with_nuts",
    "measure_differences",
    "trace_effect",
]


class Watched:
    """The indicated units of one condition, one for each role and item, at the critical word."""

    def __init__(self, stimuli: Stimuli, condition: str) -> None:
        rows = [stimuli.rows[condition, item] for item in stimuli.items]
        self.roles = list(rows[0].tracked)
        self.items = list(stimuli.items)
        self.utterances = [row.utterance.first(row.critical) for row in rows]
        self.units = list(dict.fromkeys(unit for row in rows for unit in row.tracked.values()))
        self.unit_of = np.array(
            [[self.units.index(row.tracked[role]) for row in rows] for role in self.roles]
        )  # (role, item)

    def collect_features(self, network: Network) -> np.ndarray:
        """Collect what the last layer is given at the critical word, (role, item, D)."""
        heard = [network.probe_features(said, self.roles).values[-1] for said in self.utterances]
        return np.stack(heard, axis=1)


def trace_effect(run: Run, stimuli: Stimuli, settings: StudySettings) -> xr.Dataset:
    """Trace the mean activation of the indicated units of the last condition, step by step.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Stimuli
        The sentences.
    settings : StudySettings
        The table [path] says how many steps and networks.

    Returns
    -------
    Dataset
        `time` (network, step) and, for each role, `indicated_ROLE` (network, step, item).
    """
    watched = Watched(stimuli, stimuli.conditions[-1])
    numbers = range(min(settings.path.networks, len(run.networks)))
    times, answers = zip(*(_follow(run, n, watched, settings) for n in numbers), strict=True)
    shown = xr.DataArray(
        np.stack(answers).astype(np.float32),
        dims=("network", "step", "role", "item"),
        coords={
            "network": np.arange(len(numbers)),
            "step": np.arange(settings.path.num_steps + 1),
            "role": [f"indicated_{role}" for role in watched.roles],
            "item": watched.items,
        },
    ).to_dataset("role")
    shown["time"] = (("network", "step"), np.stack(times))
    return shown.assign_attrs(
        paper_steps=settings.inference.samplers["paper"].num_steps or 0,
        prior=settings.inference.central_prior,
        condition=stimuli.conditions[-1],
    )


def _follow(
    run: Run, index: int, watched: Watched, settings: StudySettings
) -> tuple[np.ndarray, np.ndarray]:
    """Follow one network's ensemble: median τ of the units, and (step, role, item) activations."""
    network, inference = run.networks[index], settings.inference
    units = [network.world.units.index(unit) for unit in watched.units]
    layer = collect_last_layer(run, network, inference.rows).select(units)
    psi = watched.collect_features(network)
    steps = settings.path.num_steps
    time = np.full((steps + 1, len(units)), np.nan)
    answers = np.full((steps + 1, len(units), *psi.shape[:2]), np.nan)

    def observe(snapshot: Snapshot) -> None:
        outputs = slice(snapshot.outputs.start, snapshot.outputs.stop)
        time[snapshot.step, outputs] = snapshot.time
        logits = np.einsum("kjd,rid->kjri", snapshot.particles, psi)
        answers[snapshot.step, outputs] = expit(logits).mean(axis=1)

    sampler = inference.samplers["paper"].model_copy(update={"num_steps": steps})
    infer_posterior(layer, sampler, inference.central_prior, inference.get_seed(index), observe)
    roles, items = np.indices(watched.unit_of.shape)
    indicated = _fill_forward(answers)[:, watched.unit_of, roles, items]
    return np.nanmedian(_fill_forward(time), axis=1), indicated


def _fill_forward(values: np.ndarray) -> np.ndarray:
    """Let an output that stopped early stay where it was."""
    for step in range(1, len(values)):
        values[step] = np.where(np.isnan(values[step]), values[step - 1], values[step])
    return values


def add_reference_levels(path: xr.Dataset, dataset: xr.Dataset) -> xr.Dataset:
    """Return the path with the levels of trained networks and converged posterior as attributes."""
    rows = compute_measures(dataset)
    rows = rows[
        (rows["sampler"] == "converged")
        & np.isclose(rows["prior"], find_central_prior(dataset))
        & (rows["condition"] == path.attrs["condition"])
        & rows["network"].isin(path["network"].values)
    ]
    levels = {}
    for name in (str(variable) for variable in path.data_vars if variable != "time"):
        chosen = rows[rows["measure"] == name.replace("_", " ")]
        levels[f"mle_{name}"] = float(chosen["mle"].mean())
        levels[f"converged_{name}"] = float(chosen["mean"].mean())
    return path.assign_attrs(levels)


def compare_with_exact(
    run: Run, stimuli: Stimuli, settings: StudySettings, answers: xr.Dataset
) -> xr.Dataset:
    """Compare the exact posterior, by Hamiltonian Monte Carlo, with the study's two samplers.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Stimuli
        The sentences; the indicated units of every condition and item are asked for.
    settings : StudySettings
        The table [exact] says how many networks, units and draws.
    answers : Dataset
        What the study's samplers answer, as `activations.nc` holds it.

    Returns
    -------
    Dataset
        `exact_mean`, `_sd`, `_low` and `_high`, and those of each sampler, by network and question;
        `r_hat` and `ess` of the unit asked for. Attributes name what has not converged.
    """
    inference, exact = settings.inference, settings.exact
    asked = _list_questions(stimuli, exact.units)
    parts, missed = [], []
    for index, network in enumerate(run.networks[: exact.networks]):
        layer, psi, column = _collect_questions(run, network, stimuli, asked, inference.rows)
        sampler = SamplerSettings(
            method="hmc", num_particles=exact.num_particles, options={"check_at": psi}
        )
        seed = inference.get_seed(index)
        posterior = infer_posterior(layer, sampler, inference.central_prior, seed)
        info, units = posterior.info, asked["unit"].unique()
        missed += [f"{unit} of network {index}" for unit in units[~info.output_converged]]
        chains = {name: ("question", getattr(info, name)[column]) for name in ("r_hat", "ess")}
        parts.append(xr.Dataset(_answer("exact", posterior, psi, column) | chains))
    numbers = pd.RangeIndex(len(parts), name="network")
    places = {str(name): place for name, place in asked.to_xarray().items()}
    here = answers.sel(network=numbers, prior=inference.central_prior).sel(places)
    others = {
        f"{sampler}_{what}": here[what].sel(sampler=sampler).reset_coords(drop=True)
        for sampler, what in product(inference.samplers, SUMMARIES[:4])
    }
    return (
        xr.concat(parts, numbers)
        .assign(others)
        .assign_attrs(
            posteriors=len(parts) * asked["unit"].nunique(),
            unconverged=join_names(missed, most=8),
            prior=inference.central_prior,
        )
    )


def measure_differences(exact: xr.Dataset) -> dict[str, Any]:
    """Measure how far each sampler is from the exact posterior, as `judge_claims` takes it.

    Parameters
    ----------
    exact : Dataset
        The file `exact.nc` of a study, with NUTS or without (`Study.read_comparison`).
    """
    found = {**exact.attrs, "networks": exact.sizes["network"], "sd_ratio": {}, "mean_shift": {}}
    mean, sd = exact["exact_mean"], exact["exact_sd"]
    for who in (*SAMPLERS, *(["nuts"] if "nuts_sd" in exact else [])):
        run = exact[f"{who}_sd"].notnull().values
        found["sd_ratio"][who] = (exact[f"{who}_sd"] / sd).values[run].tolist()
        found["mean_shift"][who] = (abs(exact[f"{who}_mean"] - mean) / sd).values[run].tolist()
    return found


def compare_with_nuts(run: Run, stimuli: Stimuli, settings: StudySettings) -> xr.Dataset:
    """Sample the posterior of the first network by NUTS, and time it and the study's samplers.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Stimuli
        The sentences; the indicated units of every condition and item are asked for.
    settings : StudySettings
        The table [nuts] says how many units, draws and chains.

    Returns
    -------
    Dataset
        `nuts_mean`, `_sd`, `_low` and `_high` by question; attributes hold the seconds.
    """
    inference, nuts = settings.inference, settings.nuts
    asked = _list_questions(stimuli, nuts.units)
    layer, psi, column = _collect_questions(run, run.networks[0], stimuli, asked, inference.rows)
    reference = SamplerSettings(
        method="nuts",
        num_particles=nuts.draws,
        num_steps=nuts.warmup,
        options={"num_chains": nuts.chains, "preconditioned": True},
    )
    units = ", ".join(asked["unit"].unique())
    attributes = {"units": units, "network": 0, "prior": inference.central_prior}
    found = {}
    for name, sampler in {"nuts": reference, **inference.samplers}.items():
        began = perf_counter()
        posterior = infer_posterior(layer, sampler, inference.central_prior, inference.get_seed(0))
        attributes[f"seconds_{name}"] = perf_counter() - began
        if name == "nuts":
            attributes["verdict"] = posterior.info.message
            found = _answer(name, posterior, psi, column)
    return xr.Dataset(found, coords={"question": asked.index}, attrs=attributes)


def _list_questions(stimuli: Stimuli, most: int) -> pd.DataFrame:
    """List the questions about `most` tracked units, as "reversal, dinner: pizza as agent"."""
    rows = (stimuli.rows[place] for place in product(stimuli.conditions, stimuli.items))
    asked = (
        (row.condition, row.name, row.critical, *pair)
        for row in rows
        for pair in row.tracked.items()
    )
    table = pd.DataFrame(asked, columns=[*HEARD, "unit"])
    who = table["unit"] + " as " + table["probe"]
    table.index = pd.Index(table["condition"] + ", " + table["item"] + ": " + who, name="question")
    return table[table["unit"].isin(table["unit"].unique()[:most])]


def _collect_questions(
    run: Run, network: Network, stimuli: Stimuli, asked: pd.DataFrame, rows: str
) -> tuple[LastLayer, np.ndarray, list[int]]:
    """Collect the rows of the units asked for, features (question, D), and each question's unit."""
    units = list(asked["unit"].unique())
    layer = collect_last_layer(run, network, rows)
    psi = [
        network.probe_features(stimuli.rows[condition, item].utterance, [probe])[position - 1, 0]
        for condition, item, position, probe, _ in asked.itertuples(index=False)
    ]
    numbers = [network.world.units.index(unit) for unit in units]
    return layer.select(numbers), np.stack(psi), [units.index(unit) for unit in asked["unit"]]


def _answer(name: str, posterior: Posterior, psi: np.ndarray, column: list[int]) -> dict[str, Any]:
    """Summarise the activation of one unit at each question."""
    return {
        f"{name}_{what}": ("question", values[np.arange(len(psi)), column])
        for what, values in summarise_answers(posterior, psi).items()
    }
