"""The networks that all methods start from: one hidden layer, trained by Adam in JAX.

    logits = W ReLU(V x + b) + c

The features of the last layer are ψ(x) = (ReLU(V x + b), 1). Weights are those of the epoch with
the lowest loss on validation rows; an overfitted network is trained to the end. Several networks,
and those with dropout, are trained side by side by the same function.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.comparison.data import Task

__all__ = ["Network", "apply_link", "train_networks"]

BATCH = 64
LEARNING_RATE = 2e-3
EPOCHS = 60
EPOCHS_OVERFITTED = 100


class Network(NamedTuple):
    """Weights of one network, as NumPy arrays."""

    V: np.ndarray  # (inputs, H)
    b: np.ndarray  # (H,)
    W: np.ndarray  # (H, K)
    c: np.ndarray  # (K,)

    def compute_features(self, x: np.ndarray) -> np.ndarray:
        """Return ψ, (N, H + 1); the last column is one."""
        hidden = np.maximum(x @ self.V + self.b, 0)
        return np.hstack([hidden, np.ones((len(x), 1), hidden.dtype)])

    def compute_logits(self, x: np.ndarray) -> np.ndarray:
        """Return the logits, (N, K)."""
        return np.asarray(self.compute_features(x) @ self.weights.T)

    @property
    def weights(self) -> np.ndarray:
        """Return θ of the last layer with the intercept last, (K, H + 1)."""
        return np.vstack([self.W, self.c]).T


def apply_link(logits: np.ndarray, classes: bool) -> np.ndarray:
    """Return probabilities: a softmax over the last axis for classes, else a sigmoid of each."""
    if not classes:
        return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)))
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def train_networks(
    task: Task, *, number: int = 1, dropout: float = 0.0, first: int = 0
) -> list[Network]:
    """Train networks from different starts; `first` is the number of the first start."""
    x, t = (
        [jnp.asarray(values[part]) for part in ("train", "validation")]
        for values in (task.inputs, task.targets)
    )
    K = task.num_outputs
    t = [jax.nn.one_hot(part, K) if task.classes else part for part in t]
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(task.seed), i))(
        jnp.arange(first, first + number)
    )
    best = _train_all(
        keys,
        tuple(x),
        tuple(t),
        classes=task.classes,
        stop=not task.overfitted,
        epochs=EPOCHS_OVERFITTED if task.overfitted else EPOCHS,
        dropout=dropout,
        hidden=task.hidden,
    )
    stacked = [np.asarray(part) for part in best]
    return [Network(*(part[i] for part in stacked)) for i in range(number)]


@partial(jax.jit, static_argnames=("classes", "stop", "epochs", "dropout", "hidden"))
def _train_all(
    keys: jax.Array, x: tuple[jax.Array, ...], t: tuple[jax.Array, ...], **settings: Any
) -> "Weights":
    return jax.vmap(lambda key: _train(key, x, t, **settings))(keys)


Weights = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
Carry = tuple[Any, ...]  # the state of a loop


def _train(
    key: jax.Array,
    x: tuple[jax.Array, ...],
    t: tuple[jax.Array, ...],
    *,
    classes: bool,
    stop: bool,
    epochs: int,
    dropout: float,
    hidden: int,
) -> Weights:
    start, key = jax.random.split(key)
    weights = _draw_weights(start, x[0].shape[1], hidden, t[0].shape[1])
    optimiser = optax.adam(LEARNING_RATE)
    N = x[0].shape[0]
    steps = N // BATCH

    def loss(weights: Weights, x: jax.Array, t: jax.Array, key: jax.Array | None) -> jax.Array:
        V, b, W, c = weights
        h = jax.nn.relu(x @ V + b)
        if dropout and key is not None:
            h = h * jax.random.bernoulli(key, 1 - dropout, h.shape) / (1 - dropout)
        a = h @ W + c
        if classes:
            return jnp.mean(optax.softmax_cross_entropy(a, t))
        return jnp.mean(optax.sigmoid_binary_cross_entropy(a, t).sum(axis=1))

    def step(carry: Carry, batch: Carry) -> tuple[Carry, None]:
        weights, state = carry
        rows, key = batch
        slope = jax.grad(loss)(weights, x[0][rows], t[0][rows], key)
        update, state = optimiser.update(slope, state, weights)
        return (optax.apply_updates(weights, update), state), None

    def epoch(carry: Carry, key: jax.Array) -> tuple[Carry, None]:
        weights, state, best, lowest = carry
        order, masks = jax.random.split(key)
        rows = jax.random.permutation(order, N)[: steps * BATCH].reshape(steps, BATCH)
        (weights, state), _ = jax.lax.scan(
            step, (weights, state), (rows, jax.random.split(masks, steps))
        )
        now = loss(weights, x[1], t[1], None)
        better = (now < lowest) | (not stop)
        best = jax.tree.map(lambda old, new: jnp.where(better, new, old), best, weights)
        return (weights, state, best, jnp.minimum(now, lowest)), None

    carry = (weights, optimiser.init(weights), weights, jnp.inf)
    (_, _, best, _), _ = jax.lax.scan(epoch, carry, jax.random.split(key, epochs))
    return best


def _draw_weights(key: jax.Array, inputs: int, hidden: int, outputs: int) -> Weights:
    """Draw He's initial weights and zero biases."""
    keys = jax.random.split(key)
    V = jax.random.normal(keys[0], (inputs, hidden)) * jnp.sqrt(2 / inputs)
    W = jax.random.normal(keys[1], (hidden, outputs)) * jnp.sqrt(1 / hidden)
    return V, jnp.zeros(hidden), W, jnp.zeros(outputs)
