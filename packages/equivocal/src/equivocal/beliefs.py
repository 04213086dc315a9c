"""The bridge from a trained network to the posterior over its last layer.

    θ_k ~ N(θ_k^MLE, v I),    rows: the questions of the training corpus, with their counts

as in §3 of the paper. `collect_rows` turns a network and a corpus into rows, `infer_posterior`
samples the posterior given these rows, and `infer_network_posterior` the posterior of weights in
further layers. All experiments and entry points use these functions, so that "the posterior of a
network" means the same thing everywhere.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from pydantic import BaseModel, ConfigDict, Field
from scipy.sparse import csr_array

from equivocal.network import Network, Run, features
from equivocal.network.runs import split_corpus
from equivocal.progress import report_part
from equivocal.world import Corpus
from lastlayer import Posterior, sample_network, sample_posterior
from lastlayer.errors import UserError
from lastlayer.network_flow import Logits, NetworkPosterior
from lastlayer.outcome import Observer
from lastlayer.seeds import Seed, choose_seed

__all__ = [
    "LayerRows",
    "Positive",
    "RowsOfPosterior",
    "SamplerSettings",
    "SettingsTable",
    "collect_last_layer",
    "collect_rows",
    "infer_network_posterior",
    "infer_posterior",
]

Positive = Annotated[float, Field(gt=0, lt=float("inf"))]
RowsOfPosterior = Literal["every word", "last word", "drawn pairs"]
HELD = 1e-6  # share of v that is left to the weight of a feature that ψ does not have
NUM_PAIRS = 10_000  # N of §2.4, if it counts (constituent, probe) pairs and not sentences


class SettingsTable(BaseModel):
    """A table of a settings file: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SamplerSettings(SettingsTable):
    """How to sample a posterior: a method of `sample_posterior` and its options."""

    method: str
    num_particles: int = Field(default=50, ge=2)
    num_steps: Annotated[int, Field(ge=1)] | None = None
    tolerance: Positive | None = None
    bias: bool = True  # whether ψ ends in a constant 1; if not, biases keep their trained values
    # b, by which counts and targets are multiplied; "sentence": a sentence is one unit of evidence
    evidence: Positive | Literal["sentence"] = 1.0
    options: dict[str, Any] = {}  # options that only this method has: ρ, taming, Δτ, …


class LayerRows(NamedTuple):
    """The data of a posterior: rows, and the trained weights on which the prior is centred."""

    features: np.ndarray  # Ψ, (N, D)
    targets: np.ndarray  # (N, K)
    counts: np.ndarray  # (N,)
    trained: np.ndarray  # θ^MLE, (K, D)
    sentences: float | None = None  # how many sentences the questions are about

    @classmethod
    def collect(cls, network: Network, rows: xr.Dataset, corpus: Corpus) -> "LayerRows":
        """Combine the rows that `features` returned with the weights that were trained on them."""
        return cls(
            features=rows["features"].values,
            targets=rows["targets"].values,
            counts=rows["counts"].values,
            trained=network.last_layer().values,
            sentences=float(corpus.weight.sum()),
        )

    def select(self, units: Sequence[int]) -> "LayerRows":
        """Return the same rows for some of the output units."""
        return self._replace(targets=self.targets[:, units], trained=self.trained[units])

    def weigh_evidence(self, evidence: float | Literal["sentence"]) -> float:
        """Return b as a number; "sentence" is 1 / (questions per sentence).

        Every sentence is asked about some 35 times, after every word and for every role and filler,
        and these answers are not independent: with b = 1 one sentence counts as 35 observations,
        with "sentence" as one.
        """
        if evidence != "sentence":
            return evidence
        if self.sentences is None:
            raise UserError(
                'evidence="sentence" needs the number of sentences behind the rows; give a number, '
                "or collect the rows from a corpus."
            )
        return float(self.sentences / self.counts.sum())


def collect_last_layer(run: Run, network: Network, rows: str = "every word") -> LayerRows:
    """Collect the rows that a network's last layer was trained on.

    Parameters
    ----------
    run : Run
        The training run, whose corpus gives the rows; its held-out sentences are left out.
    network : Network
        One of the run's networks.
    rows : {"every word", "last word", "drawn pairs"}
        Whether to use the questions asked after every word, only those after the last word, or
        10,000 questions drawn at random, the same ones for every network of a run.

    Returns
    -------
    LayerRows
        Features, targets and counts of the distinct rows, and the trained weights.
    """
    kept = split_corpus(run.world, run.settings)[0]
    return collect_rows(network, kept, rows, seed=run.settings.seed)


def collect_rows(
    network: Network, corpus: Corpus, rows: str = "every word", *, seed: Seed = 0
) -> LayerRows:
    """Collect the rows that a corpus gives a network's last layer (see `collect_last_layer`)."""
    asked = features(network, corpus)
    if rows == "drawn pairs":
        asked = _draw_pairs(asked, corpus, choose_seed(seed))
    if rows == "last word":
        asked = asked.isel(row=asked["last_word"].values)
    return LayerRows.collect(network, asked, corpus)


def _draw_pairs(asked: xr.Dataset, corpus: Corpus, seed: int) -> xr.Dataset:
    """Draw `NUM_PAIRS` of the questions that the rows count, without replacement."""
    queries = corpus.queries
    single = queries.triple_weight.astype(np.int64)
    size = min(NUM_PAIRS, int(single.sum()))
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(single, size)
    counts = np.bincount(queries.triple_pair, drawn, len(queries.weight))
    shape = (len(counts), len(queries.answer_units))
    where = (queries.triple_pair, queries.triple_answer)
    answers = csr_array((drawn.astype(float), where), shape=shape)
    targets = answers @ queries.answer_units.astype(float)
    answered = queries.weight > 0
    chosen = asked.assign(
        counts=("row", counts[answered]), targets=(("row", "unit"), targets[answered])
    )
    return chosen.isel(row=counts[answered] > 0)


def infer_posterior(
    layer: LayerRows,
    sampler: SamplerSettings,
    prior_variance: float,
    seed: Seed,
    observe: Observer | None = None,
    *,
    diagnose: bool = True,
) -> Posterior:
    """Sample the posterior of all units of a layer, with the prior N(θ^MLE, v I).

    Parameters
    ----------
    layer : LayerRows
        Rows and trained weights.
    sampler : SamplerSettings
        The method of `sample_posterior`, its options and the weight of the evidence.
    prior_variance : float
        v, the same for every weight.
    seed : int or numpy.random.Generator
        The same seed gives the same posterior.
    observe : callable, optional
        Called with a `Snapshot` after every step, for methods that carry particles.
    diagnose : bool
        Whether to judge if a Gaussian describes the posterior well, which may take longer than
        the posterior itself; set it to False if nobody reads the verdict.
    """
    variances = np.full(layer.features.shape[1], prior_variance)
    variances[-1] *= HELD
    return sample_posterior(
        layer.features,
        layer.targets,
        counts=layer.counts,
        prior_mean=layer.trained,
        prior_variance=prior_variance if sampler.bias else variances,
        evidence=layer.weigh_evidence(sampler.evidence),
        method=sampler.method,
        num_particles=sampler.num_particles,
        num_steps=sampler.num_steps,
        tolerance=sampler.tolerance,
        seed=seed,
        observe=observe,
        diagnose=diagnose,
        report=lambda done, total: report_part(done, total, "sampling"),
        **sampler.options,
    )


def infer_network_posterior(
    rows: LayerRows,
    logits: Logits,
    inputs: Any,
    trained: np.ndarray,
    parts: Sequence[np.ndarray],
    prior_variance: float,
    seed: Seed,
    **options: Any,
) -> NetworkPosterior:
    """Sample the posterior of weights in any layer, with the prior N(w^MLE, v I).

    Parameters
    ----------
    rows : LayerRows
        The questions, of which targets and counts are used.
    logits : callable
        The network as a function of these weights and the inputs.
    inputs : array or tree of arrays
        The inputs of the network, in the order of the rows.
    trained : (D,)
        w^MLE, the trained weights.
    parts : sequence of arrays
        Indices of the weights that move together, as for `sample_network`.
    prior_variance : float
        v, the same for every weight.
    seed : int or numpy.random.Generator
        The same seed gives the same posterior.
    **options
        Further arguments of `sample_network`: `num_particles`, `num_steps`, `tolerance`.
    """
    options |= {"counts": rows.counts, "prior_variance": prior_variance, "seed": seed}
    return sample_network(logits, inputs, rows.targets, trained, parts=parts, **options)
