"""The answers of a network under each kind of uncertainty about its last layer, at every strength.

    trained            θ^MLE alone
    paper's sampler    the dropout deterministic sampler, stopped after 1, 2, … steps
    posterior          converged (exact flow), the evidence weighted by b and a prior variance v
    MC dropout         a network trained with dropout, one for each rate

Each answers the questions about roles (`scores`). Three further quantities allow a strength to be
chosen without knowing the truth (`usefulness`): the cross-entropy of held-out answers about agent
and patient, the cross-entropy of held-out reversals alone, and the evidence bound

    log p(t) ≥ E_q[log p(t | θ)] − KL(q ‖ prior),                                                (1)

of the unweighted data (b = 1), summed over the units, which only Gaussians of full rank have.

A new kind is a function that returns `Answers`, a `yield` in `AnswerStore._answer_each` of
`equivocal.doubt.run_frontier`, and a line of `LOOKS` in `equivocal.doubt.figures`.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from safetensors.numpy import save_file

from equivocal.beliefs import LayerRows, SamplerSettings, collect_rows, infer_posterior
from equivocal.doubt.members import make_mc_dropout
from equivocal.doubt.scores import (
    ROLES,
    Beliefs,
    RoleQuestions,
    compute_psi,
    pool_gaussian,
    pool_particles,
)
from equivocal.network import Network, features
from equivocal.store import parse_json
from equivocal.world import Corpus, RoleReversal
from lastlayer import Posterior
from lastlayer.logits import compute_moments
from lastlayer.tensors import Shapes, read_tensors, refuse_mistakes

__all__ = ["Answers", "Examination", "Setting"]

HEADER = "equivocal"
NUMBERS = ("seconds", "megabytes", "held_out", "held_out_rare", "bound")
Tokens = tuple[tuple[str, ...], ...]  # of an utterance


class Setting(NamedTuple):
    """One strength of a kind of uncertainty: its label, its value and, for a posterior, v and τ."""

    label: str
    value: float = np.nan  # step, b, rate or number of networks
    prior_variance: float = np.nan
    time: float = np.nan  # sampler time τ, for the paper's sampler


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one network under one kind, for each of its settings."""

    settings: tuple[Setting, ...]
    beliefs: Beliefs
    seconds: Float[np.ndarray, " settings"]  # in addition to training one network
    megabytes: Float[np.ndarray, " settings"]  # in addition to storing one network
    held_out: Float[np.ndarray, " settings"]  # cross-entropy, nats per question
    held_out_rare: Float[np.ndarray, " settings"]  # cross-entropy of reversals
    bound: Float[np.ndarray, " settings"]  # (1), nats

    def save(self, path: Path) -> None:
        """Write a safetensors file, which `load` reads back."""
        arrays = {name: getattr(self, name) for name in NUMBERS} | self.beliefs._asdict()
        doubles = {name: np.ascontiguousarray(array, np.float64) for name, array in arrays.items()}
        save_file(doubles, path, metadata={HEADER: json.dumps(self.settings)})

    @classmethod
    def load(cls, path: Path) -> "Answers":
        """Read answers, or raise `UnreadableError` if the file does not hold any."""
        settings: list[Setting] = []

        def check(about: dict[str, str], shapes: Shapes) -> None:
            listed = list(parse_json(about[HEADER]))
            settings.extend(Setting(str(name), *map(float, rest)) for name, *rest in listed)
            if shapes.keys() != {*NUMBERS, *Beliefs._fields} or any(
                shape[:1] != (len(settings),) for shape in shapes.values()
            ):
                raise ValueError("it does not hold the answers of a network")

        with refuse_mistakes(path):
            _, arrays = read_tensors(path, check)
        beliefs = Beliefs(*(arrays.pop(name) for name in Beliefs._fields))
        return cls(tuple(settings), beliefs, **arrays)


class Examination(NamedTuple):
    """One network, its training rows, and everything it is asked; outputs are the nouns alone."""

    network: Network
    asked: RoleQuestions
    psi: Float[np.ndarray, "questions D"]
    layer: LayerRows  # training rows, from which posteriors are sampled
    held_out: LayerRows  # held-out questions about agent and patient
    rare: LayerRows | None  # those about reversals; None if no reversal was held out


def examine(
    network: Network, asked: RoleQuestions, taught: Corpus, held_out: Corpus, rare: Corpus | None
) -> Examination:
    """Compute the features and rows that are the same for every kind of uncertainty."""
    units = list(asked.units)
    return Examination(
        network=network,
        asked=asked,
        psi=compute_psi(network, asked.questions),
        layer=collect_rows(network, taught).select(units),
        held_out=_collect_role_rows(network, held_out).select(units),
        rare=None if rare is None else _collect_role_rows(network, rare).select(units),
    )


def _collect_role_rows(network: Network, corpus: Corpus) -> LayerRows:
    """Collect the rows of questions about agent and patient."""
    rows = features(network, corpus)
    rows = rows.isel(row=np.isin(rows["probe"].values, ROLES))
    return LayerRows.collect(network, rows, corpus)


def find_rare_sentences(corpus: Corpus, items: Sequence[RoleReversal]) -> Corpus | None:
    """Find the sentences of a corpus that begin with a reversal; None if there are none."""
    rare = list(match_reversals(corpus, items))
    return corpus.take(np.array(rare)) if rare else None


def match_reversals(corpus: Corpus, items: Sequence[RoleReversal]) -> dict[int, set[Tokens]]:
    """Return the rows of a corpus that begin with reversals, and which reversals these are."""
    reversals = {item.reversal.tokens for item in items}
    lengths = {len(tokens) for tokens in reversals}
    heard = np.flatnonzero(corpus.weight > 0)
    found = {}
    for row, text in zip(heard.tolist(), corpus.take(heard).texts, strict=True):
        tokens = corpus.world.parse(text).tokens
        if matched := reversals & {tokens[:length] for length in lengths}:
            found[row] = matched
    return found


Pool = Callable[[np.ndarray, np.ndarray], Beliefs]  # features and units of each question


class _Strength(NamedTuple):
    """One strength of a kind: its pooled beliefs, its costs, and (1) if it has a bound."""

    setting: Setting
    pool: Pool
    seconds: float = 0.0
    megabytes: float = 0.0
    bound: float = np.nan


def _answer(examined: Examination, strengths: Sequence[_Strength]) -> Answers:
    """Return the answers and scores of a network at each strength."""
    settings, pools, seconds, megabytes, bound = zip(*strengths, strict=True)
    beliefs = [pool(examined.psi, examined.asked.nouns) for pool in pools]
    return Answers(
        settings=settings,
        beliefs=Beliefs(*(np.stack(part) for part in zip(*beliefs, strict=True))),
        seconds=np.array(seconds, float),
        megabytes=np.array(megabytes, float),
        held_out=np.array([_score_rows(pool, examined.held_out) for pool in pools]),
        held_out_rare=np.array([_score_rows(pool, examined.rare) for pool in pools]),
        bound=np.array(bound, float),
    )


def _score_rows(pool: Pool, rows: LayerRows | None) -> float:
    """Return the cross-entropy of answers, in nats per question, over all nouns."""
    if rows is None:
        return np.nan
    every = np.broadcast_to(np.arange(rows.targets.shape[1]), rows.targets.shape)
    beliefs = pool(rows.features.astype(np.float64), every)
    no = rows.counts[:, None] - rows.targets
    return float(-(rows.targets * beliefs.log_yes + no * beliefs.log_no).sum() / rows.counts.sum())


def answer_trained(examined: Examination) -> Answers:
    """Answer with the trained weights."""
    trained = partial(pool_particles, examined.layer.trained[:, None])
    return _answer(examined, [_Strength(Setting("as trained"), trained)])


def answer_dropout(examined: Examination, rate: float, seed: int, seconds: float) -> Answers:
    """Answer with dropout masks; the network should have been trained with that rate."""
    members = make_mc_dropout(examined.network, rate, seed=seed, seconds=seconds)
    query = members.models.query
    layers = np.concatenate([query.output_weight, query.output_bias[:, None]], axis=1)
    theta = layers.transpose(2, 0, 1)[list(examined.asked.units)]
    setting, costs = Setting(f"rate {rate:g}", rate), (members.seconds, members.bytes / 1e6)
    return _answer(examined, [_Strength(setting, partial(pool_particles, theta), *costs)])


def answer_sampler(
    examined: Examination,
    sampler: SamplerSettings,
    prior_variance: float,
    seed: int,
    every_step: bool = True,
) -> Answers:
    """Answer after every step of the paper's sampler, or only after the last."""
    K, J, D = len(examined.asked.units), sampler.num_particles, examined.psi.shape[1]
    steps = np.zeros((sampler.num_steps or 1, K, J, D), np.float32)
    times = np.zeros(steps.shape[:2])  # τ
    reached = 0

    def observe(snapshot: Any) -> None:
        nonlocal reached
        if snapshot.step:  # 0 is the prior
            reached = max(reached, snapshot.step)
            own = slice(snapshot.outputs.start, snapshot.outputs.stop)
            steps[snapshot.step - 1 :, own] = snapshot.particles  # outputs that stopped keep theirs
            times[snapshot.step - 1 :, own] = snapshot.time

    began = perf_counter()
    infer_posterior(examined.layer, sampler, prior_variance, seed, observe, diagnose=False)
    seconds = (perf_counter() - began) / max(reached, 1)
    every = []
    for number, theta in enumerate(steps[:reached], start=1):
        time = float(np.median(times[number - 1]))
        setting = Setting(f"step {number}", number, prior_variance, time)
        costs = (number * seconds, theta.nbytes / 1e6)
        every.append(_Strength(setting, partial(pool_particles, theta), *costs))
    return _answer(examined, every if every_step else every[-1:])


def answer_posteriors(
    examined: Examination, strengths: Sequence[tuple[float | str, float]], tolerance: float
) -> Answers:
    """Answer with converged posteriors.

    Parameters
    ----------
    examined : Examination
        The network and the questions.
    strengths : sequence of (evidence, prior variance)
        The weight b of the evidence, a number or "sentence", and the prior variance v.
    tolerance : float
        Residual below which a posterior has converged, in posterior standard deviations.
    """
    layer, every = examined.layer, []
    for evidence, variance in strengths:
        began = perf_counter()
        sampler = SamplerSettings(  # two particles, since only mean and covariance are used
            method="exact-flow", num_particles=2, tolerance=tolerance, evidence=evidence
        )
        posterior = infer_posterior(layer, sampler, variance, seed=0, diagnose=False)
        seconds, b = perf_counter() - began, layer.weigh_evidence(sampler.evidence)
        label = f"b = {format_share(b)}, v = {variance:g}"
        label += " (sentence)" if evidence == "sentence" else ""
        size = (posterior.mean.nbytes + posterior.covariance.nbytes) / 1e6
        bound = compute_bound(layer, posterior, variance)
        pool = partial(pool_gaussian, posterior)
        every.append(_Strength(Setting(label, b, variance), pool, seconds, size, bound))
    return _answer(examined, every)


def format_share(b: float) -> str:
    """Format a number below one as a fraction 1/n.

    >>> format_share(1.0), format_share(0.01), format_share(1 / 34.9), format_share(2.5)
    ('1', '1/100', '1/35', '2.5')
    """
    return f"{b:.3g}" if b >= 1 else f"1/{1 / b:.0f}"


def compute_bound(layer: LayerRows, posterior: Posterior, prior_variance: float) -> float:
    """Compute (1) for a Gaussian posterior, summed over units, with every answer counted once."""
    mean, sd = (part.astype(np.float64) for part in posterior.logits(layer.features))
    with jax.enable_x64(True):
        excess = np.asarray(compute_moments(jnp.asarray(mean), jnp.asarray(sd**2)).excess)
    softplus = excess + np.maximum(mean, 0)
    likelihood = (layer.targets * mean).sum() - (layer.counts @ softplus).sum()
    P = posterior.covariance.astype(np.float64)
    moved = ((posterior.mean - layer.trained) ** 2).sum() / prior_variance
    K, D = posterior.mean.shape
    spread = np.trace(P, axis1=1, axis2=2).sum() / prior_variance
    logdet = np.linalg.slogdet(P)[1].sum() - K * D * np.log(prior_variance)
    return float(likelihood - (spread + moved - K * D - logdet) / 2)


def join_answers(parts: Sequence[Answers]) -> Answers:
    """Join the answers of one network under several settings."""
    numbers = {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS}
    beliefs = zip(*(part.beliefs for part in parts), strict=True)
    return Answers(
        settings=tuple(setting for part in parts for setting in part.settings),
        beliefs=Beliefs(*(np.concatenate(each) for each in beliefs)),
        **numbers,
    )
