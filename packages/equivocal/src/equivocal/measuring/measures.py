"""What each word does to a comprehender: the measures in the table of words, one function each.

Networks. A gestalt is the layer itself, (words, gestalt units). Beliefs are given as logits a,
(…, words, roles, units), so that nothing is clipped: y = σ(a) is a network's degree of belief that
a unit belongs to the answer when a role is asked, and units are taken as independent of each other.
A network is never asked anything before the first word, so there are no beliefs that the first word
could change, and the surprise is NaN there.

Exact measures of the world are in `equivocal.measuring.exact`.

A new measure is a function here or there, a line of `MEASURES`, and a column in
`equivocal.measuring.words.measure_words`. `describe_columns` makes the dictionary of columns that
is written beside every table of words.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats
from scipy.special import expit, rel_entr

from equivocal.statistics.summaries import LEVEL

__all__ = ["MEASURES", "Measure", "average_networks"]


class Measure(NamedTuple):
    """A column of the table of words, as tables, figures and the dictionary describe it."""

    title: str
    meaning: str
    signal: str = ""  # the event-related potential that it is linked with, if any
    exploratory: bool = True
    exact: bool = False  # computed from the world, and so the same for every network


MEASURES = {
    "semantic_update": Measure(
        "semantic update",
        "sum over gestalt units of how far the word moves each (Rabovsky et al. 2018)",
        "N400",
        exploratory=False,
    ),
    "bayesian_surprise": Measure(
        "Bayesian surprise (nats)",
        "divergence of the beliefs after the word from those before it; none at the first word",
        "N400",
    ),
    "p600": Measure(
        "departure from the literal reading (nats)",
        "Jensen–Shannon divergence of the beliefs from literal ones: those of networks trained "
        "without the world's noise or, in a world without noise, the roles heard so far",
        "P600",
    ),
    "uncertainty": Measure(
        "uncertainty of beliefs (nats)", "entropy of the beliefs after the word"
    ),
    "epistemic": Measure(
        "epistemic uncertainty (nats)",
        "part of the uncertainty that the posterior over the last layer accounts for",
    ),
    "between_networks": Measure(
        "uncertainty between networks (nats)",
        "entropy of the beliefs averaged over networks less the average entropy; one value for "
        "all networks",
    ),
    "exact_surprise": Measure(
        "exact surprise about the event (nats)",
        "divergence of the exact beliefs about the event after the word from those before it",
        "N400",
        exact=True,
    ),
    "exact_p600": Measure(
        "exact departure from the literal meaning (nats)",
        "Jensen–Shannon divergence of exact beliefs with the world's noise from those without; "
        "none in a world without noise",
        "P600",
        exact=True,
    ),
    "surprisal": Measure(
        "surprisal (nats)",
        "−log P(constituent | those before it); infinite where it never follows",
        exact=True,
    ),
    "cloze": Measure("cloze probability", "P(constituent | those before it)", exact=True),
    "entropy": Measure(
        "entropy of the event (nats)", "entropy of the exact beliefs about the event", exact=True
    ),
    "entropy_reduction": Measure(
        "entropy reduction (nats)",
        "how far the word lowers that entropy; below 0 where it raises it",
        exact=True,
    ),
    "frequency": Measure(
        "frequency of the word", "share of the word among all words of the sentences", exact=True
    ),
}


def list_linked(signal: str) -> tuple[str, ...]:
    """Return the measures that are linked with an event-related potential: "N400" or "P600"."""
    return tuple(name for name, measure in MEASURES.items() if measure.signal == signal)


KINDS = {"exact": "exact", "warranted": "counting learner"}  # of beliefs, by the start of a name
FIELDS = ("column", "from", "linked_with", "meaning")
KEYS = {
    "paradigm": "name of the table of items",
    "condition": "condition of the item",
    "item": "name of the item",
    "position": "number of the constituent in its sentence, from 1",
    "word": "the constituent as the participant reads it",
    "constituent": "what the network hears: a word, after a marker and + if it has one",
    "critical": "whether it is the critical word",
    "network": "number of the network, from 0",
}


def describe_columns(columns: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a row of the dictionary for each column of a table of words."""
    for column in columns:
        if column.startswith(("warranted_low_", "warranted_high_")):
            role = column.split("_", 2)[2]
            meaning = f"end of the 90 % interval of warranted_belief_{role}, once the verb is heard"
            yield dict(zip(FIELDS, (column, KINDS["warranted"], "", meaning), strict=True))
            continue
        bare = column.removesuffix("_low").removesuffix("_high")
        name, _, number = bare.partition("_network_")
        if name in KEYS:
            meaning, kind = KEYS[name], "key"
        elif name in MEASURES:
            unit = " (nats)" if MEASURES[name].title.endswith("(nats)") else ""
            meaning = f"{MEASURES[name].meaning}{unit}"
            kind = "exact" if MEASURES[name].exact else "network"
        else:
            role = name.rpartition("belief_")[2]
            about = "that the whole reading is meant" if role == "reading" else f"in the {role}"
            meaning = f"belief {about}, as the sentence's literal reading or `roles` gives it"
            kind = KINDS.get(name.partition("_")[0], "network")
        if bare != column:
            meaning = f"end of the 95 % interval over networks: {meaning}"
        elif number:
            meaning = f"of network {number}: {meaning}"
        signal = MEASURES[name].signal if name in MEASURES else ""
        yield dict(zip(FIELDS, (column, kind, signal, meaning), strict=True))


def compute_semantic_update(
    gestalts: Float[np.ndarray, "*others words gestalt"],
) -> Float[np.ndarray, "*others words"]:
    """Compute how far each word moves the gestalt: Σ_i |g_i(t) − g_i(t−1)|, from silence on.

    Source: Rabovsky, Hansen & McClelland (2018), Nature Human Behaviour 2, 693–705.
    Linking hypothesis: the amplitude of the N400. The gestalt stands for an implicit probability
    distribution over the meaning of the sentence, and the N400 for how much a word changes it.
    """
    silence = np.zeros_like(gestalts[..., :1, :])
    return np.asarray(np.abs(np.diff(gestalts, axis=-2, prepend=silence)).sum(axis=-1))


def compute_bayesian_surprise(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute KL(beliefs after the word ‖ beliefs before it), summed over roles and units, in nats.

    For one unit with logits a after and b before, KL = σ(a)(a − b) − log(1+eᵃ) + log(1+eᵇ).

    Source: Itti & Baldi (2009), Vision Research 49, 1295–1306, for the divergence from prior to
    posterior as surprise; Rabovsky et al. (2018) call the change of the implicit distribution so.
    Linking hypothesis: the N400, as for the semantic update, but read off what the network would
    answer: a change of the gestalt that changes no answer does not count. Exploratory.
    """
    a, b = logits[..., 1:, :, :], logits[..., :-1, :, :]
    divergence = expit(a) * (a - b) - np.logaddexp(0, a) + np.logaddexp(0, b)
    # round-off must not make a distance negative
    summed = np.maximum(divergence, 0).sum(axis=(-2, -1))
    return np.asarray(np.insert(summed, 0, np.nan, axis=-1))


def compute_uncertainty(
    logits: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute the entropy of the beliefs after each word, summed over roles and units, in nats.

    H(σ(a)) = log(1+eᵃ) − a σ(a), written for |a| so that it stays exact far out. Of the mean belief
    of particles it is the total uncertainty; what it exceeds the mean of their entropies by is
    epistemic, the part that more experience would remove (Depeweg, Hernández-Lobato, Doshi-Velez &
    Udluft 2018, ICML, 1184–1193). Linked with no signal.
    """
    size = np.abs(logits)
    small = np.exp(-size)
    return np.asarray((size * small / (1 + small) + np.log1p(small)).sum(axis=(-2, -1)))


def compute_unit_divergence(
    logits: Float[np.ndarray, "*others words roles units"],
    literal: Float[np.ndarray, "*others words roles units"],
) -> Float[np.ndarray, "*others words"]:
    """Compute Σ JS(y, l) over roles and units, of two networks' beliefs y and l, in nats.

    The networks' counterpart of `exact_p600`. In a world with noise y are the beliefs of a network,
    l those of one trained in the same world without noise, which answers any sentence, possible or
    not. In a world without noise l are the roles heard so far, 0 or 1 (logits ±∞).
    Linking hypothesis: the P600. Exploratory.
    """
    y, other = expit(logits), expit(literal)
    mean = (y + other) / 2
    parts = (rel_entr(p, q) for a in (y, other) for p, q in ((a, mean), (1 - a, 1 - mean)))
    return np.asarray(np.asarray(sum(parts)).sum(axis=(-2, -1)) / 2)


def average_networks(words: pd.DataFrame) -> pd.DataFrame:
    """Return the wide table: a row for each item, condition and word, with means over networks.

    For a measure m there are the columns m, m_low and m_high (its 95 % t interval over networks)
    and m_network_0, …; exact measures are the same for every network and have one column.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    """
    keys = [name for name in KEYS if name in words and name != "network"]
    measures = [str(name) for name in words if name not in KEYS]
    count = words["network"].nunique()
    groups = words.groupby(keys, sort=False, dropna=False)
    place, columns = (groups.ngroup(), words["network"]), dict[str, np.ndarray]()
    for name in measures:
        rows = np.full((groups.ngroups, count), np.nan)
        rows[place] = words[name]
        columns[name] = rows.mean(axis=1)
        if (name in MEASURES and MEASURES[name].exact) or name.startswith(("exact_", "warranted_")):
            continue
        if count > 1 and name != "between_networks":
            error = rows.std(axis=1, ddof=1) / np.sqrt(count)
            half = error * stats.t.ppf(0.5 + LEVEL / 2, count - 1)
            columns |= {f"{name}_low": columns[name] - half, f"{name}_high": columns[name] + half}
            columns |= {f"{name}_network_{n}": rows[:, n] for n in range(count)}
    heads = groups.size().index.to_frame(index=False)
    return pd.concat([heads, pd.DataFrame(columns)], axis=1)
