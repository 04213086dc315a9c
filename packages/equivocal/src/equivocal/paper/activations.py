"""The answers of networks and posteriors to the stimuli: `activations.nc`, `path.nc`, `exact.nc`.

`activations.nc` has the answers after every word:

    mle                           (network, condition, item, position, probe, unit)
    mean, sd, low, high           (sampler, prior, network, condition, item, position, probe, unit)
    truth                         (condition, item, position, probe, unit)
    time                          (sampler, prior, network, unit): the τ that was reached
    critical                      (condition, item): position of the critical word
    word                          (condition, item, position), a coordinate
    tracked                       (condition, item, role), a coordinate: units the syntax indicates
    non_relevant                  an index coordinate: units that should stay off

`mean`, `sd`, `low` (5 %) and `high` (95 %) describe the activation over the posterior. Past the end
of a sentence all are NaN and `word` is empty. `tracked` is empty where an item tracks no such role.

An ensemble starts at its prior and moves to the posterior, so how much uncertainty it shows depends
on when it is stopped; `trace_effect` follows it along its own time τ. The paper (§2.1.1) says that
its sampler gives the uncertainty of Hamiltonian Monte Carlo, and faster. `compare_with_exact`
compares it with Hamiltonian Monte Carlo on all networks; `compare_with_nuts` runs an independent
implementation, NumPyro's NUTS, on the rows of one network, to check the draws and to compare the
time. Only the tracked units are sampled here, in a twentieth of the time that all would take.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from equivocal.beliefs import LayerRows, SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Network
from equivocal.paper.study import Job, Study
from equivocal.world import ImpossibleSentenceError, Utterance, World
from equivocal.world.items import Item, Items
from lastlayer import Posterior
from lastlayer.errors import join_names
from lastlayer.outcome import Snapshot

LEVEL = 0.9  # coverage of the intervals
SUMMARIES = ("mean", "sd", "low", "high")
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
    study: Study, index: int, load_posterior: Callable[[Job], Posterior]
) -> dict[str, np.ndarray]:
    """Compute the answers of one network and its posteriors to the stimuli.

    Parameters
    ----------
    study : Study
        A study with trained networks.
    index : int
        Which of them.
    load_posterior : callable
        Called with a job of the study; returns the posterior.

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
        posterior = load_posterior(Job(sampler, prior, index))
        answers["time"][s, p] = posterior.info.time
        for name, values in summarise_answers(posterior, psi[said]).items():
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


class _Questions(NamedTuple):
    """What one network is asked about tracked units."""

    layer: LayerRows  # of the units asked for
    psi: np.ndarray  # features of each question
    unit: np.ndarray  # the position in `layer` of the unit that each question asks for

    def answer(self, name: str, posterior: Posterior) -> dict[str, Any]:
        """Summarise the posterior activation of the unit that each question asks for."""
        return {
            f"{name}_{what}": ("question", values[np.arange(len(self.psi)), self.unit])
            for what, values in summarise_answers(posterior, self.psi).items()
        }


def _ask(study: Study, index: int, asked: pd.DataFrame) -> _Questions:
    """Collect the rows of the units asked for, and the features of each question."""
    network, (column, units) = study.run.networks[index], pd.factorize(asked["unit"])
    numbers = [network.world.units.index(unit) for unit in units]
    layer = collect_last_layer(study.run, network, study.settings.inference.rows).select(numbers)
    return _Questions(layer, collect_features(network, asked), column)


def trace_effect(study: Study) -> xr.Dataset:
    """Trace the mean activation of the indicated units of the last condition, step by step.

    Parameters
    ----------
    study : Study
        A study with trained networks; the table [path] gives the numbers of steps and networks.

    Returns
    -------
    Dataset
        `time` (network, step) and, for each role, `indicated_ROLE` (network, step, item).
    """
    stimuli, settings = study.stimuli, study.settings
    asked = list_questions(stimuli, stimuli.conditions[-1])
    numbers = range(min(settings.path.networks, len(study.run.networks)))
    times, answers = zip(*(_follow(study, n, asked) for n in numbers), strict=True)
    indicated = np.stack(answers).astype(np.float32)
    axes = ("network", "step", "item")
    traces = xr.Dataset(
        {
            f"indicated_{role}": (axes, indicated[..., asked["probe"] == role])
            for role in asked["probe"].unique()
        },
        coords={
            "network": np.arange(len(numbers)),
            "step": np.arange(settings.path.num_steps + 1),
            "item": list(stimuli.items),
        },
    )
    traces["time"] = (axes[:2], np.stack(times))
    return traces.assign_attrs(
        paper_steps=settings.inference.samplers["paper"].num_steps or 0,
        prior=settings.inference.central_prior,
        condition=stimuli.conditions[-1],
    )


def _follow(study: Study, index: int, asked: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Follow one network's ensemble.

    Returns the median τ of the units at each step, and activations (step, question).
    """
    inference, steps = study.settings.inference, study.settings.path.num_steps
    layer, psi, unit = _ask(study, index, asked)
    time = np.full((steps + 1, len(layer.trained)), np.nan)
    answers = np.full((*time.shape, len(psi)), np.nan)

    def observe(snapshot: Snapshot) -> None:
        outputs = slice(snapshot.outputs.start, snapshot.outputs.stop)
        time[snapshot.step, outputs] = snapshot.time
        logits = np.einsum("kjd,qd->kjq", snapshot.particles, psi)
        answers[snapshot.step, outputs] = expit(logits).mean(axis=1)

    sampler = inference.samplers["paper"].model_copy(update={"num_steps": steps})
    seed = inference.get_seed(index)
    infer_posterior(layer, sampler, inference.central_prior, seed, observe, diagnose=False)
    indicated = _fill_forward(answers)[:, unit, np.arange(len(psi))]
    return np.nanmedian(_fill_forward(time), axis=1), indicated


def _fill_forward(values: np.ndarray) -> np.ndarray:
    """Repeat the last values of outputs that stopped early, which are NaN from there on."""
    rows = pd.DataFrame(values.reshape(len(values), -1))
    return rows.ffill().to_numpy().reshape(values.shape)


def vary_sampler(study: Study) -> xr.Dataset:
    """Run the paper's sampler with other J, Δτ and ρ, for as many steps.

    Parameters
    ----------
    study : Study
        A study with trained networks; the table [steps] gives the values and the networks.

    Returns
    -------
    Dataset
        By `row`: the choices, the `time` τ that is reached (median), how many units `diverged`, and
        for each role the mean activation of the indicated units of the last condition, of the
        Bayesian (`indicated_ROLE`) and of the trained network (`mle_ROLE`).
    """
    inference, steps = study.settings.inference, study.settings.steps
    asked = list_questions(study.stimuli, study.stimuli.conditions[-1])
    paper, rows = inference.samplers["paper"], []
    for index in range(min(steps.networks, len(study.run.networks))):
        layer, psi, unit = _ask(study, index, asked)
        trained = expit((psi * layer.trained[unit]).sum(axis=1))
        for size, step, rate in product(steps.num_particles, steps.step_sizes, steps.dropout_rates):
            options = {"step_size": None if step == "automatic" else step, "dropout_rate": rate}
            sampler = paper.model_copy(
                update={"num_particles": size, "options": paper.options | options}
            )
            posterior = infer_posterior(
                layer, sampler, inference.central_prior, inference.get_seed(index), diagnose=False
            )
            answers = posterior.predict_proba(psi)[np.arange(len(psi)), unit]
            row: dict[str, Any] = {"network": index, "num_particles": size}
            row |= {"step_size": str(step), "dropout_rate": rate}
            row["time"] = float(np.median(posterior.info.time))
            row["diverged"] = int(posterior.info.diverged.sum())
            for role in asked["probe"].unique():
                here = (asked["probe"] == role).to_numpy()
                row[f"indicated_{role}"] = float(answers[here].mean())
                row[f"mle_{role}"] = float(trained[here].mean())
            rows.append(row)
    return xr.Dataset({name: ("row", np.array([row[name] for row in rows])) for name in rows[0]})


def compare_with_exact(study: Study, answers: xr.Dataset, sampled: Sequence[Any]) -> xr.Dataset:
    """Compare the exact posterior, by Hamiltonian Monte Carlo, with the study's two samplers.

    Parameters
    ----------
    study : Study
        The indicated units of every condition and item of its stimuli are asked for.
    answers : Dataset
        The answers of the study's samplers (`activations`).
    sampled : sequence of tuple
        What `sample_exactly` returned for each network.

    Returns
    -------
    Dataset
        `exact_mean`, `_sd`, `_low` and `_high`, and those of each sampler, by network and question;
        `r_hat` and `ess` of the unit asked for. The attribute `unconverged` names the units whose
        chains did not converge.
    """
    inference = study.settings.inference
    asked = list_questions(study.stimuli, most=study.settings.exact.units)
    parts, unconverged = zip(*sampled, strict=True)
    missed = [name for names in unconverged for name in names]
    numbers = pd.RangeIndex(len(parts), name="network")
    places = {name: asked[name].to_xarray() for name in (*HEARD, "unit")}
    here = answers.sel(network=numbers, prior=inference.central_prior).sel(places)
    others = {
        f"{sampler}_{what}": here[what].sel(sampler=sampler).reset_coords(drop=True)
        for sampler, what in product(inference.samplers, SUMMARIES)
    }
    exact: xr.Dataset = xr.concat(parts, numbers).assign(others)
    posteriors = len(parts) * asked["unit"].nunique()
    return exact.assign_attrs(posteriors=posteriors, unconverged=join_names(missed, most=8))


def sample_exactly(study: Study, index: int) -> tuple[xr.Dataset, list[str]]:
    """Return the exact answers of one network, and the units whose chains did not converge."""
    inference, exact = study.settings.inference, study.settings.exact
    asked = list_questions(study.stimuli, most=exact.units)
    questions = _ask(study, index, asked)
    sampler = SamplerSettings(method="hmc", num_particles=exact.num_particles)
    seed = inference.get_seed(index)
    posterior = infer_posterior(questions.layer, sampler, inference.central_prior, seed)
    info, units = posterior.info, asked["unit"].unique()
    missed = [f"{unit} of network {index}" for unit in units[~info.output_converged]]
    chains = {name: ("question", getattr(info, name)[questions.unit]) for name in ("r_hat", "ess")}
    return xr.Dataset(questions.answer("exact", posterior) | chains), missed


def compare_with_nuts(study: Study) -> xr.Dataset:
    """Sample the posterior of the first network by NUTS, and time it and the study's samplers.

    Parameters
    ----------
    study : Study
        A study with trained networks; the table [nuts] gives the numbers of units, draws, chains.

    Returns
    -------
    Dataset
        `nuts_mean`, `_sd`, `_low` and `_high` by network and question; attributes hold the seconds.
    """
    inference, nuts = study.settings.inference, study.settings.nuts
    asked = list_questions(study.stimuli, most=nuts.units)
    questions = _ask(study, 0, asked)
    reference = SamplerSettings(
        method="nuts",
        num_particles=nuts.draws,
        num_steps=nuts.warmup,
        options={"num_chains": nuts.chains},
    )
    units = ", ".join(asked["unit"].unique())
    attributes = {"units": units, "network": 0, "prior": inference.central_prior}
    answers = {}
    for name, sampler in {"nuts": reference, **inference.samplers}.items():
        began, seed = perf_counter(), inference.get_seed(0)
        posterior = infer_posterior(questions.layer, sampler, inference.central_prior, seed)
        attributes[f"seconds_{name}"] = perf_counter() - began
        if name == "nuts":
            attributes["verdict"] = posterior.info.message
            answers = questions.answer(name, posterior)
    dataset = xr.Dataset(answers, coords={"question": list(asked.index)}, attrs=attributes)
    return dataset.expand_dims(network=[0])


def list_questions(stimuli: Items, *conditions: str, most: int | None = None) -> pd.DataFrame:
    """List the questions about the tracked units at the critical word of each sentence.

    Parameters
    ----------
    stimuli : Items
        The sentences.
    *conditions : str
        The conditions to include; by default all.
    most : int, optional
        The largest number of units; the first ones in the order of the stimuli are kept.

    Returns
    -------
    DataFrame
        Condition, item, position, probe, unit and the words so far, indexed by a name such as
        "reversal, dinner: pizza as agent".
    """
    rows = (
        stimuli.rows[place] for place in product(conditions or stimuli.conditions, stimuli.items)
    )
    asked = {
        f"{row.condition}, {row.name}: {unit} as {role}": (
            *(row.condition, row.name, row.critical, role, unit),
            row.utterance.first(row.critical),
        )
        for row in rows
        for role, unit in row.tracked.items()
    }
    table = pd.DataFrame.from_dict(asked, orient="index", columns=[*HEARD, "unit", "heard"])
    return table[table["unit"].isin(table["unit"].unique()[:most])].rename_axis("question")


def collect_features(network: Network, asked: pd.DataFrame) -> np.ndarray:
    """Collect the features ψ, the last layer's input, of each question: (question, D)."""
    heard = zip(asked["heard"], asked["probe"], strict=True)
    return np.stack([network.probe_features(said, [probe]).values[-1, 0] for said, probe in heard])
