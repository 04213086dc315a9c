"""The answers of trained networks and their posteriors to the stimuli, after every word.

One dataset, written as `activations.nc`, from which every statistic can be recomputed:

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
`tracked` is empty where an item does not track a role. `read_dataset` reads this dataset and the
others that `probe` writes, and refuses files with any other content: SciPy and xarray read any
netCDF file, but statistics and figures need these variables. The variables, dimensions and
attributes that a new kind of dataset must have are listed in `record/datasets.toml`.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from equivocal.network import Network
from equivocal.paper.settings import StudySettings, read_record
from equivocal.store import check_netcdf
from equivocal.world import ImpossibleSentenceError, Utterance, World
from equivocal.world.items import Item, Items
from lastlayer import Posterior
from lastlayer.errors import UserError, join_names
from lastlayer.files import is_plain_name

LEVEL = 0.9  # coverage of the intervals
SUMMARIES = ("mean", "sd", "low", "high", "expected")
HEARD = ("condition", "item", "position", "probe")
ANSWERED = ("sampler", "prior", "network", *HEARD, "unit")
TIMED = (*ANSWERED[:3], "unit")
NAMES = ("condition", "item", "probe", "unit", "sampler", "question", "role", "non_relevant")
TEXTS = ("word", "tracked")  # text coordinates with several dimensions
LAYOUTS = read_record("datasets")
TYPES = {"str": str, "float": float, "int": int}  # types of attributes


def combine_answers(
    answers: Sequence[dict[str, np.ndarray]], world: World, stimuli: Items, settings: StudySettings
) -> xr.Dataset:
    """Combine the answers of all networks and posteriors to the stimuli.

    Parameters
    ----------
    answers : sequence of dict
        What `answer_stimuli` returned for each network.
    world : World
        The world of the networks.
    stimuli : Items
        The sentences.
    settings : StudySettings
        Says which samplers, priors, probes and units are used.

    Returns
    -------
    Dataset
        As described at the top of this module.
    """
    inference = settings.inference
    units, probes = list(list_sampled_units(world, stimuli, settings)), settings.stimuli.probes
    truth = _fill(
        stimuli,
        (len(probes), len(units)),
        lambda said: trace_truth(world, said, probes, units) if world.is_exact else np.nan,
    )
    dataset = xr.Dataset(
        {
            "mle": (ANSWERED[2:], np.stack([found["mle"] for found in answers])),
            **{
                name: (ANSWERED, np.stack([found[name] for found in answers], axis=2))
                for name in SUMMARIES
            },
            "time": (TIMED, np.stack([found["time"] for found in answers], axis=2)),
            "truth": (ANSWERED[3:], truth),
            "critical": (HEARD[:2], _arrange(stimuli, lambda row: row.critical)),
        },
        coords={
            "sampler": list(inference.samplers),
            "prior": list(inference.prior_variances),
            "network": np.arange(len(answers)),
            "probe": list(probes),
            "unit": units,
            **_describe_sentences(stimuli),
        },
        attrs={
            "study": settings.name,
            "quick": "yes" if settings.quick_run else "no",
            "central_prior": str(inference.central_prior),
        },
    )
    others = list_non_relevant(stimuli, settings)  # netCDF-3 has no empty dimensions
    return dataset.assign_coords(non_relevant=others) if others else dataset


def answer_stimuli(
    network: Network,
    load_posterior: Callable[[str, float], Posterior],
    stimuli: Items,
    settings: StudySettings,
) -> dict[str, np.ndarray]:
    """Compute the answers of one network and its posteriors to the stimuli.

    Parameters
    ----------
    network : Network
        A trained network.
    load_posterior : callable
        Called with sampler and prior variance; returns the posterior.
    stimuli, settings
        As for `combine_answers`.

    Returns
    -------
    dict of str to array
        The trained answers "mle" (condition, item, position, probe, unit), and `SUMMARIES` of the
        posterior answers (sampler, prior, condition, item, position, probe, unit); "time", the τ
        that the sampler reached (sampler, prior, unit).
    """
    samplers, priors = settings.inference.samplers, settings.inference.prior_variances
    units, probes = list_sampled_units(network.world, stimuli, settings), settings.stimuli.probes
    weights = network.last_layer().sel(unit=list(units)).values
    ask = partial(network.probe_features, probes=probes)
    psi = _fill(stimuli, (len(probes), weights.shape[1]), ask)
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
        found = summarise_answers(posterior, psi[said])
        found["expected"] = posterior.entropies(psi[said]).expected
        for name, values in found.items():
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


def list_non_relevant(stimuli: Items, settings: StudySettings) -> list[str]:
    """List the units that the settings name as non-relevant.

    Without such a list these are the units that some items track and others do not.
    """
    if settings.stimuli.non_relevant:
        return list(settings.stimuli.non_relevant)
    by_item = [
        {unit for c in stimuli.conditions for unit in stimuli.rows[c, item].tracked.values()}
        for item in stimuli.items
    ]
    common = set.intersection(*by_item)
    return [unit for unit in stimuli.tracked_units if unit not in common]


def list_sampled_units(world: World, stimuli: Items, settings: StudySettings) -> tuple[str, ...]:
    """List the units whose posterior is sampled, in the world's order."""
    wanted = {*stimuli.tracked_units, *list_non_relevant(stimuli, settings)}
    everything = settings.inference.units == "all"
    return tuple(unit for unit in world.units if everything or unit in wanted)


def summarise_answers(posterior: Posterior, psi: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean, standard deviation and 90 % interval of the activations, by name."""
    low, high = posterior.predict_interval(psi, LEVEL)
    mean, sd = posterior.predict_proba(psi), posterior.predict_sd(psi)
    return {"mean": mean, "sd": sd, "low": low, "high": high}


def flatten_activations(dataset: xr.Dataset) -> pd.DataFrame:
    """Return a table with a row for each answer of each unit, and a column for each estimate."""
    flat = dataset[["mle", "truth"]].copy()
    columns = product(dataset["sampler"].values, dataset["prior"].values, SUMMARIES)
    for sampler, prior, name in columns:
        chosen = dataset[name].sel(sampler=sampler, prior=prior, drop=True)
        flat[f"{sampler}_{prior:g}_{name}"] = chosen
    return flat.to_dataframe().dropna(subset="mle").reset_index()


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


def describe_columns(columns: list[str]) -> pd.DataFrame:
    """Describe what each column of `activations.csv.gz` holds."""
    known = read_record("columns")
    meanings = dict(known["heard"])
    for column in columns:
        if column not in meanings:
            sampler, prior, what = column.split("_")
            meaning = known["posterior"][what]
            meanings[column] = f"{meaning}; sampler {sampler}, prior variance {prior}"
    return pd.DataFrame({"column": columns, "meaning": [meanings[name] for name in columns]})


def read_dataset(path: Path) -> xr.Dataset:
    """Read activations.nc, path.nc, exact.nc or nuts.nc of a study's folder.

    Raises
    ------
    UserError
        Where the file is damaged or does not hold what its name says.
    """
    try:
        check_netcdf(path)
        with warnings.catch_warnings():  # they are about variables that the next check refuses
            warnings.simplefilter("ignore", xr.SerializationWarning)
            dataset = xr.load_dataset(path, engine="scipy", decode_times=False)
        _check_layout(dataset, path.name)
        return dataset
    # xarray raises an AttributeError where text was expected and something else was found
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged ({error}); remove it, and `equivocal probe --out {path.parent}` "
            "writes it again."
        ) from None


def _check_layout(dataset: xr.Dataset, file: str) -> None:
    """Check variables, dimensions, types and attributes against `record/datasets.toml`."""
    layout = LAYOUTS[file]
    variables = {name: tuple(axes.split()) for name, axes in layout["variables"].items()}
    if file == "path.nc":
        traces = [str(name) for name in dataset.data_vars if name != "time"]  # one for each role
        if not traces or not all(name.startswith("indicated_") for name in traces):
            raise ValueError(f"it holds {join_names(traces)}")
        variables |= dict.fromkeys(traces, ("network", "step", "item"))
    for name, dimensions in variables.items():
        kinds, found = ("UO", dataset.coords) if name in TEXTS else ("fi", dataset.data_vars)
        if name not in found:
            raise ValueError(f"the variable {name} is missing")
        if found[name].dims != dimensions or found[name].dtype.kind not in kinds:
            raise ValueError(f"the variable {name} has other dimensions or another type")
    if unnamed := {axis for axes in variables.values() for axis in axes} - set(dataset.coords):
        raise ValueError(f"it does not name its {min(unnamed)}")
    for label, index in dataset.indexes.items():
        _check_index(str(label), index.to_numpy())
    for name, kind in layout["attributes"].items():
        value: Any = dataset.attrs.get(name)
        if np.size(value) != 1 or (kind == "str" and not isinstance(value, str)):
            raise ValueError(f"its attribute {name} is not one {kind}")
        TYPES[kind](value)


def _check_index(name: str, values: np.ndarray) -> None:
    """Check that an index holds finite numbers or distinct names, as its coordinate should."""
    if name not in NAMES:
        if values.dtype.kind not in "fi" or not np.isfinite(values).all():
            raise ValueError(f"its {name}s are not numbered")
        return
    if not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
        raise ValueError(f"the names of its {name}s are not text, or not distinct")
    bad = [value for value in values if not is_plain_name(value)]
    if bad and name in ("condition", "item"):  # conditions become part of the names of figures
        raise ValueError(f"{name} {bad[0]!r:.60} is not a plain name")


def trace_truth(
    world: World, text: str | Utterance, probes: Sequence[str], units: Sequence[str]
) -> xr.DataArray:
    """Trace the exact beliefs after each word of a sentence.

    Parameters
    ----------
    world : World
        The world, whose probabilities are exact.
    text : str or Utterance
        A sentence.
    probes, units : sequence of str
        The roles that are asked for, and the output units that are looked at.

    Returns
    -------
    DataArray
        (word, probe, unit), NaN from the word on that makes the sentence impossible.
    """
    utterance = world.parse(text)
    truth = np.full((len(utterance), len(probes), len(units)), np.nan)
    for last in range(len(utterance)):
        for column, probe in enumerate(probes):
            try:
                beliefs = world.true_beliefs(utterance.first(last + 1), probe)
            except ImpossibleSentenceError:
                continue
            truth[last, column] = beliefs[list(units)]
    return xr.DataArray(
        truth,
        dims=("word", "probe", "unit"),
        coords={"word": list(utterance.words), "probe": list(probes), "unit": list(units)},
        name="truth",
    )
