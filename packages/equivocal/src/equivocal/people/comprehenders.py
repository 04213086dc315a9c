"""Comprehenders that say who did what in a sentence, from their own beliefs, as participants do.

About each item of `find_plausibility_items` two questions are asked after its last word: who is the
agent, and who the patient. Each has three answers: literal (the unit given by the syntax), reversed
(the other noun) and any other. Sentences are selected by plausibility:

    plausible, unlikely, impossible    the sentences of that kind
    any                                pairs of a plausible and an unlikely sentence, half of each

Those who answer:

    ideal            the exact noisy-channel comprehender of the world; a single one
    trained          a participant is a trained network
    paper's sampler  a participant is a particle, stopped after 17 steps
    posterior        a participant is a particle of the converged posterior
    deep ensemble    the mean belief of all networks; a single one

A unit's activation is the degree of belief that it belongs to the answer. Answers are mutually
exclusive, so the probability that remains after the literal answer and its rival belongs to other
answers (`share_beliefs`). Particles of one network share its features, and so differ less from each
other than networks do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Network, Run
from equivocal.people.agreement import share_beliefs
from equivocal.progress import Advance
from equivocal.world import (
    ImpossibleSentenceError,
    PlausibilityItem,
    Utterance,
    World,
    find_plausibility_items,
)
from lastlayer import Posterior

ITEM_READINGS = ("literal", "reversed", "other")
ANY = "any"
PROBES = ("agent", "patient")

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
}


@dataclass(frozen=True)
class Question:
    """One probe after one sentence."""

    probe: str
    utterance: Utterance
    units: tuple[str, str]  # whose activations give the beliefs: of the literal reading, its rival


@dataclass(frozen=True, eq=False)
class AskedItems:
    """Sentences and the questions about them; arrays have an entry for each question."""

    world: World
    items: tuple[PlausibilityItem, ...]
    questions: tuple[Question, ...]
    number: np.ndarray  # of the item

    def select(self, construction: str = ANY, plausibility: str = ANY) -> np.ndarray:
        """Return the numbers of the questions about one kind of sentences, as defined above."""
        chosen = [
            (construction in (ANY, item.construction))
            and (plausibility == item.plausibility or (plausibility == ANY and key in self._pairs))
            for item in self.items
            for key in [(item.item, item.construction)]
        ]
        return np.flatnonzero(np.array(chosen)[self.number])

    @cached_property
    def _pairs(self) -> set[tuple[str, str]]:
        """The item and construction of each pair of a plausible and an unlikely sentence."""
        return {(i.item, i.construction) for i in self.items if i.plausibility == "unlikely"}

    @property
    def constructions(self) -> tuple[str, ...]:
        """The constructions, in the order of the world."""
        return tuple(dict.fromkeys(item.construction for item in self.items))

    @property
    def names(self) -> np.ndarray:
        """The name of each question's item, which is the same in both directions."""
        return np.array([self.items[n].item for n in self.number])


def ask_about_items(world: World) -> AskedItems:
    """Build the questions about every item of a world, in both directions.

    Parameters
    ----------
    world : World
        A world that `find_plausibility_items` accepts.
    """
    items = find_plausibility_items(world)
    questions = []
    for item in items:
        nouns = [world.units[world.lexicon.find_word_unit(n)] for n in (item.agent, item.patient)]
        for probe, rival in zip(PROBES, reversed(nouns), strict=True):
            literal = nouns[PROBES.index(probe)]
            questions.append(Question(probe, item.sentence, (literal, rival)))
    number = np.repeat(np.arange(len(items)), len(PROBES))
    return AskedItems(world, items, tuple(questions), number)


def believe_ideal(asked: AskedItems) -> np.ndarray:
    """Compute the exact beliefs of the noisy-channel comprehender.

    Returns
    -------
    ndarray of shape (1, questions, 3)
        Probabilities of `ITEM_READINGS`; NaN if a sentence is impossible, so that beliefs about it
        are undefined.
    """
    readings = np.full((1, len(asked.questions), len(ITEM_READINGS)), np.nan)
    for n, question in enumerate(asked.questions):
        try:
            beliefs = asked.world.true_beliefs(question.utterance, question.probe)
        except ImpossibleSentenceError:
            continue
        readings[0, n] = share_beliefs(*(np.array(beliefs[unit]) for unit in question.units))
    return readings


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
    count = len(run.networks)
    networks = {n: np.repeat(np.arange(count), len(q) // count) for n, q in every.items()}
    return beliefs | every | {ENSEMBLE: every[TRAINED].mean(axis=0, keepdims=True)}, networks


def _believe_network(run: Run, network: Network, asked: AskedItems, seed: int) -> Arrays:
    """Compute the beliefs of a network and of particles of its posteriors."""
    units = sorted({unit for question in asked.questions for unit in question.units})
    psi = compute_question_features(network, asked)
    layer = collect_last_layer(run, network).select([run.world.units.index(u) for u in units])
    weights = {TRAINED: layer.trained[:, None]}
    for name, sampler in SAMPLERS.items():
        posterior = infer_posterior(layer, sampler, VARIANCE, seed, diagnose=False)
        weights[name] = _take_particles(posterior, PARTICLES, seed)
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
