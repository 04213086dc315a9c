"""What trained networks and their posteriors answer to the stimuli, after every word.

One dataset, written as `activations.nc`, from which every statistic can be redone:

    mle                           (network, condition, item, position, probe, unit)
    mean, sd, low, high, expected (sampler, prior, network, condition, item, position, probe, unit)
    truth                         (condition, item, position, probe, unit)
    critical                      (condition, item)

`mean`, `sd`, `low` (5 %) and `high` (95 %) are of the activation over the posterior; `expected` is
the expected entropy in nats. Past the end of a sentence all are NaN and `word` is empty.
"""

import json
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from equivocal.errors import UserError, join_names
from equivocal.gestalt import Network
from equivocal.sampling import Posterior
from equivocal.study.beliefs import true_trace
from equivocal.study.settings import StudySettings
from equivocal.study.stimuli import Stimuli
from equivocal.world import World

__all__ = ["LEVEL", "activations", "dictionary", "non_relevant", "tidy", "units_of"]

LEVEL = 0.9  # of the intervals
SUMMARIES = ("mean", "sd", "low", "high", "expected")
HEARD = ("condition", "item", "position", "probe")


def activations(
    networks: Sequence[Network],
    posterior_of: Callable[[str, float, int], Posterior],
    stimuli: Stimuli,
    settings: StudySettings,
) -> xr.Dataset:
    """All answers; `posterior_of(sampler, variance, network)` hands over one posterior."""
    world, inference = networks[0].world, settings.inference
    units = units_of(world, stimuli, settings)
    samplers, priors = list(inference.samplers), list(inference.prior_variances)
    probes = settings.stimuli.probes
    shape = (len(stimuli.conditions), len(stimuli.items), stimuli.longest, len(probes))
    every = (len(samplers), len(priors), len(networks), *shape, len(units))
    summaries = {name: np.full(every, np.nan, np.float32) for name in SUMMARIES}
    mle = np.full((len(networks), *shape, len(units)), np.nan, np.float32)
    for n, network in enumerate(networks):
        psi = _heard(network, stimuli, probes)
        said = ~np.isnan(psi[..., 0])
        mle[n][said] = _trained_answers(network, psi[said], units)
        for s, sampler in enumerate(samplers):
            for p, prior in enumerate(priors):
                found = _summaries(posterior_of(sampler, prior, n), psi[said])
                for name, values in found.items():
                    summaries[name][s, p, n][said] = values
    return xr.Dataset(
        {
            "mle": (("network", *HEARD, "unit"), mle),
            **{
                name: (("sampler", "prior", "network", *HEARD, "unit"), values)
                for name, values in summaries.items()
            },
            "truth": ((*HEARD, "unit"), _truth(world, stimuli, probes, units)),
            "critical": (("condition", "item"), _critical(stimuli)),
        },
        coords={
            "sampler": samplers,
            "prior": priors,
            "network": np.arange(len(networks)),
            "condition": list(stimuli.conditions),
            "item": list(stimuli.items),
            "position": np.arange(1, stimuli.longest + 1),
            "probe": list(probes),
            "unit": units,
            "word": (("condition", "item", "position"), _words(stimuli)),
        },
        attrs=_attributes(stimuli, settings),
    )


def non_relevant(stimuli: Stimuli, settings: StudySettings) -> list[str]:
    """Units that should stay off: those named, or whatever items track that others do not."""
    if settings.stimuli.non_relevant:
        return list(settings.stimuli.non_relevant)
    by_item = [
        {unit for c in stimuli.conditions for unit in stimuli.rows[c, item].tracked.values()}
        for item in stimuli.items
    ]
    common = set.intersection(*by_item)
    return [unit for unit in stimuli.tracked_units if unit not in common]


def units_of(world: World, stimuli: Stimuli, settings: StudySettings) -> list[str]:
    """The units whose posterior is sampled, in the world's order."""
    wanted = {*stimuli.tracked_units, *non_relevant(stimuli, settings)}
    if unknown := sorted(wanted - set(world.units)):
        raise UserError(
            f"stimuli.non_relevant names {join_names(unknown)}, which is no unit of world "
            f"{world.name!r}; `equivocal world show {world.name}` lists them."
        )
    everything = settings.inference.units == "all"
    return [unit for unit in world.units if everything or unit in wanted]


def tidy(dataset: xr.Dataset) -> xr.Dataset:
    """The same with one variable per estimate, ready for `to_dataframe`: a row for each unit."""
    flat = dataset[["mle", "truth"]].copy()
    for sampler in dataset["sampler"].values:
        for prior in dataset["prior"].values:
            for name in SUMMARIES:
                chosen = dataset[name].sel(sampler=sampler, prior=prior, drop=True)
                flat[f"{sampler}_{prior:g}_{name}"] = chosen
    return flat


def _heard(network: Network, stimuli: Stimuli, probes: Sequence[str]) -> np.ndarray:
    """(condition, item, position, probe, D): what the last layer is given; NaN past the end."""
    width = network.last_layer().sizes["feature"]
    shape = (len(stimuli.conditions), len(stimuli.items), stimuli.longest, len(probes), width)
    psi = np.full(shape, np.nan, np.float32)
    for c, condition in enumerate(stimuli.conditions):
        for i, item in enumerate(stimuli.items):
            utterance = stimuli.rows[condition, item].utterance
            psi[c, i, : len(utterance)] = network.probe_features(utterance, probes).values
    return psi


def _trained_answers(network: Network, psi: np.ndarray, units: list[str]) -> np.ndarray:
    answers: np.ndarray = expit(psi @ network.last_layer().sel(unit=units).values.T)
    return answers


def _summaries(posterior: Posterior, psi: np.ndarray) -> dict[str, np.ndarray]:
    low, high = posterior.predict_interval(psi, LEVEL)
    return {
        "mean": posterior.predict_proba(psi),
        "sd": posterior.predict_sd(psi),
        "low": low,
        "high": high,
        "expected": posterior.entropies(psi).expected,
    }


def _truth(world: World, stimuli: Stimuli, probes: Sequence[str], units: list[str]) -> np.ndarray:
    shape = (len(stimuli.conditions), len(stimuli.items), stimuli.longest, len(probes))
    truth = np.full((*shape, len(units)), np.nan, np.float32)
    if not world.is_exact:
        return truth
    for c, condition in enumerate(stimuli.conditions):
        for i, item in enumerate(stimuli.items):
            utterance = stimuli.rows[condition, item].utterance
            truth[c, i, : len(utterance)] = true_trace(world, utterance, probes, units)
    return truth


def _words(stimuli: Stimuli) -> np.ndarray:
    return np.array(
        [
            [
                [*words, *[""] * (stimuli.longest - len(words))]
                for words in (stimuli.rows[c, i].utterance.words for i in stimuli.items)
            ]
            for c in stimuli.conditions
        ]
    )


def _critical(stimuli: Stimuli) -> np.ndarray:
    return np.array(
        [[stimuli.rows[c, i].critical for i in stimuli.items] for c in stimuli.conditions]
    )


def _attributes(stimuli: Stimuli, settings: StudySettings) -> dict[str, str]:
    tracked = {
        c: {i: stimuli.rows[c, i].tracked for i in stimuli.items} for c in stimuli.conditions
    }
    return {
        "study": settings.name,
        "quick": "yes" if settings.quick_run else "no",
        "tracked": json.dumps(tracked),
        "non_relevant": json.dumps(non_relevant(stimuli, settings)),
        "central_prior": str(settings.inference.central_prior),
    }


def dictionary(columns: list[str]) -> pd.DataFrame:
    """What each column of `activations.csv.gz` holds."""
    known = {
        "network": "number of the network, from 0",
        "condition": "condition of the stimulus file; the first is the baseline",
        "item": "item of the stimulus file",
        "position": "how many words were heard, from 1",
        "word": "the word heard last",
        "probe": "the role asked for",
        "unit": "the output unit that answers",
        "mle": "activation of the trained network",
        "truth": "exact probability in the world; empty where the words so far are impossible",
    }
    measured = {
        "mean": "mean activation over the posterior",
        "sd": "standard deviation of the activation over the posterior",
        "low": "5 % quantile of the activation over the posterior",
        "high": "95 % quantile of the activation over the posterior",
        "expected": "expected entropy of the answer, in nats",
    }
    meanings = []
    for column in columns:
        if column in known:
            meanings.append(known[column])
            continue
        sampler, prior, what = column.split("_")
        meanings.append(f"{measured[what]}; sampler {sampler}, prior variance {prior}")
    return pd.DataFrame({"column": columns, "meaning": meanings})
