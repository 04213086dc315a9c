"""Readings of sentences: by trained networks, by simulated comprehenders, and exact beliefs.

A comprehender is a last layer θ. Asked a probe with the features ψ, it prefers the answer where

    θ_answerᵀψ > θ_rivalᵀψ                                                               (1)

and it reads the sentence as `answer` (the tracked units) if (1) holds for every probe, as `rival`
if the opposite does, and as `neither` otherwise: for example if the man is both the likelier agent
and the likelier patient. Logits are compared, so nothing is lost to rounding near 0. The trained
network is one comprehender. The particles of a posterior are many:

    θ_k ~ posterior( N(θ_k^trained, v I), questions of the first n sentences )

v is the prior variance. n is the number of *sentences heard*: they give the rows of the posterior,
while the network, and with it ψ and the centre of the prior, stays as trained on all sentences. So
n is the amount of evidence that narrows the uncertainty about one and the same network; a network
trained on fewer sentences would also have other features, and the two effects could not be
separated. A tenth of the n sentences is left out, drawn anew for each n: of all sentences it is the
tenth that training held out, of fewer sentences another one, so that some that training held out
are then among the rows. Units are independent under this posterior, so only those that are asked
for are sampled.

Ferreira (2003, Cognitive Psychology 47, 164–203) asked people who did what; the `rival` reading of
an implausible passive is what she counts as error. That particles stand for people is a hypothesis.

The settings of the sampler (`SAMPLER`) may be changed; stored readings are then recomputed.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.measuring.measurement import ROWS, SUITE_CODE, hash_network
from equivocal.measuring.suite import Construction
from equivocal.network import Run
from equivocal.store import read_json
from equivocal.store.store import Store, hash_content
from equivocal.world import ImpossibleSentenceError
from lastlayer.files import UnreadableError

SAMPLER = SamplerSettings(method="exact-flow", num_particles=200, tolerance=0.01)
READINGS = ("answer", "rival", "neither")
MEASURED = (*READINGS, "belief", "rival_belief")
NAN = float("nan")


class Readings(NamedTuple):
    """Shares of readings and mean beliefs of comprehenders, for every item."""

    values: np.ndarray  # (items, MEASURED), each between 0 and 1
    converged: bool  # whether the sampler of their posterior converged


class Reader:
    """One network of a run that has heard every sentence of a construction.

    Parameters
    ----------
    construction : Construction
        The construction whose sentences are read.
    run : Run
        Networks trained in the construction's world.
    index : int
        The number of the network.
    store : Store, optional
        Stores the readings of posteriors, as readings/CONSTRUCTION/NN_vVARIANCE_nHEARD.json.
    """

    def __init__(
        self, construction: Construction, run: Run, index: int, store: Store | None = None
    ) -> None:
        self.construction, self.run, self.index = construction, run, index
        self.store, self.network = store, run.networks[index]
        self._psi = [  # (probes, D) after the last word of each item
            self.network.probe_features(item.utterance, list(item.tracked)).values[-1]
            for item in construction.items
        ]

    def read_trained(self) -> pd.DataFrame:
        """Read every item with the trained network.

        Returns
        -------
        DataFrame
            A row for each item: shares of `READINGS`, belief in answer and rival for its first
            probe, and the exact beliefs, which are NaN where the sentence is impossible.
        """
        layer = self.network.last_layer().sel(unit=list(self.construction.units)).values
        readings = Readings(self._read(layer[:, None]), converged=True)
        return self._tabulate(
            readings, beliefs="trained", variance=0.0, heard=self.run.settings.sentences
        )

    def read_posterior(self, variance: float, heard: int | None = None) -> pd.DataFrame:
        """Read every item with particles of the network's posterior.

        Parameters
        ----------
        variance : float
            v, the prior variance.
        heard : int, optional
            n, the number of sentences heard; by default all of the corpus.

        Returns
        -------
        DataFrame
            As `read_trained`, with shares of particles.
        """
        heard = heard or self.run.settings.sentences
        about = {"beliefs": "posterior", "variance": variance, "heard": heard}
        if self.store is None:
            return self._tabulate(self._sample(variance, heard), **about)
        items = self.construction.items
        asked = [(str(i.utterance), [*i.tracked.items()], [*i.rivals.items()]) for i in items]
        what = hash_network(self.run, self.index), asked, about, SAMPLER.model_dump()
        readings = self.store.load_or_make(
            f"readings/{self.construction.name}/{self.index:02d}_v{variance:g}_n{heard}",
            hash_content(*what, code=SUITE_CODE),
            ".json",
            load=lambda path: load_readings(path, len(items)),
            make=lambda: self._sample(variance, heard),
            save=save_readings,
        )
        return self._tabulate(readings, **about)

    def _sample(self, variance: float, heard: int) -> Readings:
        shorter = replace(self.run, settings=replace(self.run.settings, sentences=heard))
        layer = collect_last_layer(shorter, self.network, ROWS)
        units = [self.network.world.units.index(unit) for unit in self.construction.units]
        seed = self.run.settings.seed + self.index
        posterior = infer_posterior(layer.select(units), SAMPLER, variance, seed, diagnose=False)
        return Readings(self._read(np.asarray(posterior.particles)), posterior.info.converged)

    def _read(self, layers: np.ndarray) -> np.ndarray:
        """Return (items, `MEASURED`) of last layers (units of the construction, J, D)."""
        number = {unit: k for k, unit in enumerate(self.construction.units)}
        rows = []
        for item, psi in zip(self.construction.items, self._psi, strict=True):
            z_answer, z_rival = (
                np.einsum("qjd,qd->qj", layers[[number[units[p]] for p in item.tracked]], psi)
                for units in (item.tracked, item.rivals)
            )
            beliefs = (expit(z[0]).mean() for z in (z_answer, z_rival))
            rows.append([*count_readings(z_answer, z_rival), *beliefs])
        return np.array(rows, float)

    def _tabulate(self, readings: Readings, **about: object) -> pd.DataFrame:
        """Return a row for each item, with its names and exact beliefs."""
        items, exact = self.construction.items, np.array(compute_exact_beliefs(self.construction))
        return pd.DataFrame(
            {
                "construction": self.construction.name,
                "condition": [item.condition for item in items],
                "item": [item.name for item in items],
                "network": self.index,
                **dict(zip(MEASURED, readings.values.T, strict=True)),
                "exact": exact[:, 0],
                "rival_exact": exact[:, 1],
                **about,
                "converged": readings.converged,
            }
        )


def count_readings(z_answer: np.ndarray, z_rival: np.ndarray) -> tuple[float, float, float]:
    """Return the shares of `READINGS` among comprehenders, from logits (probes, comprehenders).

    >>> two_probes_to_four = np.array([[1, 1, -1, -1], [1, -1, -1, -1]])
    >>> count_readings(two_probes_to_four, np.zeros((2, 4)))
    (0.25, 0.5, 0.25)
    """
    answer = (z_answer > z_rival).all(axis=0)
    rival = (z_answer < z_rival).all(axis=0)
    return float(answer.mean()), float(rival.mean()), float((~answer & ~rival).mean())


@cache
def compute_exact_beliefs(construction: Construction) -> tuple[tuple[float, float], ...]:
    """Compute the exact probability of answer and rival for the first probe of every item.

    Parameters
    ----------
    construction : Construction
        The construction whose world gives the probabilities.

    Returns
    -------
    tuple of pairs of float
        In the order of the items; NaN where the sentence is impossible in the world.
    """
    world, found = construction.world, []
    for item in construction.items:
        probe = next(iter(item.tracked))
        asked = "role" if probe in world.roles else "filler"
        try:
            truth = world.true_beliefs(item.utterance, **{asked: probe})
        except ImpossibleSentenceError:
            found.append((NAN, NAN))
        else:
            found.append((float(truth[item.tracked[probe]]), float(truth[item.rivals[probe]])))
    return tuple(found)


def save_readings(readings: Readings, path: Path) -> None:
    """Write readings as JSON, with every digit."""
    content = {"converged": readings.converged, "values": readings.values.tolist()}
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def load_readings(path: Path, items: int) -> Readings:
    """Load the readings of a given number of items, or raise an `UnreadableError`."""
    try:
        content = read_json(path)
        values, converged = np.array(content["values"], float), content["converged"]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UnreadableError(path, f"it does not hold readings ({error!s:.80})") from None
    if values.shape != (items, len(MEASURED)) or not ((values >= 0) & (values <= 1)).all():
        raise UnreadableError(path, "it does not hold shares and beliefs of every item")
    if not isinstance(converged, bool):
        raise UnreadableError(path, "it does not say whether the sampler converged")
    return Readings(values, converged)
