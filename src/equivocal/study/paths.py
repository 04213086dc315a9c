"""The paper's effect along sampler time τ: what the ensemble believes after every step.

An ensemble starts at its prior and moves to the posterior, so how much doubt it shows depends on
where it is stopped. The tracked units alone are followed here, which takes a twentieth of the time
of all units.
"""

import numpy as np
import xarray as xr
from scipy.special import expit

from equivocal.gestalt import Network, Run
from equivocal.inference import collect_last_layer, infer_posterior
from equivocal.sampling.engine.settings import Snapshot
from equivocal.study.measures import central_prior, measures
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli

__all__ = ["Watched", "effect_path", "watched_rows", "with_references"]


class Watched:
    """The indicated units of one condition: one for each role and item."""

    def __init__(self, stimuli: Stimuli, condition: str) -> None:
        self.roles = list(stimuli.rows[condition, stimuli.items[0]].tracked)
        self.items = list(stimuli.items)
        rows = [stimuli.rows[condition, item] for item in stimuli.items]
        self.utterances = [row.utterance.first(row.critical) for row in rows]
        self.units = list(dict.fromkeys(unit for row in rows for unit in row.tracked.values()))
        self.unit_of = np.array(
            [[self.units.index(row.tracked[role]) for row in rows] for role in self.roles]
        )  # (role, item)


def watched_rows(network: Network, watched: Watched) -> np.ndarray:
    """(role, item, D): what the last layer is given at the critical word."""
    heard = [
        network.probe_features(utterance, watched.roles).values[-1]
        for utterance in watched.utterances
    ]
    return np.stack(heard, axis=1)


def effect_path(run: Run, stimuli: Stimuli, settings: StudySettings) -> xr.Dataset:
    """Mean activation of the indicated units after each step, for the last condition."""
    watched = Watched(stimuli, stimuli.conditions[-1])
    chosen = run.networks[: settings.path.networks]
    paths = [_path_of(run, n, network, watched, settings) for n, network in enumerate(chosen)]
    shown = {
        f"indicated_{role}": (
            ("network", "step", "item"),
            np.stack([activation[:, r] for _, activation in paths]).astype(np.float32),
        )
        for r, role in enumerate(watched.roles)
    }
    time = np.stack([time for time, _ in paths])
    return xr.Dataset(
        {"time": (("network", "step"), time), **shown},
        coords={
            "network": np.arange(len(chosen)),
            "step": np.arange(time.shape[1]),
            "item": watched.items,
        },
        attrs={
            "paper_steps": settings.inference.samplers["paper"].num_steps or 0,
            "prior": settings.inference.central_prior,
            "condition": stimuli.conditions[-1],
        },
    )


def with_references(path: xr.Dataset, dataset: xr.Dataset) -> xr.Dataset:
    """The path with what the trained networks and the converged posterior say to the same."""
    rows = measures(dataset)
    prior, condition = central_prior(dataset), path.attrs["condition"]
    rows = rows[
        (rows["sampler"] == "converged")
        & np.isclose(rows["prior"], prior)
        & (rows["condition"] == condition)
        & rows["network"].isin(path["network"].values)
    ]
    levels = {}
    for name in (str(variable) for variable in path.data_vars if variable != "time"):
        chosen = rows[rows["measure"] == name.replace("_", " ")]
        levels[f"mle_{name}"] = float(chosen["mle"].mean())
        levels[f"converged_{name}"] = float(chosen["mean"].mean())
    return path.assign_attrs(levels)


def _path_of(
    run: Run, index: int, network: Network, watched: Watched, settings: StudySettings
) -> tuple[np.ndarray, np.ndarray]:
    """Median τ of the units and (step, role, item) activations."""
    units = [network.world.units.index(unit) for unit in watched.units]
    layer = collect_last_layer(run, network, settings.inference.rows).select(units)
    psi = watched_rows(network, watched)
    steps = settings.path.num_steps
    time = np.full((steps + 1, len(units)), np.nan)
    answers = np.full((steps + 1, len(units), *psi.shape[:2]), np.nan)

    def observe(snapshot: Snapshot) -> None:
        outputs = slice(snapshot.outputs.start, snapshot.outputs.stop)
        time[snapshot.step, outputs] = snapshot.time
        logits = np.einsum("kjd,rid->kjri", snapshot.particles, psi)
        answers[snapshot.step, outputs] = expit(logits).mean(axis=1)

    sampler = settings.inference.samplers["paper"].model_copy(update={"num_steps": steps})
    infer_posterior(
        layer,
        sampler,
        settings.inference.central_prior,
        settings.inference.seed_of(index),
        observe,
    )
    return np.nanmedian(_held(time), axis=1), _indicated(_held(answers), watched.unit_of)


def _held(values: np.ndarray) -> np.ndarray:
    """An output that stopped early stays where it was."""
    for step in range(1, len(values)):
        values[step] = np.where(np.isnan(values[step]), values[step - 1], values[step])
    return values


def _indicated(answers: np.ndarray, unit_of: np.ndarray) -> np.ndarray:
    """(step, role, item) from (step, unit, role, item)."""
    roles, items = np.indices(unit_of.shape)
    return answers[:, unit_of, roles, items]
