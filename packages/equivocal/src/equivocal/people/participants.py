"""Simulated participants: networks or particles that answer questions from their own beliefs.

trained    a participant is a network
posterior  a participant is a particle of a network's posterior, which a study has stored or which
           is sampled now

A unit's activation is the degree of belief that it belongs to the answer. Answers are mutually
exclusive, so the probability that remains after the literal answer and its rival belongs to other
answers (`share_beliefs`). Particles of one network share its features, and so differ less from each
other than networks do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import expit

from equivocal.beliefs import collect_last_layer, infer_posterior
from equivocal.measuring.measurement import ROWS, SAMPLER, VARIANCE
from equivocal.network import Network, Run
from equivocal.paper.preparation import open_study
from equivocal.paper.stages import Study
from equivocal.people.drawn_answers import share_beliefs
from equivocal.people.questions import Question, find_sentences, load_sentences
from equivocal.progress import Advance
from equivocal.store.folders import has_run
from equivocal.world import Utterance
from equivocal.world.items import Item
from lastlayer import Posterior
from lastlayer.errors import UserError, check_known, join_names

__all__ = [
    "answer_questions",
    "believe_answers",
    "compute_question_features",
    "open_comprehenders",
    "take_particles",
]

PER_NETWORK = 5  # default number of particles
Tokens = tuple[tuple[str, ...], ...]  # of an utterance
SAMPLED_NOW = "sampled now"  # the name of a posterior that no study has stored


@dataclass(frozen=True, eq=False)
class Comprehenders:
    """Networks, their stored posteriors if any, and the sentences that they are asked about."""

    place: Path  # of the networks
    run: Run
    study: Study | None
    items: list[Item]
    source: str  # of the sentences
    posteriors: dict[tuple[str, float], Callable[[int], Posterior]]  # by sampler and variance
    units: tuple[str, ...]  # of stored posteriors


def open_comprehenders(folder: Path, sentences: Path | None = None) -> Comprehenders:
    """Open the networks of a folder, with stored posteriors and sentences.

    Parameters
    ----------
    folder : Path
        The folder of `equivocal train`, a study, `suites run`, `constructions run` or `people`.
    sentences : Path, optional
        A CSV file of sentences; by default those of the study, or those shipped for the world.

    Raises
    ------
    UserError
        Where there are no networks or no sentences.
    """
    place = _locate_run(folder)
    run = Run.load(place)
    study = open_study(place) if (place / "settings.toml").exists() else None
    if study is not None:
        study.run = run
    if sentences is not None:
        items, source = load_sentences(sentences, run.world), str(sentences)
    elif study is not None:
        items, source = list(study.stimuli.rows.values()), f"the stimuli of {folder}"
    else:
        items, source = find_sentences(run.world)
    stored, units = (study.find_posteriors(), study.sampled_units) if study else ({}, ())
    return Comprehenders(place, run, study, items, source, stored, units)


def _locate_run(folder: Path) -> Path:
    """Return the folder itself if it holds a run, or else the only run below its `networks`."""
    if has_run(folder):
        return folder
    settings = sorted(folder.glob("networks/**/run.toml"))
    inner = [path.parent for path in settings if has_run(path.parent)]
    if len(inner) > 1:
        raise UserError(
            f"{folder} holds networks of several worlds; give one of {join_names(map(str, inner))}."
        )
    return inner[0] if inner else folder  # for which `Run.load` raises an error


def believe_answers(
    who: Comprehenders,
    questions: Sequence[Question],
    *,
    beliefs: str | None = None,
    participants: int | None = None,
    sampler: str | None = None,
    variance: float | None = None,
    seed: int = 0,
    advance: Advance = lambda *_: None,
) -> tuple[list[str], np.ndarray, dict[str, object]]:
    """Compute the beliefs of participants about the answers to questions.

    Parameters
    ----------
    who : Comprehenders
        Networks and their posteriors.
    questions : sequence of Question
        The questions.
    beliefs : {"trained", "posterior"}, optional
        Whether participants are networks or particles; by default particles if posteriors are
        stored, otherwise networks.
    participants : int, optional
        Number of participants, spread evenly over networks; by default every network, or five
        particles of each.
    sampler, variance : optional
        Sampler and prior variance of the posterior; by default the study's first sampler and
        central prior.
    seed : int
        The seed of particles that are drawn now.
    advance : callable
        Called with the number of networks done, the total and the current task.

    Returns
    -------
    names : list of str
        The names of the participants.
    beliefs : ndarray of shape (participants, questions, 3)
        Probabilities of the literal answer, its rival and any other.
    about : dict
        Settings for the record: the kind of beliefs and, for particles, sampler and variance.
    """
    if variance is not None and not variance > 0:
        raise UserError(f"the prior variance (--prior-variance) must be above 0, got {variance:g}.")
    if participants is not None and participants < 1:
        raise UserError(
            f"there must be one participant (--participants) or more, got {participants}."
        )
    beliefs = beliefs or ("posterior" if who.posteriors else "trained")
    networks = len(who.run.networks)
    count = participants or (networks if beliefs == "trained" else PER_NETWORK * networks)
    if beliefs == "trained":
        if sampler is not None or variance is not None:
            raise UserError("a sampler and a prior variance are for --beliefs posterior; add that.")
        if count > networks:
            raise UserError(
                f"{count} participants are wanted and there are {networks} networks; lower "
                "--participants, train more, or let particles answer with --beliefs posterior."
            )
    chosen = None if beliefs == "trained" else _choose_posterior(who, questions, sampler, variance)
    names, found = list[str](), []
    sizes = [len(part) for part in np.array_split(np.arange(count), min(networks, count))]
    for index, size in enumerate(sizes):
        advance(index, len(sizes), f"network {index}")
        layers = _find_layers(who, questions, index, size, chosen, seed)
        psi = compute_question_features(who.run.networks[index], questions)
        found.append(answer_questions(psi, questions, *layers))
        many = [f"n{index:02d}p{j:02d}" for j in range(size)]
        names += many if chosen else [f"n{index:02d}"]
    advance(len(sizes), len(sizes), "all have answered")
    about: dict[str, object] = {"beliefs": beliefs}
    if chosen:
        about |= {"sampler": chosen[0], "prior_variance": chosen[1]}
    return names, np.concatenate(found), about


def _choose_posterior(
    who: Comprehenders, questions: Sequence[Question], sampler: str | None, variance: float | None
) -> tuple[str, float]:
    """Return the sampler and the prior variance of the posterior, stored or to be sampled now."""
    if who.study is None or not who.posteriors:
        if sampler is not None:
            raise UserError(
                "--sampler chooses one of a study's posteriors, and this folder has none; leave it "
                "out, and posteriors are sampled now."
            )
        return SAMPLED_NOW, VARIANCE if variance is None else variance
    inference = who.study.settings.inference
    sampler = sampler or next(iter(inference.samplers))
    check_known(sampler, inference.samplers, "sampler", "--sampler: ")
    variance = inference.central_prior if variance is None else variance
    if (sampler, variance) not in who.posteriors:
        stored = [f"{v:g}" for name, v in who.posteriors if name == sampler]
        raise UserError(
            f"the study has no finished posteriors of sampler {sampler} with prior variance "
            f"{variance:g}; there are {join_names(stored)}, and `equivocal infer` samples others."
        )
    asked = {unit for question in questions for unit in question.units}
    if lacking := sorted(asked - {*who.units}):
        raise UserError(
            f"the study's posteriors do not hold {join_names(lacking, most=4)}; set "
            'inference.units = "all" there, or use --beliefs trained.'
        )
    return sampler, variance


def _find_layers(
    who: Comprehenders,
    questions: Sequence[Question],
    index: int,
    size: int,
    chosen: tuple[str, float] | None,
    seed: int,
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return units, and the last layers (units, participants, D) of one network's participants."""
    network = who.run.networks[index]
    asked = {unit for question in questions for unit in question.units}
    units = tuple(unit for unit in who.run.world.units if unit in asked)
    if chosen is None:
        return units, network.last_layer().sel(unit=list(units)).values[:, None]
    if chosen in who.posteriors:
        return who.units, take_particles(who.posteriors[chosen](index), size, seed + index)
    layer = collect_last_layer(who.run, network, ROWS)
    rows = layer.select([who.run.world.units.index(unit) for unit in units])
    sampler = SAMPLER.model_copy(update={"num_particles": max(size, SAMPLER.num_particles)})
    first = who.run.settings.seed + seed
    posterior = infer_posterior(rows, sampler, chosen[1], first + index, diagnose=False)
    return units, take_particles(posterior, size, seed + index)


def take_particles(posterior: Posterior, size: int, seed: int) -> np.ndarray:
    """Take stored particles at random, or draw new ones from a Gaussian if there are too few.

    Parameters
    ----------
    posterior : Posterior
        The posterior whose particles are taken.
    size : int
        Number of particles.
    seed : int
        The same seed takes the same particles.

    Returns
    -------
    ndarray of shape (units, size, D)
        Last layers.

    Raises
    ------
    UserError
        Where more are wanted than are stored, and the posterior is not Gaussian.
    """
    rng = np.random.default_rng(seed)
    stored = np.asarray(posterior.particles)
    if size <= stored.shape[1]:
        return stored[:, rng.permutation(stored.shape[1])[:size]]
    if not posterior.gaussian:
        raise UserError(
            f"{size} particles of each network are wanted and {stored.shape[1]} are stored; lower "
            "--participants."
        )
    values, vectors = np.linalg.eigh(np.asarray(posterior.covariance, float))
    root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    noise = rng.normal(size=(len(stored), size, stored.shape[2]))
    return np.asarray(posterior.mean[:, None] + noise @ np.swapaxes(root, 1, 2))


def compute_question_features(network: Network, questions: Sequence[Question]) -> np.ndarray:
    """Compute the features ψ of a network for the probe of each question: (questions, D)."""
    asked: dict[Tokens, dict[str, Utterance]] = {}  # the probes of each sentence, in order
    for question in questions:
        asked.setdefault(question.utterance.tokens, {})[question.probe] = question.utterance
    found: dict[tuple[Tokens, str], np.ndarray] = {}
    for tokens, probes in asked.items():
        utterance = next(iter(probes.values()))
        last = network.probe_features(utterance, list(probes)).values[-1]
        found |= {(tokens, probe): psi for probe, psi in zip(probes, last, strict=True)}
    return np.stack([found[question.utterance.tokens, question.probe] for question in questions])


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
    for question, own in zip(questions, psi, strict=True):
        literal, *rival = (expit(layers[number[unit]] @ own) for unit in question.units)
        rows.append(share_beliefs(literal, rival[0] if rival else np.zeros_like(literal)))
    return np.stack(rows, axis=1)
