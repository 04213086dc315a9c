"""Every kind of uncertainty: how a network answers under it, at each of its strengths.

    trained            θ^MLE alone
    paper's sampler    the dropout deterministic sampler, stopped after 1, 2, … steps
    posterior          converged (exact flow), the evidence weighted by b and a prior variance v
    MC dropout         a network trained with dropout, one for each rate (Gal & Ghahramani 2016)
    query, all         posteriors over more layers (`layers`)

and baselines, which know nothing of what the data say about the weights:

    temperature        logits divided by one number: chosen on the sentences held out of training,
                       or by the truth itself ("oracle"), or fixed
    prior              N(θ̂, v I), the prior about the trained weights, without any data
    label smoothing    a network whose answers in training were moved towards ½
    word noise         a network that heard a word dropped or exchanged now and then

A new kind is a function of a `Subject` that yields strengths, and a row of `KINDS`. Learners, which
need no network, are in `answers`; ensembles follow from the answers of networks (`frontier`).

A member of MC dropout has a mask of hidden units for all questions. Masking hidden2 is the same as
scaling rows of the last layer,

    (ψ ∘ b / (1−ρ)) C = ψ (diag(b) / (1−ρ) C),

so to store a member its mask is enough: a bit for each hidden unit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from equivocal.beliefs import LayerRows, SamplerSettings, collect_last_layer, infer_posterior
from equivocal.doubt.answers import Setting, Strength
from equivocal.doubt.layers import pool_networks, sample_layers
from equivocal.network import Network, Run
from equivocal.network.questions import Questions, collect_answers, collect_questions
from equivocal.network.runs import split_corpus
from equivocal.truth import (
    PooledBeliefs,
    compute_psi,
    divide_logits,
    pool_gaussian,
    pool_logits,
    pool_particles,
)
from equivocal.world import World

__all__ = ["KINDS", "Asked", "Kind", "KindSettings", "Subject"]

TRAINED, SAMPLER, POSTERIOR, DROPOUT = "trained", "paper's sampler", "posterior", "MC dropout"
TEMPERATURE, PRIOR = "temperature", "prior"
RETRAINED = {  # kinds of networks that are trained otherwise, and the setting that differs
    DROPOUT: "dropout",
    "label smoothing": "smoothing",
    "word noise": "word_noise",
}


@dataclass(frozen=True, kw_only=True)
class KindSettings:
    """Every strength of every kind of uncertainty."""

    evidence: tuple[float | str, ...] = (
        *(1.0, 1 / 3, 1 / 10, "sentence"),
        *(1 / 100, 1 / 300, 1 / 1000, 1 / 3000),
    )
    prior_variance: float = 1.0  # the paper's central prior; for all kinds but `other_variances`
    other_variances: tuple[float, ...] = (0.1, 10.0)
    other_evidence: tuple[float | str, ...] = (1.0, "sentence", 1 / 300)  # with `other_variances`
    num_steps: int = 17
    every_step: bool = True  # answer after every step of the sampler, or after the last one only
    num_particles: int = 50  # of the paper's sampler
    dropout_rate: float = 0.3  # ρ of the paper's sampler
    dropout: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)  # of MC dropout
    smoothing: tuple[float, ...] = (0.02,)
    word_noise: tuple[float, ...] = (0.05,)
    divisors: tuple[float, ...] = (1.2, 1.5, 2.0)  # of logits
    no_data: tuple[float, ...] = (0.01, 0.1, 1.0)  # variances of the prior without data
    sizes: tuple[int, ...] = (2, 3, 5, 10, 20)  # of deep ensembles, besides all networks
    tolerance: float = 0.01  # of converged posteriors, in posterior standard deviations
    members: int = 104  # of MC dropout, and of posteriors over more layers
    layer_steps: int = 40  # of posteriors over more layers: the most rounds …
    layer_tolerance: float = 0.5  # … over all directions of a part together
    seed: int = 0

    @property
    def strengths(self) -> list[tuple[float | str, float]]:
        """Pairs of a weight of the evidence and a prior variance."""
        central = product(self.evidence, [self.prior_variance])
        return [*central, *((b, v) for v in self.other_variances for b in self.other_evidence)]


class Asked(Protocol):
    """Questions to a network, and their scores; see `equivocal.truth` and `scores`."""

    @property
    def questions(self) -> Questions:
        """The questions, for the network."""

    @property
    def units(self) -> tuple[int, ...]:
        """The output units that they are about; beliefs have a column for each."""

    def measure(self, beliefs: PooledBeliefs) -> dict[str, Float[np.ndarray, "*settings"]]:
        """Return scores by name; the first tells how far beliefs are from the truth."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One network that is asked, and what kinds of uncertainty need to know of it."""

    run: Run
    retrained: dict[str, dict[float, Run]]  # trained otherwise, by the setting and its value
    index: int
    asked: Asked
    settings: KindSettings

    @property
    def network(self) -> Network:
        """The network."""
        return self.run.networks[self.index]

    @property
    def seed(self) -> int:
        """The seed of this network's samplers."""
        return self.settings.seed + self.index

    @property
    def world(self) -> World:
        """The world that the network has learned."""
        return self.run.world

    @cached_property
    def layer(self) -> LayerRows:
        """The rows that posteriors are sampled from, for the units that are asked about."""
        return collect_last_layer(self.run, self.network).select(list(self.asked.units))

    @cached_property
    def psi(self) -> Float[np.ndarray, "questions D"]:
        """The features (ψ, 1) of every question."""
        return compute_psi(self.network, self.asked.questions)


Answer = Callable[[Subject], Iterator[Strength]]


class Kind(NamedTuple):
    """A row of the table of kinds."""

    answer: Answer
    depends: tuple[str, ...] = ()  # the settings that its answers depend on
    extra: bool = False  # whether it is left out unless asked for


def answer_trained(subject: Subject) -> Iterator[Strength]:
    """Answer with the trained weights."""
    yield Strength(
        Setting("as trained"), pool_particles(subject.psi, subject.layer.trained[:, None])
    )


def answer_sampler(subject: Subject) -> Iterator[Strength]:
    """Answer after every step of the paper's sampler, or only after the last."""
    given, layer = subject.settings, subject.layer
    sampler = SamplerSettings(
        method="dropout-deterministic",
        num_particles=given.num_particles,
        num_steps=given.num_steps,
        options={"dropout_rate": given.dropout_rate},
    )
    K, D = layer.trained.shape
    steps = np.zeros((given.num_steps, K, given.num_particles, D), np.float32)
    times = np.zeros(steps.shape[:2])  # τ
    reached = 0

    def observe(snapshot: Any) -> None:
        nonlocal reached
        if snapshot.step:  # 0 is the prior
            reached = max(reached, snapshot.step)
            own = slice(snapshot.outputs.start, snapshot.outputs.stop)
            steps[snapshot.step - 1 :, own] = snapshot.particles  # outputs that stopped keep theirs
            times[snapshot.step - 1 :, own] = snapshot.time

    began, v = perf_counter(), given.prior_variance
    found = infer_posterior(layer, sampler, v, subject.seed, observe, diagnose=False)
    seconds = (perf_counter() - began) / max(reached, 1)
    for number in range(1 if given.every_step else reached, reached + 1):
        theta, time = steps[number - 1], float(np.median(times[number - 1]))
        costs = (number * seconds, theta.nbytes / 1e6, found.info.converged)
        yield Strength(
            Setting(f"step {number}", number, v, time, *costs), pool_particles(subject.psi, theta)
        )


def answer_posterior(subject: Subject) -> Iterator[Strength]:
    """Answer with converged posteriors over the last layer."""
    for evidence, v in subject.settings.strengths:
        began = perf_counter()
        sampler = SamplerSettings(  # two particles, since only mean and covariance are used
            method="exact-flow",
            num_particles=2,
            tolerance=subject.settings.tolerance,
            evidence=evidence,
        )
        found = infer_posterior(subject.layer, sampler, v, seed=0, diagnose=False)
        seconds, b = perf_counter() - began, subject.layer.weigh_evidence(sampler.evidence)
        label = f"b = {format_share(b)}, v = {v:g}" + " (sentence)" * (evidence == "sentence")
        size = (found.mean.nbytes + found.covariance.nbytes) / 1e6
        told = (seconds, size, found.info.converged, found.info.message)
        yield Strength(Setting(label, b, v, np.nan, *told), pool_gaussian(subject.psi, found))


def format_share(b: float) -> str:
    """Format a number below one as a fraction 1/n.

    >>> format_share(1.0), format_share(0.01), format_share(1 / 34.9), format_share(2.5)
    ('1', '1/100', '1/35', '2.5')
    """
    return f"{b:.3g}" if b >= 1 else f"1/{1 / b:.0f}"


def answer_dropout(subject: Subject) -> Iterator[Strength]:
    """Answer with dropout masks of networks that were trained with dropout."""
    for rate, run in subject.retrained["dropout"].items():
        network = run.networks[subject.index]
        theta = network.last_layer().values[list(subject.asked.units)]
        shape = (subject.settings.members, theta.shape[1] - 1)
        kept = jax.random.bernoulli(jax.random.key(subject.seed), 1 - rate, shape)
        scale = np.pad(np.asarray(kept) / (1 - rate), ((0, 0), (0, 1)), constant_values=1.0)
        costs = (run.seconds / len(run.networks), shape[0] * -(-shape[1] // 8) / 1e6)
        psi = compute_psi(network, subject.asked.questions)
        setting = Setting(f"rate {rate:g}", rate, np.nan, np.nan, *costs)
        yield Strength(setting, pool_particles(psi, theta[:, None] * scale))


def answer_retrained(subject: Subject, setting: str) -> Iterator[Strength]:
    """Answer with networks that were trained otherwise."""
    for value, run in subject.retrained[setting].items():
        network = run.networks[subject.index]
        theta = network.last_layer().values[list(subject.asked.units)]
        psi = compute_psi(network, subject.asked.questions)
        seconds = run.seconds / len(run.networks)
        yield Strength(
            Setting(f"rate {value:g}", value, seconds=seconds), pool_particles(psi, theta[:, None])
        )


def answer_prior(subject: Subject) -> Iterator[Strength]:
    """Answer with the prior N(θ̂, v I) about the trained weights, as if there were no data."""
    mean, length = subject.psi @ subject.layer.trained.T, np.linalg.norm(subject.psi, axis=1)
    for v in subject.settings.no_data:
        sd = np.broadcast_to(np.sqrt(v) * length[:, None], mean.shape)
        yield Strength(Setting(f"v = {v:g}", np.nan, v), pool_logits(mean, sd))


def answer_temperature(subject: Subject) -> Iterator[Strength]:
    """Answer with logits divided by a temperature, chosen in three ways."""
    trained = pool_particles(subject.psi, subject.layer.trained[:, None])

    def miss(temperature: float) -> float:
        beliefs = PooledBeliefs(*(part[None] for part in divide_logits(trained, temperature)))
        scores = subject.asked.measure(beliefs)
        return float(sum(scores[name][0] for name in DISTANCES if name in scores))

    found = {"held-out": choose_temperature(subject), "oracle": _minimise(miss)}
    found |= {f"logits / {T:g}": T for T in subject.settings.divisors}
    for label, T in found.items():
        yield Strength(Setting(label, T), divide_logits(trained, T))


def choose_temperature(subject: Subject) -> float:
    """Choose the temperature with the least cross-entropy of answers about held-out sentences."""
    held_out = subject.run.held_out
    answers = collect_answers(held_out)
    weight, target = (np.asarray(part, np.float64) for part in answers)
    theta = subject.network.last_layer().values
    z = compute_psi(subject.network, collect_questions(held_out)) @ theta.T

    def miss(temperature: float) -> float:
        cooled = z / temperature
        return float(weight @ (np.logaddexp(0, cooled) - target * cooled).sum(axis=1))

    return _minimise(miss)


def _minimise(miss: Callable[[float], float]) -> float:
    """Return the temperature between 1/8 and 8 at which a function of it is least."""
    found = minimize_scalar(lambda x: miss(float(np.exp(x))), bounds=(-np.log(8), np.log(8)))
    return float(np.exp(found.x))


def answer_layers(subject: Subject, layers: str) -> Iterator[Strength]:
    """Answer with a posterior over the query network or all weights."""
    given, began = subject.settings, perf_counter()
    found = sample_layers(
        subject.network,
        split_corpus(subject.world, subject.run.settings)[0],
        layers,
        given.prior_variance,
        subject.seed,
        num_particles=given.members,
        num_steps=given.layer_steps,
        tolerance=given.layer_tolerance,
    )
    beliefs = pool_networks(
        subject.network, subject.asked.questions, subject.asked.units, layers, found.particles
    )
    size = found.particles[1:].nbytes / 1e6
    told = (perf_counter() - began, size, found.info.converged, found.info.message)
    v = given.prior_variance
    yield Strength(Setting(f"v = {v:g}", np.nan, v, np.nan, *told), beliefs)


DISTANCES = (
    "kl_reversal",
    "kl_congruent",
    "nll_excess",
)  # scores of which the oracle takes the sum
LAYER_SETTINGS = ("prior_variance", "members", "layer_steps", "layer_tolerance", "seed")
KINDS = {
    TRAINED: Kind(answer_trained),
    SAMPLER: Kind(
        answer_sampler,
        ("prior_variance", "num_steps", "every_step", "num_particles", "dropout_rate", "seed"),
    ),
    POSTERIOR: Kind(answer_posterior, ("strengths", "tolerance")),
    DROPOUT: Kind(answer_dropout, ("dropout", "members", "seed")),
    TEMPERATURE: Kind(answer_temperature, ("divisors",)),
    PRIOR: Kind(answer_prior, ("no_data",)),
    "label smoothing": Kind(partial(answer_retrained, setting="smoothing"), ("smoothing",)),
    "word noise": Kind(partial(answer_retrained, setting="word_noise"), ("word_noise",)),
    "query": Kind(partial(answer_layers, layers="query"), LAYER_SETTINGS, extra=True),
    "all": Kind(partial(answer_layers, layers="all"), LAYER_SETTINGS, extra=True),
}
