"""Comprehenders that say who did what in a sentence, from their own beliefs, as participants do.

About each item of `find_plausibility_items` two questions are asked after its last word: who is the
agent, and who the patient. Each has three answers: literal (the unit given by the syntax), reversed
(the other noun) and any other. Those who answer:

    ideal            the exact noisy-channel comprehender of the world; a single one
    trained          trained networks
    paper's sampler  the particles of each network, stopped after 17 steps
    posterior        the particles of each network's converged posterior

A unit's activation is the degree of belief that it belongs to the answer. Answers are mutually
exclusive, so the probability that remains after the literal answer and its rival belongs to other
answers (`share_beliefs`). A participant answers by a draw from these probabilities, so the expected
share of an answer is their mean, here over the particles of each network.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Network, Run
from equivocal.progress import Advance
from equivocal.world import ImpossibleSentenceError, World, find_plausibility_items
from equivocal.world.reversals import PlausibilityItem
from lastlayer import Posterior

ITEM_READINGS = ("literal", "reversed", "other")
PROBES = ("agent", "patient")
IDEAL, TRAINED = "ideal", "trained"
PARTICLES = 5  # of each network
VARIANCE = 1.0  # prior variance, the paper's central one
SAMPLERS = {
    "paper's sampler": SamplerSettings(
        method="dropout-deterministic",
        num_particles=50,
        num_steps=17,
        options={"dropout_rate": 0.3},
    ),
    "posterior": SamplerSettings(method="exact-flow", num_particles=2, tolerance=0.01),
}

Arrays = dict[str, np.ndarray]  # by comprehender


class Question(NamedTuple):
    """One probe after one sentence."""

    item: PlausibilityItem
    probe: str
    units: tuple[str, str]  # whose activations give the beliefs: of the literal reading, its rival


def ask_about_items(world: World) -> list[Question]:
    """Build the questions about every item of a world that `find_plausibility_items` accepts."""
    questions = []
    for item in find_plausibility_items(world):
        nouns = [world.units[world.lexicon.find_word_unit(n)] for n in (item.agent, item.patient)]
        questions += [
            Question(item, probe, (literal, rival))
            for probe, literal, rival in zip(PROBES, nouns, reversed(nouns), strict=True)
        ]
    return questions


def share_beliefs(literal: np.ndarray, rival: np.ndarray) -> np.ndarray:
    """Return probabilities of three answers: a reading, its rival, and anything else.

    Parameters
    ----------
    literal, rival : ndarray
        Degrees of belief in two mutually exclusive answers, each between 0 and 1.

    Returns
    -------
    ndarray
        With a last axis of length three. Other answers have the remaining probability; if the two
        beliefs sum to more than one, they are divided by their sum.

    Examples
    --------
    >>> share_beliefs(np.array([0.5, 0.75]), np.array([0.25, 0.75])).tolist()
    [[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]
    """
    every = np.stack([literal, rival, np.maximum(1 - literal - rival, 0)], axis=-1)
    return np.asarray(every / every.sum(axis=-1, keepdims=True))


def believe_ideal(world: World, questions: Sequence[Question]) -> np.ndarray:
    """Compute the exact beliefs of the noisy-channel comprehender.

    Returns
    -------
    ndarray of shape (1, questions, 3)
        Probabilities of `ITEM_READINGS`; NaN if a sentence is impossible, so that beliefs about it
        are undefined.
    """
    readings = np.full((1, len(questions), len(ITEM_READINGS)), np.nan)
    for n, question in enumerate(questions):
        try:
            beliefs = world.true_beliefs(question.item.sentence, question.probe)
        except ImpossibleSentenceError:
            continue
        readings[0, n] = share_beliefs(*(np.array(beliefs[unit]) for unit in question.units))
    return readings


def believe_all(
    world: World,
    run: Run | None,
    questions: Sequence[Question],
    seed: int,
    advance: Advance = lambda *_: None,
) -> Arrays:
    """Compute the beliefs of the ideal comprehender, of networks, and of their posteriors.

    Parameters
    ----------
    world : World
        The world of the questions.
    run : Run or None
        The networks; without them the ideal comprehender is alone.
    questions : sequence of Question
        The questions.
    seed : int
        The seed of posteriors.
    advance : callable
        Called with the number of networks done, the total and the current task.

    Returns
    -------
    dict of str to ndarray of shape (networks, questions, 3)
        By comprehender, means over the particles of each network.
    """
    beliefs = {IDEAL: believe_ideal(world, questions)}
    if run is None:
        return beliefs
    parts: dict[str, list[np.ndarray]] = {}
    for index, network in enumerate(run.networks):
        advance(index, len(run.networks), f"network {index}")
        for name, answers in _believe_network(run, network, questions, seed + index).items():
            parts.setdefault(name, []).append(answers)
    advance(len(run.networks), len(run.networks), "all have answered")
    return beliefs | {name: np.stack(answers) for name, answers in parts.items()}


def _believe_network(
    run: Run, network: Network, questions: Sequence[Question], seed: int
) -> Arrays:
    """Compute the beliefs of a network and of particles of its posteriors."""
    units = sorted({unit for question in questions for unit in question.units})
    sentences = (question.item.sentence for question in questions[:: len(PROBES)])
    psi = np.concatenate(
        [network.probe_features(one, list(PROBES)).values[-1] for one in sentences]
    )
    layer = collect_last_layer(run, network).select([run.world.units.index(u) for u in units])
    weights = {TRAINED: layer.trained[:, None]}
    for name, sampler in SAMPLERS.items():
        posterior = infer_posterior(layer, sampler, VARIANCE, seed, diagnose=False)
        weights[name] = _take_particles(posterior, PARTICLES, seed)
    asked = np.array([[units.index(unit) for unit in question.units] for question in questions]).T
    beliefs = {  # (literal or rival, questions, particles)
        name: expit(np.einsum("aqjd,qd->aqj", theta[asked], psi)) for name, theta in weights.items()
    }
    return {name: share_beliefs(*both).mean(axis=1) for name, both in beliefs.items()}


def _take_particles(posterior: Posterior, size: int, seed: int) -> np.ndarray:
    """Take particles (units, size, D) at random, or draw them from a Gaussian if there are few."""
    rng = np.random.default_rng(seed)
    stored = np.asarray(posterior.particles)
    if size <= stored.shape[1]:
        return stored[:, rng.permutation(stored.shape[1])[:size]]
    values, vectors = np.linalg.eigh(np.asarray(posterior.covariance, float))
    root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    noise = rng.normal(size=(len(stored), size, stored.shape[2]))
    return np.asarray(posterior.mean[:, None] + noise @ np.swapaxes(root, 1, 2))
