"""The paper says its sampler doubts as Hamiltonian Monte Carlo does, and sooner. Here both are run.

For tracked units of one network, at the central prior, on the same rows and items: the exact
posterior by NUTS beside the paper's sampler and the converged Gaussian.
"""

from time import perf_counter
from typing import NamedTuple

import numpy as np
import xarray as xr

from equivocal.gestalt import Run
from equivocal.inference import LastLayer, collect_last_layer, infer_posterior
from equivocal.sampling import Posterior, sample_posterior
from equivocal.study.activations import LEVEL
from equivocal.study.paths import Watched, watched_rows
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli

__all__ = ["against_nuts"]


class Asked(NamedTuple):
    """One question at a critical word: which unit answers it, and what the last layer is given."""

    label: str
    unit: str
    psi: np.ndarray


def against_nuts(run: Run, stimuli: Stimuli, settings: StudySettings) -> xr.Dataset:
    """Means and 90 % intervals of the three, for every question about the chosen units."""
    network, inference = run.networks[0], settings.inference
    asked = _questions(run, stimuli)
    units = list(dict.fromkeys(question.unit for question in asked))[: settings.nuts.units]
    asked = [question for question in asked if question.unit in units]
    numbers = [network.world.units.index(unit) for unit in units]
    layer = collect_last_layer(run, network, inference.rows).select(numbers)
    posteriors, seconds = {}, {}
    for name in ("nuts", *inference.samplers):
        began = perf_counter()
        posteriors[name] = (
            _nuts(layer, settings)
            if name == "nuts"
            else infer_posterior(
                layer, inference.samplers[name], inference.central_prior, inference.seed_of(0)
            )
        )
        seconds[name] = perf_counter() - began
    return xr.Dataset(
        {
            f"{name}_{what}": (("question",), values)
            for name, posterior in posteriors.items()
            for what, values in _answers(posterior, asked, units).items()
        },
        coords={"question": [question.label for question in asked]},
        attrs={
            **{f"seconds_{name}": value for name, value in seconds.items()},
            "units": ", ".join(units),
            "network": 0,
            "prior": inference.central_prior,
            "verdict": posteriors["nuts"].info.message,
        },
    )


def _questions(run: Run, stimuli: Stimuli) -> list[Asked]:
    """The indicated units of every condition and item."""
    asked = []
    for condition in stimuli.conditions:
        watched = Watched(stimuli, condition)
        psi = watched_rows(run.networks[0], watched)
        for i, item in enumerate(watched.items):
            for r, role in enumerate(watched.roles):
                unit = watched.units[watched.unit_of[r, i]]
                asked.append(Asked(f"{condition}, {item}: {unit} as {role}", unit, psi[r, i]))
    return asked


def _nuts(layer: LastLayer, settings: StudySettings) -> Posterior:
    return sample_posterior(
        layer.features,
        layer.targets,
        counts=layer.counts,
        prior_mean=layer.trained,
        prior_variance=settings.inference.central_prior,
        method="nuts",
        num_particles=settings.nuts.draws,
        num_steps=settings.nuts.warmup,
        num_chains=settings.nuts.chains,
        preconditioned=True,
        seed=settings.inference.seed,
    )


def _answers(posterior: Posterior, asked: list[Asked], units: list[str]) -> dict[str, np.ndarray]:
    psi = np.stack([question.psi for question in asked])
    column = [units.index(question.unit) for question in asked]
    rows = np.arange(len(asked))
    low, high = posterior.predict_interval(psi, LEVEL)
    values = {
        "mean": posterior.predict_proba(psi),
        "sd": posterior.predict_sd(psi),
        "low": low,
        "high": high,
    }
    return {name: value[rows, column] for name, value in values.items()}
