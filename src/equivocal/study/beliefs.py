"""The beliefs of networks compared with the exact ones: word by word, and over the whole world."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Float

from equivocal.gestalt import Network, Run
from equivocal.gestalt.scoring import CERTAIN, compute_activations
from equivocal.study.stimuli import Stimuli
from equivocal.world import ImpossibleSentenceError, Utterance, World


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


def tabulate_item(run: Run, stimuli: Stimuli, item: str) -> pd.DataFrame:
    """Tabulate the beliefs about an item, word by word, in every condition.

    Parameters
    ----------
    run : Run
        The trained networks.
    stimuli : Stimuli
        The sentences.
    item : str
        One of the items; its tracked roles are asked for, and its tracked units looked at.

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

    Role probes after every prefix of every sentence of the world; possible units only; each
    question weighted by its probability; all networks pooled.

    Parameters
    ----------
    run : Run
        The trained networks.
    bins : int
        How many bins true probabilities below one are sorted into.

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
    number[true > 1 - CERTAIN] = bins  # certainty is a class of its own
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
    """Summarise one bin of the table."""
    share = weight / weight.sum()
    values = answers.ravel()
    order = np.argsort(values)
    below = np.cumsum(np.tile(share / len(answers), len(answers))[order])
    low, high = np.searchsorted(below, [0.05, 0.95])
    return {
        "truth": float(share @ truth),
        "activation": float(share @ answers.mean(axis=0)),
        "low": float(values[order[low]]),
        "high": float(values[order[high]]),
        "weight": float(weight.sum()),
    }
