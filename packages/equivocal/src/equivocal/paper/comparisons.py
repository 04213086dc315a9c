"""Comparisons of the paper's sampler with the exact posterior, and of networks with exact beliefs.

An ensemble starts at its prior and moves to the posterior, so how much uncertainty it shows
depends on when it is stopped; `trace_effect` follows it along its own time τ. The paper (§2.1.1)
says that its sampler gives the uncertainty of Hamiltonian Monte Carlo, and faster.
`compare_with_exact` compares it with Hamiltonian Monte Carlo on all networks; `compare_with_nuts`
runs an independent implementation, NumPyro's NUTS, on the rows of one network, to check the draws
and to compare the time. Only the tracked units are sampled here, in a twentieth of the time that
all units would take.

The beliefs of networks are compared with the exact ones word by word (`tabulate_traces`), and over
the whole world (`tabulate_fit`).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float
from scipy.special import expit

from equivocal.beliefs import LayerRows, SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Network, Run
from equivocal.network.probing import CERTAIN, compute_activations
from equivocal.paper.activations import HEARD, SUMMARIES, summarise_answers, trace_truth
from equivocal.paper.settings import StudySettings
from equivocal.world.items import Items
from lastlayer import Posterior
from lastlayer.errors import join_names
from lastlayer.outcome import Snapshot


def trace_effect(run: Run, stimuli: Items, settings: StudySettings) -> xr.Dataset:
    """Trace the mean activation of the indicated units of the last condition, step by step.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Items
        The sentences.
    settings : StudySettings
        The table [path] gives the numbers of steps and networks.

    Returns
    -------
    Dataset
        `time` (network, step) and, for each role, `indicated_ROLE` (network, step, item).
    """
    asked = list_questions(stimuli, stimuli.conditions[-1])
    numbers = range(min(settings.path.networks, len(run.networks)))
    times, answers = zip(*(_follow(run, n, asked, settings) for n in numbers), strict=True)
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


def _follow(
    run: Run, index: int, asked: pd.DataFrame, settings: StudySettings
) -> tuple[np.ndarray, np.ndarray]:
    """Follow one network's ensemble.

    Returns the median τ of the units at each step, and activations (step, question).
    """
    inference, steps = settings.inference, settings.path.num_steps
    layer, psi, column = _collect_questions(run, index, asked, inference.rows)
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
    indicated = _fill_forward(answers)[:, column, np.arange(len(psi))]
    return np.nanmedian(_fill_forward(time), axis=1), indicated


def _fill_forward(values: np.ndarray) -> np.ndarray:
    """Repeat the last values of outputs that stopped early, which are NaN from there on."""
    rows = pd.DataFrame(values.reshape(len(values), -1))
    return rows.ffill().to_numpy().reshape(values.shape)


def compare_with_exact(
    stimuli: Items,
    settings: StudySettings,
    answers: xr.Dataset,
    sampled: Sequence[tuple[xr.Dataset, list[str]]],
) -> xr.Dataset:
    """Compare the exact posterior, by Hamiltonian Monte Carlo, with the study's two samplers.

    Parameters
    ----------
    stimuli : Items
        The sentences; the indicated units of every condition and item are asked for.
    settings : StudySettings
        The table [exact] gives the numbers of networks, units and draws.
    answers : Dataset
        The answers of the study's samplers: the content of `activations.nc`.
    sampled : sequence of tuple
        What `sample_exactly` returned for each network.

    Returns
    -------
    Dataset
        `exact_mean`, `_sd`, `_low` and `_high`, and those of each sampler, by network and question;
        `r_hat` and `ess` of the unit asked for. The attribute `unconverged` names the units whose
        chains did not converge.
    """
    inference, asked = settings.inference, list_questions(stimuli, most=settings.exact.units)
    parts, unconverged = zip(*sampled, strict=True)
    missed = [name for names in unconverged for name in names]
    numbers = pd.RangeIndex(len(parts), name="network")
    places = {name: asked[name].to_xarray() for name in (*HEARD, "unit")}
    here = answers.sel(network=numbers, prior=inference.central_prior).sel(places)
    others = {
        f"{sampler}_{what}": here[what].sel(sampler=sampler).reset_coords(drop=True)
        for sampler, what in product(inference.samplers, SUMMARIES[:4])
    }
    found: xr.Dataset = xr.concat(parts, numbers).assign(others)
    posteriors = len(parts) * asked["unit"].nunique()
    return found.assign_attrs(posteriors=posteriors, unconverged=join_names(missed, most=8))


def sample_exactly(
    run: Run, stimuli: Items, settings: StudySettings, index: int
) -> tuple[xr.Dataset, list[str]]:
    """Return the exact answers of one network, and the units whose chains did not converge."""
    inference, asked = settings.inference, list_questions(stimuli, most=settings.exact.units)
    layer, psi, column = _collect_questions(run, index, asked, inference.rows)
    draws = settings.exact.num_particles
    sampler = SamplerSettings(method="hmc", num_particles=draws, options={"check_at": psi})
    seed = inference.get_seed(index)
    posterior = infer_posterior(layer, sampler, inference.central_prior, seed)
    info, units = posterior.info, asked["unit"].unique()
    missed = [f"{unit} of network {index}" for unit in units[~info.output_converged]]
    chains = {name: ("question", getattr(info, name)[column]) for name in ("r_hat", "ess")}
    return xr.Dataset(_answer("exact", posterior, psi, column) | chains), missed


def compare_with_nuts(run: Run, stimuli: Items, settings: StudySettings) -> xr.Dataset:
    """Sample the posterior of the first network by NUTS, and time it and the study's samplers.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Items
        The sentences; the indicated units of every condition and item are asked for.
    settings : StudySettings
        The table [nuts] gives the numbers of units, draws and chains.

    Returns
    -------
    Dataset
        `nuts_mean`, `_sd`, `_low` and `_high` by network and question; attributes hold the seconds.
    """
    inference, nuts = settings.inference, settings.nuts
    asked = list_questions(stimuli, most=nuts.units)
    layer, psi, column = _collect_questions(run, 0, asked, inference.rows)
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
    dataset = xr.Dataset(found, coords={"question": asked.index}, attrs=attributes)
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


def _collect_questions(
    run: Run, index: int, asked: pd.DataFrame, rows: str
) -> tuple[LayerRows, np.ndarray, np.ndarray]:
    """Collect the rows of the units asked for, and the features and unit index of each question."""
    network, (column, units) = run.networks[index], pd.factorize(asked["unit"])
    numbers = [network.world.units.index(unit) for unit in units]
    layer = collect_last_layer(run, network, rows).select(numbers)
    return layer, collect_features(network, asked), column


def _answer(name: str, posterior: Posterior, psi: np.ndarray, column: np.ndarray) -> dict[str, Any]:
    """Summarise the posterior activation of the unit that each question asks for."""
    return {
        f"{name}_{what}": ("question", values[np.arange(len(psi)), column])
        for what, values in summarise_answers(posterior, psi).items()
    }


def trace_beliefs(
    networks: Sequence[Network], text: str, probes: Sequence[str], units: Sequence[str]
) -> xr.DataArray:
    """Trace the activations of networks after each word of a sentence.

    Parameters
    ----------
    networks : sequence of Network
        The networks that listen.
    text : str
        A sentence in the words of their world.
    probes, units : sequence of str
        The roles that are asked for, and the output units that are looked at.

    Returns
    -------
    DataArray
        (network, word, probe, unit).
    """
    traces = [network.comprehend(text, probes).sel(unit=list(units)) for network in networks]
    return xr.concat(traces, dim="network")


def tabulate_item(run: Run, stimuli: Items, item: str) -> pd.DataFrame:
    """Tabulate the beliefs about an item, word by word, in every condition.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Items
        The sentences.
    item : str
        One of the items; its tracked roles are the probes, and its tracked units are shown.

    Returns
    -------
    DataFrame
        As `tabulate_traces` returns it; a sentence is named by its condition and its words.
    """
    rows = [stimuli.rows[condition, item] for condition in stimuli.conditions]
    units = list(dict.fromkeys(unit for row in rows for unit in row.tracked.values()))
    texts = {f"{row.condition}: “{row.utterance}”": str(row.utterance) for row in rows}
    return tabulate_traces(run, texts, list(rows[0].tracked), units)


def tabulate_traces(
    run: Run, texts: Mapping[str, str], probes: Sequence[str], units: Sequence[str]
) -> pd.DataFrame:
    """Tabulate the beliefs about sentences, word by word, beside the exact ones.

    Parameters
    ----------
    run : Run
        The trained networks.
    texts : mapping of str to str
        Sentences by name.
    probes, units : sequence of str
        The roles that are asked for, and the output units that are looked at.

    Returns
    -------
    DataFrame
        A row for each sentence, word, probe and unit: mean and standard deviation of the
        activation over networks, and the exact belief.
    """
    parts = []
    for sentence, text in texts.items():
        trace = trace_beliefs(run.networks, text, probes, units)
        spread = {"mean": trace.mean("network"), "sd": trace.std("network", ddof=0)}
        found = xr.Dataset({**spread, "exact": trace_truth(run.world, text, probes, units)})
        parts.append(found.to_dataframe().reset_index().assign(sentence=sentence))
    return pd.concat(parts, ignore_index=True)


def tabulate_fit(run: Run, bins: int = 20) -> pd.DataFrame:
    """Tabulate mean activation, and its 5 % and 95 % quantile, by true probability.

    The questions are role probes after every prefix of every sentence of the world, each weighted
    by its probability. Only possible units count, and all networks are pooled.

    Parameters
    ----------
    run : Run
        The trained networks.
    bins : int
        The number of bins for true probabilities below one.

    Returns
    -------
    DataFrame
        A row per bin: truth, activation, low, high, weight.
    """
    everything = run.world.all_derivations
    asked = everything.queries.find_role_probes()
    truth = everything.queries.targets()[asked]
    answers = np.stack([answer[asked] for answer in compute_activations(run.models, everything)])
    row, unit = np.nonzero(truth > CERTAIN)
    true, weight = truth[row, unit], everything.queries.weight[asked][row]
    # a truth of exactly one half must not fall into two bins by round-off
    number = np.minimum((true * bins + CERTAIN).astype(int), bins - 1)
    number[true > 1 - CERTAIN] = bins  # certainty has a bin of its own
    return pd.DataFrame(
        [
            summarise_bin(true[in_bin], weight[in_bin], answers[:, row[in_bin], unit[in_bin]])
            for in_bin in (number == this for this in np.unique(number))
        ]
    )


def summarise_bin(
    truth: Float[np.ndarray, " questions"],
    weight: Float[np.ndarray, " questions"],
    answers: Float[np.ndarray, "networks questions"],
) -> dict[str, float]:
    """Return one row of `tabulate_fit`."""
    share, every = weight / weight.sum(), np.broadcast_to(weight, answers.shape)
    low, high = np.quantile(answers, [0.05, 0.95], weights=every, method="inverted_cdf")
    return {
        "truth": float(share @ truth),
        "activation": float(share @ answers.mean(axis=0)),
        "low": float(low),
        "high": float(high),
        "weight": float(weight.sum()),
    }
