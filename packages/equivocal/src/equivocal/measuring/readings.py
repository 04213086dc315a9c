"""Particles of the posterior over a network's last layer, and their readings of sentences.

Particles are sampled once and stored. The prior is centred on the trained weights and the rows are
those of training, as everywhere (`equivocal.beliefs`). If the settings of the sampler (`SAMPLER`)
change, stored posteriors are sampled anew.

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

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Network, Run
from equivocal.network.storage import name_arrays
from equivocal.statistics.summaries import LEVEL
from equivocal.store.store import NETWORK_CODE, POSTERIOR_CODE, Store, hash_content
from lastlayer import Posterior

if TYPE_CHECKING:
    from equivocal.measuring.paradigms import Paradigm

__all__ = ["READINGS", "SAMPLER", "count_readings", "sample_particles"]

VARIANCE = 1.0  # of the prior; the paper's central one
ROWS = "every word"
MEASURE_CODE = (*POSTERIOR_CODE, "equivocal/measuring/readings.py", "equivocal/statistics")
SAMPLER = SamplerSettings(method="exact-flow", num_particles=64, tolerance=0.01)
READINGS = ("answer", "rival", "neither")
CELLS = ["paradigm", "condition", "beliefs"]
NAN = float("nan")


def sample_particles(
    run: Run, index: int, store: Store, sampler: SamplerSettings = SAMPLER
) -> np.ndarray:
    """Load the particles of a network's posterior from a store, or sample them into it.

    Parameters
    ----------
    run : Run
        The training run.
    index : int
        Which of its networks.
    store : Store
        Stores the posterior as posteriors/WORLD/NN.safetensors.
    sampler : SamplerSettings
        The sampler; a stored posterior of another one is not used.

    Returns
    -------
    array (units, particles, features)
        Last layers, each of a simulated comprehender. A sampler that did not converge is warned of.
    """
    name = f"posteriors/{run.world.name}/{index:02d}"
    what = (_hash_network(run, index), sampler.model_dump(), VARIANCE, ROWS)
    posterior = store.load_or_make(
        name,
        hash_content(*what, code=MEASURE_CODE),
        ".safetensors",
        load=Posterior.load,
        make=lambda: infer_posterior(
            collect_last_layer(run, run.networks[index], ROWS),
            sampler,
            VARIANCE,
            run.settings.seed + index,
        ),
        save=Posterior.save,
    )
    if not posterior.info.converged:
        what_happened = "diverged" if posterior.info.diverged.any() else "did not converge"
        warnings.warn(
            f"the posterior of network {index} {what_happened} ({store.folder / name}); interpret "
            "results that depend on it with care.",
            stacklevel=2,
        )
    return np.asarray(posterior.particles, np.float32)


def _hash_network(run: Run, index: int) -> str:
    """Return a hash of a network's weights and of all that its corpus depends on."""
    weights = hashlib.sha256()
    for array in name_arrays(run.models[index]).values():
        weights.update(np.asarray(array).tobytes())
    about = (weights.hexdigest(), run.world.fingerprint, asdict(run.settings))
    return hash_content(*about, code=NETWORK_CODE)


def read_items(paradigm: "Paradigm", network: Network, layers: np.ndarray) -> pd.DataFrame:
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
        paradigm, condition, item; the share of each of `READINGS`.
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
        rows.append(
            {"paradigm": paradigm.name, "condition": item.condition, "item": item.name}
            | dict(zip(READINGS, count_readings(z_answer, z_rival), strict=True))
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


def summarise_shares(shares: pd.DataFrame, paradigm: "Paradigm") -> Iterator[str]:
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
