"""The answers of networks and posteriors to the stimuli, after every word: `activations.nc`.

    mle                           (network, condition, item, position, probe, unit)
    mean, sd, low, high, expected (sampler, prior, network, condition, item, position, probe, unit)
    truth                         (condition, item, position, probe, unit)
    time                          (sampler, prior, network, unit): the τ that was reached
    critical                      (condition, item): position of the critical word
    word                          (condition, item, position), a coordinate
    tracked                       (condition, item, role), a coordinate: units the syntax indicates
    non_relevant                  an index coordinate: units that should stay off

`mean`, `sd`, `low` (5 %) and `high` (95 %) describe the activation over the posterior; `expected`
is the expected entropy in nats. Past the end of a sentence all are NaN and `word` is empty.
`tracked` is empty where an item does not track a role.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from equivocal.paper.study import Study
from equivocal.world import ImpossibleSentenceError, Utterance, World
from equivocal.world.items import Item, Items
from lastlayer import Posterior

LEVEL = 0.9  # coverage of the intervals
SUMMARIES = ("mean", "sd", "low", "high", "expected")
HEARD = ("condition", "item", "position", "probe")
ANSWERED = ("sampler", "prior", "network", *HEARD, "unit")
TIMED = (*ANSWERED[:3], "unit")


def combine_answers(answers: Sequence[Any], study: Study) -> xr.Dataset:
    """Combine the answers of all networks and posteriors to the stimuli.

    Parameters
    ----------
    answers : sequence of dict
        What `answer_stimuli` returned for each network.
    study : Study
        Says which samplers, priors, probes and units are used.

    Returns
    -------
    Dataset
        As described at the top of this module.
    """
    inference, probes = study.settings.inference, study.settings.stimuli.probes
    stimuli, units, world = study.stimuli, list(study.units), study.world
    truth = _fill(
        stimuli,
        (len(probes), len(units)),
        lambda said: trace_truth(world, said, probes, units) if world.is_exact else np.nan,
    )
    stacked = {name: np.stack([each[name] for each in answers], axis=2) for name in SUMMARIES}
    return xr.Dataset(
        {
            "mle": (ANSWERED[2:], np.stack([each["mle"] for each in answers])),
            **{name: (ANSWERED, values) for name, values in stacked.items()},
            "time": (TIMED, np.stack([each["time"] for each in answers], axis=2)),
            "truth": (ANSWERED[3:], truth),
            "critical": (HEARD[:2], _arrange(stimuli, lambda row: row.critical)),
        },
        coords={
            "sampler": list(inference.samplers),
            "prior": list(inference.prior_variances),
            "network": np.arange(len(answers)),
            "probe": list(probes),
            "unit": units,
            "non_relevant": np.array(study.non_relevant, str),
            **_describe_sentences(stimuli),
        },
        attrs={
            "study": study.settings.name,
            "quick": "yes" if study.settings.quick_run else "no",
            "central_prior": inference.central_prior,
        },
    )


def answer_stimuli(
    study: Study, index: int, load_posterior: Callable[[str, float], Posterior]
) -> dict[str, np.ndarray]:
    """Compute the answers of one network and its posteriors to the stimuli.

    Parameters
    ----------
    study : Study
        A study with trained networks.
    index : int
        Which of them.
    load_posterior : callable
        Called with sampler and prior variance; returns the posterior.

    Returns
    -------
    dict of str to array
        The trained answers "mle" (condition, item, position, probe, unit), and `SUMMARIES` of the
        posterior answers (sampler, prior, condition, item, position, probe, unit); "time", the τ
        that the sampler reached (sampler, prior, unit).
    """
    network, inference = study.run.networks[index], study.settings.inference
    samplers, priors = inference.samplers, inference.prior_variances
    units, probes = list(study.units), study.settings.stimuli.probes
    weights = network.last_layer().sel(unit=units).values
    ask = partial(network.probe_features, probes=probes)
    psi = _fill(study.stimuli, (len(probes), weights.shape[1]), ask)
    said = ~np.isnan(psi[..., 0])
    shape = (*said.shape, len(units))
    answers = {"mle": np.full(shape, np.nan, np.float32)}
    answers["mle"][said] = expit(psi[said] @ weights.T)
    for name in SUMMARIES:
        answers[name] = np.full((len(samplers), len(priors), *shape), np.nan, np.float32)
    answers["time"] = np.full((len(samplers), len(priors), len(units)), np.nan)
    for (s, sampler), (p, prior) in product(enumerate(samplers), enumerate(priors)):
        posterior = load_posterior(sampler, prior)
        answers["time"][s, p] = posterior.info.time
        summaries = summarise_answers(posterior, psi[said])
        summaries["expected"] = posterior.entropies(psi[said]).expected
        for name, values in summaries.items():
            answers[name][s, p][said] = values
    return answers


def _describe_sentences(stimuli: Items) -> dict[str, Any]:
    """Return the coordinates of the stimuli: positions, words and what each sentence tracks.

    Texts are coordinates and not variables, so that arithmetic on a whole dataset works.
    """
    roles = list(dict.fromkeys(role for row in stimuli.rows.values() for role in row.tracked))
    longest = stimuli.longest
    silence = [""] * longest  # past the end of a sentence
    words = _arrange(stimuli, lambda row: [*row.utterance.words, *silence][:longest])
    tracked = _arrange(stimuli, lambda row: [row.tracked.get(role, "") for role in roles])
    return {
        "condition": list(stimuli.conditions),
        "item": list(stimuli.items),
        "position": np.arange(1, longest + 1),
        "role": roles,
        "word": (HEARD[:3], words),
        "tracked": ((*HEARD[:2], "role"), tracked),
    }


def summarise_answers(posterior: Posterior, psi: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean, standard deviation and 90 % interval of the activations, by name."""
    low, high = posterior.predict_interval(psi, LEVEL)
    mean, sd = posterior.predict_proba(psi), posterior.predict_sd(psi)
    return {"mean": mean, "sd": sd, "low": low, "high": high}


def _fill(
    stimuli: Items, shape: tuple[int, ...], compute: Callable[[Utterance], Any]
) -> np.ndarray:
    """Return an array (condition, item, position, …) of values that `compute` gives each sentence.

    Values past the end of a sentence are NaN.
    """
    size = (len(stimuli.conditions), len(stimuli.items), stimuli.longest)
    values = np.full((*size, *shape), np.nan, np.float32)
    for c, condition in enumerate(stimuli.conditions):
        for i, item in enumerate(stimuli.items):
            said = stimuli.rows[condition, item].utterance
            values[c, i, : len(said)] = compute(said)
    return values


def _arrange(stimuli: Items, value: Callable[[Item], Any]) -> np.ndarray:
    """Return an array (condition, item, …) of a property of each stimulus."""
    return np.array(
        [[value(stimuli.rows[c, i]) for i in stimuli.items] for c in stimuli.conditions]
    )


def trace_truth(
    world: World, utterance: Utterance, probes: Sequence[str], units: Sequence[str]
) -> np.ndarray:
    """Trace the exact beliefs after each word of a sentence.

    Parameters
    ----------
    world : World
        The world, whose probabilities are exact.
    utterance : Utterance
        A sentence.
    probes, units : sequence of str
        The roles that are asked for, and the output units that are looked at.

    Returns
    -------
    array (word, probe, unit)
        NaN from the word on that makes the sentence impossible.
    """
    truth = np.full((len(utterance), len(probes), len(units)), np.nan)
    for last in range(len(utterance)):
        for column, probe in enumerate(probes):
            try:
                beliefs = world.true_beliefs(utterance.first(last + 1), probe)
            except ImpossibleSentenceError:
                continue
            truth[last, column] = beliefs[list(units)]
    return truth
