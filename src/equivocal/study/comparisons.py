"""The paper's sampler watched along its own time τ, and beside the exact posterior by NUTS.

An ensemble starts at its prior and moves to the posterior, so how much uncertainty it shows
depends on when it is stopped; `trace_effect` follows it. The paper (§2.1.1) says that its sampler
gives the uncertainty of Hamiltonian Monte Carlo, and sooner; `compare_with_nuts` runs both on the
same rows. Only the tracked units are sampled here, which takes a twentieth of the time of
all units.
"""

from time import perf_counter
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from equivocal.gestalt import Network, Run
from equivocal.inference import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.sampling.engine.settings import Snapshot
from equivocal.study.activations import summarise_answers
from equivocal.study.measures import compute_measures, find_central_prior
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli

__all__ = ["Watched", "add_reference_levels", "compare_with_nuts", "trace_effect"]


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


def compare_with_nuts(run: Run, stimuli: Stimuli, settings: StudySettings) -> xr.Dataset:
    """Compare the posterior by NUTS with the study's two samplers, for the first network.

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
        `SAMPLER_mean`, `_sd`, `_low` and `_high` by question; attributes hold the seconds.
    """
    network, inference, nuts = run.networks[0], settings.inference, settings.nuts
    asked = _list_questions(network, stimuli)
    units = list(dict.fromkeys(unit for unit, _ in asked.values()))[: nuts.units]
    asked = {label: question for label, question in asked.items() if question[0] in units}
    numbers = [network.world.units.index(unit) for unit in units]
    layer = collect_last_layer(run, network, inference.rows).select(numbers)
    exact = SamplerSettings(
        method="nuts",
        num_particles=nuts.draws,
        num_steps=nuts.warmup,
        options={"num_chains": nuts.chains, "preconditioned": True},
    )
    psi = np.stack([features for _, features in asked.values()])
    column = [units.index(unit) for unit, _ in asked.values()]
    found: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for name, sampler in {"nuts": exact, **inference.samplers}.items():
        began = perf_counter()
        posterior = infer_posterior(layer, sampler, inference.central_prior, inference.get_seed(0))
        attributes[f"seconds_{name}"] = perf_counter() - began
        if name == "nuts":
            attributes["verdict"] = posterior.info.message
        for what, values in summarise_answers(posterior, psi).items():
            found[f"{name}_{what}"] = (("question",), values[np.arange(len(asked)), column])
    attributes |= {"units": ", ".join(units), "network": 0, "prior": inference.central_prior}
    return xr.Dataset(found, coords={"question": list(asked)}, attrs=attributes)


def _list_questions(network: Network, stimuli: Stimuli) -> dict[str, tuple[str, np.ndarray]]:
    """List unit and features of each question, by a label: "reversal, dinner: pizza as agent"."""
    asked = {}
    for condition in stimuli.conditions:
        watched = Watched(stimuli, condition)
        psi = watched.collect_features(network)
        for i, item in enumerate(watched.items):
            for r, role in enumerate(watched.roles):
                unit = watched.units[watched.unit_of[r, i]]
                asked[f"{condition}, {item}: {unit} as {role}"] = (unit, psi[r, i])
    return asked
