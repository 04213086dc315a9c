"""Comprehenders that answer questions from their own beliefs, as participants do.

ideal             the exact noisy-channel comprehender of the world; a single one
trained           a participant is a trained network
paper's sampler   a participant is a particle, stopped after 17 steps
posterior         a participant is a particle of the converged posterior; also with the evidence of
                  a sentence counted once (b by sentence)
deep ensemble     the mean belief of all networks; a single one
ensemble, b = …   the mean belief of all networks' posteriors, the evidence weighted by b, with
                  settings on the frontier (docs/explanations/doubt.md); a single one each

A unit's activation is the degree of belief that it belongs to the answer. Answers are mutually
exclusive, so the probability that remains after the literal answer and its rival belongs to other
answers (`share_beliefs`). Particles of one network share its features, and so differ less from each
other than networks do.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Network, Run
from equivocal.people.agreement import share_beliefs
from equivocal.people.asked_items import PROBES, AskedItems, Question, believe_ideal
from equivocal.progress import Advance
from lastlayer import Posterior

Arrays = dict[str, np.ndarray]  # by comprehender

IDEAL, TRAINED, ENSEMBLE = "ideal", "trained", "deep ensemble"
PARTICLES = 5  # participants per network
VARIANCE = 1.0  # prior variance, the paper's central one
PAPER = SamplerSettings(
    method="dropout-deterministic", num_particles=50, num_steps=17, options={"dropout_rate": 0.3}
)
CONVERGED = SamplerSettings(method="exact-flow", num_particles=2, tolerance=0.01)
SAMPLERS = {
    "paper's sampler": PAPER,
    "posterior": CONVERGED,
    "posterior, b by sentence": CONVERGED.model_copy(update={"evidence": "sentence"}),
}
# ensembles of posteriors on the frontier: weight of the evidence, prior variance
FRONTIER = {"ensemble, b = 1/10": (1 / 10, 1.0), "ensemble, b = 1/300": (1 / 300, 0.1)}
AVERAGED = 50  # particles of each network in an ensemble of posteriors


def believe_all(
    run: Run | None, asked: AskedItems, seed: int, advance: Advance = lambda *_: None
) -> tuple[Arrays, Arrays]:
    """Compute the beliefs of the ideal comprehender, of networks, and of their posteriors.

    Parameters
    ----------
    run : Run or None
        The networks; without them the ideal comprehender is alone.
    asked : AskedItems
        The questions.
    seed : int
        The seed of posteriors.
    advance : callable
        Called with the number of networks done, the total and the current task.

    Returns
    -------
    beliefs : (participants, questions, 3) by comprehender
        The beliefs of every participant.
    networks : (participants,) by comprehender
        The network of every participant; single comprehenders have no entry.
    """
    beliefs = {IDEAL: believe_ideal(asked)}
    if run is None:
        return beliefs, {}
    parts: dict[str, list[np.ndarray]] = {}
    for index, network in enumerate(run.networks):
        advance(index, len(run.networks), f"network {index}")
        for name, answers in _believe_network(run, network, asked, seed + index).items():
            parts.setdefault(name, []).append(answers)
    advance(len(run.networks), len(run.networks), "all have answered")
    every = {name: np.concatenate(answers) for name, answers in parts.items()}
    averaged = {ENSEMBLE: every[TRAINED]} | {name: every.pop(name) for name in FRONTIER}
    single = {name: each.mean(axis=0, keepdims=True) for name, each in averaged.items()}
    count = len(run.networks)
    networks = {n: np.repeat(np.arange(count), len(q) // count) for n, q in every.items()}
    return beliefs | every | single, networks


def _believe_network(run: Run, network: Network, asked: AskedItems, seed: int) -> Arrays:
    """Compute the beliefs of a network and of particles of its posteriors."""
    units = sorted({unit for question in asked.questions for unit in question.units})
    psi = compute_question_features(network, asked)
    layer = collect_last_layer(run, network).select([run.world.units.index(u) for u in units])
    weights = {TRAINED: layer.trained[:, None]}
    samplers = {name: (sampler, VARIANCE, PARTICLES) for name, sampler in SAMPLERS.items()}
    for name, (b, variance) in FRONTIER.items():
        samplers[name] = CONVERGED.model_copy(update={"evidence": b}), variance, AVERAGED
    for name, (sampler, variance, size) in samplers.items():
        posterior = infer_posterior(layer, sampler, variance, seed, diagnose=False)
        weights[name] = _take_particles(posterior, size, seed)
    return {
        name: answer_questions(psi, asked.questions, units, theta)
        for name, theta in weights.items()
    }


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


def compute_question_features(network: Network, asked: AskedItems) -> np.ndarray:
    """Compute the features ψ of a network for the probe of each question: (questions, D)."""
    sentences = (item.sentence for item in asked.items)
    return np.concatenate([network.probe_features(s, list(PROBES)).values[-1] for s in sentences])


def answer_questions(
    psi: np.ndarray, questions: Sequence[Question], units: Sequence[str], layers: np.ndarray
) -> np.ndarray:
    """Compute the beliefs of participants with these last layers.

    Parameters
    ----------
    psi : ndarray of shape (questions, D)
        From `compute_question_features`.
    questions : sequence of Question
        The questions.
    units : sequence of str
        The units of the layers.
    layers : ndarray of shape (units, participants, D)
        The last layers of the participants.

    Returns
    -------
    ndarray of shape (participants, questions, 3)
        Beliefs in the literal answer, its rival and any other.
    """
    number = {unit: k for k, unit in enumerate(units)}
    rows = []
    for question, features in zip(questions, psi, strict=True):
        literal, rival = (expit(layers[number[unit]] @ features) for unit in question.units)
        rows.append(share_beliefs(literal, rival))
    return np.stack(rows, axis=1)
