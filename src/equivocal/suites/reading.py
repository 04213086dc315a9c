"""How sentences are read: by the trained network, by simulated comprehenders, by the world itself.

A comprehender is a last layer θ. Asked a question with the features ψ, it prefers the answer where

    θ_answerᵀψ > θ_rivalᵀψ                                                               (1)

and it reads the sentence as `answer` if (1) holds for every question to it, as `rival` if the
opposite does, and as `neither` otherwise: if, say, the man is both the likelier agent and the
likelier patient. The order of two activations is that of their logits, so nothing is lost to
rounding near 0. The trained network is one comprehender. A posterior is many, its particles:

    θ_k ~ posterior( N(θ_k^trained, v I), questions of the first n sentences )

v is the prior variance. n is the number of *sentences heard*: the rows of the posterior, while the
network, and with it ψ and the centre of the prior, stays as trained on all. So n says how much
evidence narrows the doubt about one and the same network; a network trained on fewer sentences
would also have other features, and the two could not be told apart. Of the n sentences a tenth is
left out, drawn anew for each n: of all sentences the tenth that training held out, of fewer another
one, so that some of those that training held out are then among the rows. Units are independent
under this posterior, so only those that are asked for are sampled.

Ferreira (2003, Cognitive Psychology 47, 164–203) asked people who did what; the `rival` reading of
an implausible passive is what she counts as error. That particles stand for people is a hypothesis.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

from equivocal.gestalt import Run
from equivocal.inference import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.suites.construction_items import Construction
from equivocal.suites.readings_store import (
    MEASURED,
    Readings,
    find_readings,
    keep_readings,
    kept_path,
)
from equivocal.world import ImpossibleSentenceError

__all__ = ["PARTICLES", "READINGS", "Reader", "exact_beliefs", "reading_shares"]

PARTICLES = 200
SAMPLER = SamplerSettings(method="exact-flow", num_particles=PARTICLES, tolerance=0.01)
READINGS = ("answer", "rival", "neither")
NAN = float("nan")


class Reader:
    """One network of a run that has heard every sentence of a construction."""

    def __init__(
        self, construction: Construction, run: Run, index: int, folder: Path | None = None
    ) -> None:
        """Readings of posteriors are kept in `folder`, where one is given."""
        self.construction, self.run, self.index = construction, run, index
        self.folder, self.network = folder, run.networks[index]
        self._psi = [  # (questions, D) after the last word of each item
            self.network.probe_features(item.utterance, item.probes).values[-1]
            for item in construction.items
        ]

    def trained(self) -> pd.DataFrame:
        """A row for each item: shares of `READINGS`, belief in answer and rival, the exact ones.

        Beliefs are those of the item's first question; exact ones are NaN where the world never
        says the sentence.
        """
        layer = self.network.last_layer().sel(unit=list(self.construction.units)).values
        readings = Readings(self._read(layer[:, None]), converged=True)
        return self._rows(readings, beliefs="trained", variance=0.0, heard=self._all)

    def posterior(self, variance: float, heard: int | None = None) -> pd.DataFrame:
        """The same for particles of the network's posterior; `heard`: n, all where not given."""
        heard = heard or self._all
        about = {"beliefs": "posterior", "variance": variance, "heard": heard}
        if self.folder is None:
            return self._rows(self._sampled(variance, heard), **about)
        settings = about | {"sampler": SAMPLER.model_dump()}
        path = kept_path(self.folder, self.construction, self.run, self.index, settings)
        readings = find_readings(path, len(self.construction.items))
        if readings is None:
            readings = self._sampled(variance, heard)
            keep_readings(path, readings)
        return self._rows(readings, **about)

    @property
    def _all(self) -> int:
        return self.run.settings.sentences

    def _sampled(self, variance: float, heard: int) -> Readings:
        so_far = replace(self.run, settings=replace(self.run.settings, sentences=heard))
        layer = collect_last_layer(so_far, self.network, "every word")
        units = [self.network.world.units.index(unit) for unit in self.construction.units]
        seed = self.run.settings.seed + self.index
        posterior = infer_posterior(layer.select(units), SAMPLER, variance, seed)
        return Readings(self._read(np.asarray(posterior.particles)), posterior.info.converged)

    def _read(self, layers: np.ndarray) -> np.ndarray:
        """(items, `MEASURED`), of layers (units of the construction, comprehenders, D)."""
        number = {unit: k for k, unit in enumerate(self.construction.units)}
        rows = []
        for item, psi in zip(self.construction.items, self._psi, strict=True):
            answers = layers[[number[question.answer] for question in item.questions]]
            rivals = layers[[number[question.rival] for question in item.questions]]
            z_answer = np.einsum("qjd,qd->qj", answers, psi)
            z_rival = np.einsum("qjd,qd->qj", rivals, psi)
            beliefs = expit(z_answer[0]).mean(), expit(z_rival[0]).mean()
            rows.append([*reading_shares(z_answer, z_rival), *beliefs])
        return np.array(rows, float)

    def _rows(self, readings: Readings, **about: object) -> pd.DataFrame:
        """A row for each item, with its names and exact beliefs."""
        items, exact = self.construction.items, np.array(exact_beliefs(self.construction))
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


def reading_shares(z_answer: np.ndarray, z_rival: np.ndarray) -> tuple[float, float, float]:
    """Shares of `READINGS` among comprehenders, from logits (questions, comprehenders).

    >>> two_questions_to_four = np.array([[1, 1, -1, -1], [1, -1, -1, -1]])
    >>> reading_shares(two_questions_to_four, np.zeros((2, 4)))
    (0.25, 0.5, 0.25)
    """
    answer = (z_answer > z_rival).all(axis=0)
    rival = (z_answer < z_rival).all(axis=0)
    return float(answer.mean()), float(rival.mean()), float((~answer & ~rival).mean())


@cache
def exact_beliefs(construction: Construction) -> tuple[tuple[float, float], ...]:
    """P(answer) and P(rival) of every item's first question; NaN where the world never says it."""
    world, found = construction.world, []
    for item in construction.items:
        question = item.questions[0]
        asked = "role" if question.probe in world.roles else "filler"
        try:
            truth = world.true_beliefs(item.utterance, **{asked: question.probe})
        except ImpossibleSentenceError:
            found.append((NAN, NAN))
        else:
            found.append((float(truth[question.answer]), float(truth[question.rival])))
    return tuple(found)
