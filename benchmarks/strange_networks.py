"""Networks for `benchmarks.strangers` and `benchmarks.shift`: ψ and probabilities of all rows.

Tables and sentence embeddings get two hidden layers of 128 units, images two convolutions and a
layer of 128 units, all with ReLU; ψ is the last of them and a column of ones. Adam, sixty epochs,
the weights of the epoch with the lowest loss on validation rows. The Sentence Gestalt networks are
those of the package.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.strange_data import PIXELS, Problem

__all__ = ["Embedded", "embed", "embed_sentence_gestalt"]

UNITS = 128
EPOCHS = 60
BATCH = 64
LEARNING_RATE = 1e-3
SENTENCES = ("words in random order", "random words", "one word five times", "said twice")


@dataclass(frozen=True)
class Embedded:
    """What the last layers of several networks see and answer, by part or kind of rows."""

    psi: dict[str, np.ndarray]  # of the first network, with a column of ones, (N, D)
    answers: dict[str, np.ndarray]  # probabilities of all networks, (networks, N, K)
    targets: dict[str, np.ndarray]  # of the training, validation and test rows, (N, K)
    trained: np.ndarray  # θ of the first network, (K, D)


def embed(problem: Problem, seed: int, networks: int = 5) -> Embedded:
    """Train networks from different starts, and apply them to all rows."""
    torch.set_num_threads(1)
    models = [train(problem, 1_000 * seed + number) for number in range(networks)]
    parts = problem.inputs | problem.strange
    psi, answers = {}, {}
    for part, x in parts.items():
        with torch.no_grad():
            hidden = [model[:-1](torch.tensor(x)) for model in models]
            logits = [model[-1](h) for model, h in zip(models, hidden, strict=True)]
        psi[part] = add_ones(hidden[0].numpy())
        answers[part] = torch.sigmoid(torch.stack(logits)).numpy().astype(np.float64)
    last = models[0][-1]
    trained = np.hstack([last.weight.detach().numpy(), last.bias.detach().numpy()[:, None]])
    return Embedded(psi, answers, problem.targets, trained)


def add_ones(hidden: np.ndarray) -> np.ndarray:
    """Append a column of ones."""
    return np.hstack([hidden, np.ones((len(hidden), 1), hidden.dtype)])


def train(problem: Problem, seed: int) -> nn.Sequential:
    """Train one network."""
    torch.manual_seed(seed)
    x, t = (
        {part: torch.tensor(values[part]) for part in ("train", "validation")}
        for values in (problem.inputs, problem.targets)
    )
    model = build(problem.images, x["train"].shape[1], t["train"].shape[1])
    optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    measure = nn.BCEWithLogitsLoss()
    lowest, best = np.inf, copy.deepcopy(model.state_dict())
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x["train"])).split(BATCH):
            optimiser.zero_grad()
            measure(model(x["train"][rows]), t["train"][rows]).backward()
            optimiser.step()
        with torch.no_grad():
            loss = float(measure(model(x["validation"]), t["validation"]))
        if loss < lowest:
            lowest, best = loss, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return model


def build(images: bool, inputs: int, outputs: int) -> nn.Sequential:
    """Build a network; its last module is the last layer."""
    if not images:
        hidden = [nn.Linear(inputs, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU()]
        return nn.Sequential(*hidden, nn.Linear(UNITS, outputs))
    size = 16 * (PIXELS // 4 + 1) ** 2
    return nn.Sequential(
        nn.Unflatten(1, (1, PIXELS, PIXELS)),
        *(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(size, UNITS), nn.ReLU()),
        nn.Linear(UNITS, outputs),
    )


def embed_sentence_gestalt(seed: int, networks: int = 5) -> Embedded:
    """Ask Sentence Gestalt networks about random prefixes of sentences of the world `graded`."""
    from equivocal.network import train as train_gestalt
    from equivocal.world import World

    world, rng = World.load("graded"), np.random.default_rng(seed)
    run = train_gestalt(world, seed=seed, networks=networks, sentences=2_000, epochs=30)
    sizes = {"train": 1_500, "validation": 500, "test": 500} | dict.fromkeys(SENTENCES, 300)
    psi: dict[str, np.ndarray] = {}
    answers: dict[str, np.ndarray] = {}
    targets: dict[str, np.ndarray] = {}
    units = np.zeros(0, int)
    for part, number in sizes.items():
        corpus = world.sample(number, seed=int(rng.integers(1 << 30)))
        fillers = corpus.derivations.fillers
        asked = np.array([rng.choice(np.flatnonzero(row >= 0)) for row in fillers])
        whole = [np.asarray(world.encode(text)) for text in corpus.texts]
        heard = [_change(tokens, part, len(world.lexicon.words), rng) for tokens in whole]
        t = world.lexicon.features[fillers[np.arange(number), asked]]
        if part == "train":
            units = np.flatnonzero((t.sum(axis=0) >= 20) & (t.sum(axis=0) <= number - 20))
        if part not in SENTENCES:
            targets[part] = t[:, units].astype(np.float32)
        both = [_ask(network.model, heard, asked, world) for network in run.networks]
        psi[part] = add_ones(both[0][0])
        answers[part] = np.stack([p[:, units] for _, p in both]).astype(np.float64)
    return Embedded(psi, answers, targets, run.networks[0].last_layer().values[units])


def _change(tokens: np.ndarray, kind: str, words: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random prefix of a sentence, or the sentence made strange."""
    if kind == "words in random order":
        return rng.permutation(tokens)
    if kind == "random words":
        return np.where(np.arange(2) == 0, rng.integers(words, size=(len(tokens), 1)), tokens)
    if kind == "one word five times":
        return np.repeat(tokens[rng.integers(len(tokens))][None], 5, axis=0)
    if kind == "said twice":
        return np.concatenate([tokens, tokens])
    return tokens[: rng.integers(1, len(tokens) + 1)]


def _ask(
    model: Any, heard: list[np.ndarray], asked: np.ndarray, world: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return ψ and the probabilities of all units for one role after the last word of each row."""
    tokens = np.full((len(heard), 12, 2), -1, np.int32)
    for row, sentence in enumerate(heard):
        tokens[row, : len(sentence)] = sentence
    lengths = np.array([len(sentence) for sentence in heard])
    gestalts = model.listen(tokens)[np.arange(len(heard)), lengths - 1]
    probes = np.stack([world.find_probe_units(role) for role in world.roles]).astype(np.float32)
    psi = model.query.features(gestalts, probes, np.arange(len(heard)), asked)
    return np.asarray(psi), 1 / (1 + np.exp(-np.asarray(model.query.logits(psi))))
