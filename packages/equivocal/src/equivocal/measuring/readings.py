"""Readings of sentences with two of them: by trained networks, by particles, and exact beliefs.

A comprehender is a last layer θ. Asked a probe with the features ψ, it prefers the answer where

    θ_answerᵀψ > θ_rivalᵀψ                                                               (1)

and it reads the sentence as `answer` (the tracked units) if (1) holds for every probe, as `rival`
if the opposite does, and as `neither` otherwise: for example if the man is both the likelier agent
and the likelier patient. Logits are compared, so nothing is lost to rounding near 0. The trained
network is one comprehender, the particles of its posterior are many.

Ferreira (2003, Cognitive Psychology 47, 164–203) asked people who did what; the `rival` reading of
an implausible passive is what she counts as error. That particles stand for people is a hypothesis.

Networks and items are both samples. A mean share has one 95 % interval over networks, items
averaged, and one over items, networks averaged; a single network or item has no interval. Shares
are often exactly 0 or 1 in all n networks (or items), where a t interval has no variance to use.
Their interval is that of Clopper & Pearson (1934, Biometrika 26, 404–413), with the sum k of the n
shares in place of a count,

    from the 0.025 quantile of Beta(k, n − k + 1), 0 if k = 0
      to the 0.975 quantile of Beta(k + 1, n − k), 1 if k = n                            (2)

Where every share is 0 or 1 it is the exact binomial interval. In between it is conservative, since
no variable in [0, 1] with mean m has a larger variance than a Bernoulli variable with probability m
(this is no proof; a test counts how often it covers m for shares of two values).
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from equivocal.measuring.paradigms import Paradigm
from equivocal.network import Network
from equivocal.statistics.summaries import LEVEL
from equivocal.world import ImpossibleSentenceError, World
from equivocal.world.items import Item

__all__ = ["READINGS", "count_readings"]

READINGS = ("answer", "rival", "neither")
CELLS = ["paradigm", "condition", "beliefs"]
NAN = float("nan")


def read_items(paradigm: Paradigm, network: Network, layers: np.ndarray) -> pd.DataFrame:
    """Read every item that has two readings with some last layers of a network.

    Parameters
    ----------
    paradigm : Paradigm
        The sentences, with the units of both readings.
    network : Network
        Trained in its world.
    layers : array (units, particles, features)
        The last layers, each of a comprehender.

    Returns
    -------
    DataFrame
        paradigm, condition, item; the share of each of `READINGS`; for the item's first probe the
        mean belief in answer and rival, and the exact beliefs, NaN where the sentence is
        impossible.
    """
    number = {unit: k for k, unit in enumerate(paradigm.world.units)}
    rows = []
    for item in paradigm.rows.values():
        if not item.rivals:
            continue
        psi = network.probe_features(item.utterance, list(item.tracked)).values[-1]
        z_answer, z_rival = (
            np.einsum("qjd,qd->qj", layers[[number[units[p]] for p in item.tracked]], psi)
            for units in (item.tracked, item.rivals)
        )
        exact, rival_exact = compute_exact_beliefs(paradigm.world, item)
        shares = count_readings(z_answer, z_rival)
        rows.append(
            {"paradigm": paradigm.name, "condition": item.condition, "item": item.name}
            | dict(zip(READINGS, shares, strict=True))
            | {"belief": expit(z_answer[0]).mean(), "rival_belief": expit(z_rival[0]).mean()}
            | {"exact": exact, "rival_exact": rival_exact}
        )
    return pd.DataFrame(rows)


def count_readings(z_answer: np.ndarray, z_rival: np.ndarray) -> tuple[float, float, float]:
    """Return the shares of `READINGS` among comprehenders, from logits (probes, comprehenders).

    >>> two_probes_to_four = np.array([[1, 1, -1, -1], [1, -1, -1, -1]])
    >>> count_readings(two_probes_to_four, np.zeros((2, 4)))
    (0.25, 0.5, 0.25)
    """
    answer = (z_answer > z_rival).all(axis=0)
    rival = (z_answer < z_rival).all(axis=0)
    return float(answer.mean()), float(rival.mean()), float((~answer & ~rival).mean())


def compute_exact_beliefs(world: World, item: Item) -> tuple[float, float]:
    """Compute the exact probability of answer and rival for the first probe of an item.

    NaN where the sentence is impossible in the world.
    """
    probe = next(iter(item.tracked))
    asked = "role" if probe in world.roles else "filler"
    try:
        truth = world.true_beliefs(item.utterance, **{asked: probe})
    except ImpossibleSentenceError:
        return NAN, NAN
    return float(truth[item.tracked[probe]]), float(truth[item.rivals[probe]])


def tabulate_shares(readings: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the share of each reading, by condition and kind of comprehender.

    Parameters
    ----------
    readings : DataFrame
        Rows of `read_items`, with the columns `network` and `beliefs` ("trained", "posterior").

    Returns
    -------
    DataFrame
        With intervals (2) over networks and over items.
    """
    rows = []
    for key, part in readings.groupby(CELLS, sort=False):
        for name in READINGS:
            row = dict(zip([*CELLS, "reading"], [*key, name], strict=True))
            row["share"] = float(part[name].mean())
            for over in ("network", "item"):
                means = part[name].groupby(part[over], sort=False).mean().to_numpy()
                low, high = find_share_interval(means)
                row |= {f"{over}s": len(means)}
                row |= {f"share_{over}_low": low, f"share_{over}_high": high}
            rows.append(row)
    return pd.DataFrame(rows)


def find_share_interval(shares: np.ndarray) -> tuple[float, float]:
    """Return the interval (2) from the shares of networks or of items."""
    n = len(shares)
    if n < 2:
        return NAN, NAN
    k, tail = float(np.clip(shares.sum(), 0, n)), (1 - LEVEL) / 2
    low = stats.beta.ppf(tail, k, n - k + 1) if k > 0 else 0.0
    high = stats.beta.isf(tail, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


def summarise_shares(shares: pd.DataFrame, paradigm: Paradigm) -> Iterator[str]:
    """Yield a sentence for each condition: the share of the rival reading, and that of people.

    Parameters
    ----------
    shares : DataFrame
        As returned by `tabulate_shares`.
    paradigm : Paradigm
        The paradigm with these conditions.
    """
    own = shares[(shares["paradigm"] == paradigm.name) & (shares["reading"] == "rival")]
    yield f"{paradigm.title}: share of the reading “{paradigm.readings.get('rival', 'rival')}”"
    for condition, rows in own.groupby("condition", sort=False):
        said = ", ".join(f"{row.beliefs} {row.share:.1%}" for row in rows.itertuples())
        people = paradigm.people.get(str(condition))
        beside = "" if people is None else f"; people about {people:.0%}, {paradigm.cite()}"
        yield f"    {condition}: {said}{beside}"
