"""The query network: asks a gestalt about a word, and its last layer, which gets a posterior.

    x = (gestalt − μ, word − μ', embedding − μ'') V       principal directions of each, scaled
    hidden2 = tanh(W x + b)                               ψ = (hidden2, 1)
    y_k = σ(θ_k · ψ)                                      one output for each question, `OUTPUTS`

The language model below stays frozen. The network is trained after every word, with what the whole
sentence means as its target, as a Sentence Gestalt network is; so it learns P(role | words so far).
Training stops where the loss on held-out sentences is lowest. Sizes, dropout and layer were chosen
by held-out sentences, of words that are not trained on, and never by items of the test.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit

from equivocal.english.language_model import Reading
from equivocal.english.sentences import Sentence
from equivocal.progress import report_part

DIRECTIONS = (128, 128, 16)  # principal directions of gestalt, word and embedding
HIDDEN = 256  # units of hidden2
RATE, DECAY, BATCH, EPOCHS, PATIENCE = 1e-3, 1e-4, 128, 60, 8
DROPOUT = (0.2, 0.3)  # shares of the inputs and of hidden2 that a training step leaves out
RIDGE = 0.01  # added to the variances of the projected inputs
OTHERS = 0.3  # how often a word without a role is asked about, too


class Inputs(NamedTuple):
    """What a question consists of: one row each."""

    gestalt: np.ndarray  # (N, dim), the state after the words so far
    word: np.ndarray  # (N, dim), the state at the word that is asked about
    embedding: np.ndarray  # (N, dim)

    def take(self, rows: np.ndarray) -> "Inputs":
        """Return some of the rows."""
        return Inputs(*(part[rows] for part in self))


class Rows(NamedTuple):
    """Questions and answers."""

    inputs: Inputs
    targets: np.ndarray  # (N, K)
    sentence: np.ndarray  # (N,), numbers of the sentences
    probe: np.ndarray  # (N,), numbers of the words that are asked about

    def take(self, rows: np.ndarray) -> "Rows":
        """Return some of the rows."""
        return Rows(self.inputs.take(rows), *(part[rows] for part in self[1:]))


def collect_rows(
    sentences: Sequence[Sentence], reading: Reading, layer: int, *, seed: int | None = None
) -> Rows:
    """Collect the questions that are asked about sentences.

    Parameters
    ----------
    sentences : sequence of Sentence
        The sentences.
    reading : Reading
        What the language model made of their texts.
    layer : int
        The layer whose states are used.
    seed : int, optional
        With it, about half of the words are followed by questions, and words without a role are
        asked about, too, as for training. Without it, nouns are asked about after the last word.
    """
    rng = None if seed is None else np.random.default_rng(seed)
    place, probe, number, targets = [], [], [], []
    for row, sentence in enumerate(sentences):
        first, last = int(reading.edges[row]), int(reading.edges[row + 1])
        asked = list(sentence.roles)
        if rng and rng.random() < OTHERS:
            asked.append(int(rng.integers(last - first)))
        for after in range(last - first):
            if after < last - first - 1 and (rng is None or rng.random() < 0.5):
                continue
            for word in dict.fromkeys(asked):
                if word <= after:
                    place.append(first + after)
                    probe.append(first + word)
                    number.append(row)
                    targets.append(sentence.list_targets(word))
    inputs = pick_inputs(reading, layer, place, probe)
    words = np.array(probe) - reading.edges[number]
    return Rows(inputs, np.array(targets, np.float32), np.array(number), words)


def pick_inputs(reading: Reading, layer: int, place: Sequence[int], probe: Sequence[int]) -> Inputs:
    """Pick the states after some words and at others, by their numbers among all words."""
    parts = reading.gestalt[layer][place], reading.word[layer][probe], reading.embedding[probe]
    return Inputs(*(part.astype(np.float32) for part in parts))


def find_directions(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Find means, (3 dim,), and principal directions of each kind of state, as one matrix V.

    Directions are scaled so that the mean variance along those of a kind is one.
    """
    blocks = []
    for states, most in zip(inputs, DIRECTIONS, strict=True):
        sd = states.std(axis=0) + 1e-3
        standard = (states - states.mean(axis=0)) / sd
        chosen = np.linalg.eigh(standard.T @ standard)[1][:, ::-1][:, :most]
        spread = max(np.sqrt(((standard @ chosen) ** 2).mean()), 1e-3)  # all states may be alike
        blocks.append(chosen / sd[:, None] / spread)
    means = np.concatenate([states.mean(axis=0) for states in inputs])
    return means, block_diag(*blocks).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Coverage:
    """How far questions lie from those that a network was trained on."""

    centre: np.ndarray  # (directions,)
    whitening: np.ndarray  # (directions, directions)

    @classmethod
    def fit(cls, x: np.ndarray) -> "Coverage":
        """Take mean and covariance of the projected inputs of a fit."""
        covariance = np.cov(x.T) + RIDGE * np.eye(x.shape[1])
        return cls(x.mean(axis=0), np.linalg.inv(np.linalg.cholesky(covariance)).T)

    def measure(self, x: np.ndarray) -> np.ndarray:
        """Return the Mahalanobis distance of projected inputs, per direction, (N,)."""
        distance: np.ndarray = np.sqrt((((x - self.centre) @ self.whitening) ** 2).mean(axis=1))
        return distance


@dataclass(frozen=True, eq=False)
class QueryNetwork:
    """A trained query network."""

    means: np.ndarray  # (3 dim,)
    directions: np.ndarray  # (3 dim, directions), V
    weights: np.ndarray  # (directions, hidden)
    biases: np.ndarray  # (hidden,)
    last_layer: np.ndarray  # (K, hidden + 1), θ

    def project(self, inputs: Inputs) -> np.ndarray:
        """Return x, (N, directions)."""
        x: np.ndarray = (np.concatenate(inputs, axis=1) - self.means) @ self.directions
        return x

    def compute_features(self, inputs: Inputs) -> np.ndarray:
        """Return ψ, (N, hidden + 1)."""
        hidden = np.tanh(self.project(inputs) @ self.weights + self.biases)
        return np.hstack([hidden, np.ones((len(hidden), 1), hidden.dtype)]).astype(np.float32)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return the network's own probabilities, (N, K)."""
        p: np.ndarray = expit(features @ self.last_layer.T)
        return p


def train_network(
    rows: Rows, held_out: Rows, seed: int = 0, *, smoothing: float = 0.0
) -> QueryNetwork:
    """Train a query network; keep the weights with the lowest loss on held-out rows.

    Parameters
    ----------
    rows, held_out : Rows
        Questions with their answers.
    seed : int
        For the first weights and the order of the rows.
    smoothing : float
        Targets are moved so far towards ½, as label smoothing does.
    """
    import jax
    import jax.numpy as jnp
    import optax

    means, V = find_directions(rows.inputs)
    x, x_held = (
        jnp.asarray((np.concatenate(part.inputs, axis=1) - means) @ V) for part in (rows, held_out)
    )
    t = jnp.asarray(rows.targets * (1 - smoothing) + smoothing / 2)
    t_held = jnp.asarray(held_out.targets)
    N, K = t.shape
    keys = jax.random.split(jax.random.key(seed), 3)
    params = {
        "W": jax.random.normal(keys[0], (x.shape[1], HIDDEN)) / np.sqrt(x.shape[1]),
        "b": jnp.zeros(HIDDEN),
        "theta": jax.random.normal(keys[1], (K, HIDDEN + 1)) / np.sqrt(HIDDEN),
    }
    optimiser = optax.adamw(RATE, weight_decay=DECAY)

    def drop(values: Any, share: float, key: Any) -> Any:
        return values * jax.random.bernoulli(key, 1 - share, values.shape) / (1 - share)

    def compute_loss(params: dict[str, Any], x: Any, t: Any, key: Any = None) -> Any:
        if key is not None:
            x = drop(x, DROPOUT[0], key)
        hidden = jnp.tanh(x @ params["W"] + params["b"])
        if key is not None:
            hidden = drop(hidden, DROPOUT[1], jax.random.fold_in(key, 1))
        logits = hidden @ params["theta"][:, :-1].T + params["theta"][:, -1]
        return optax.sigmoid_binary_cross_entropy(logits, t).mean()

    @jax.jit
    def run_epoch(params: Any, state: Any, key: Any) -> Any:
        def step(carry: Any, batch: Any) -> Any:
            (params, state), (chosen, key) = carry, batch
            slopes = jax.grad(compute_loss)(params, x[chosen], t[chosen], key)
            updates, state = optimiser.update(slopes, state, params)
            return (optax.apply_updates(params, updates), state), None

        order = jax.random.permutation(key, N)[: N // BATCH * BATCH].reshape(-1, BATCH)
        batches = order, jax.random.split(key, len(order))
        (params, state), _ = jax.lax.scan(step, (params, state), batches)
        return params, state, compute_loss(params, x_held, t_held)

    state, best, lowest, waited = optimiser.init(params), params, np.inf, 0
    for epoch, key in enumerate(jax.random.split(keys[2], EPOCHS)):
        params, state, loss = run_epoch(params, state, key)
        waited += 1
        if loss < lowest:
            best, lowest, waited = params, float(loss), 0
        report_part(epoch + 1, EPOCHS, "training")
        if waited == PATIENCE:
            break
    arrays = {name: np.asarray(value) for name, value in best.items()}
    return QueryNetwork(means, V, arrays["W"], arrays["b"], arrays["theta"])
