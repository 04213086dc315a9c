"""Training: all networks of a study side by side, on the same corpus, from different seeds.

The loss is the paper's: cross-entropy of the answer to every probe after every constituent,

    L(w) = Σ_q n_q Σ_k [log(1 + exp z_qk) − t_qk z_qk] / Σ_q n_q,

over the distinct questions q (a beginning and a probe), with n_q the number of times q is asked in
the corpus and t_q its mean answer. A step does not walk through a batch of sentences: it takes
`questions` of the distinct q by systematic sampling, each with probability proportional to n_q and
equal weight, which is an unbiased estimate of the same gradient. Questions are sorted by beginning,
so a step sees all kinds of beginnings. `batch_size` only sets how many steps make an epoch.

The networks differ in their initial weights alone; they share corpus, held-out part and order, so
one batched product serves them all.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from equivocal.gestalt.network import SentenceGestalt, new_sentence_gestalt
from equivocal.gestalt.questions import Questions, features_of
from equivocal.gestalt.settings import TrainingSettings

__all__ = ["EpochReport", "OnEpoch", "fit", "loss_and_accuracy"]


class EpochReport(NamedTuple):
    """What is known after an epoch; one entry per network."""

    epoch: int  # from 1
    train_loss: Float[np.ndarray, " networks"]
    test_loss: Float[np.ndarray, " networks"]
    train_accuracy: Float[np.ndarray, " networks"]  # share of output units on the right side of ½
    test_accuracy: Float[np.ndarray, " networks"]


OnEpoch = Callable[[EpochReport, int], None]  # called with the report and the most epochs there are


class _State(NamedTuple):
    """All that the next epoch reads; every leaf has a leading axis over networks."""

    network: SentenceGestalt
    optimiser: optax.OptState
    best: SentenceGestalt
    best_loss: Float[Array, " networks"]
    waited: Int[Array, " networks"]  # epochs since best_loss


def loss_and_accuracy(
    network: SentenceGestalt, questions: Questions
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """L(w), and the share of units on the right side of ½, over all questions.

    With a mean answer t, an output above ½ is right in a share t of the cases, one below in 1−t.
    """
    logits = network.query.logits(features_of(network, questions))
    target = questions.target
    loss = (jax.nn.softplus(logits) - target * logits).sum(axis=1)
    right = jnp.where(logits > 0, target, 1 - target).mean(axis=1)
    return questions.weight @ loss, questions.weight @ right


def _batch_loss(
    network: SentenceGestalt, questions: Questions, rows: Int[Array, " batch"]
) -> Float[Array, ""]:
    """The estimate of L(w) from the questions in `rows`, drawn in proportion to their weight."""
    batch = questions._replace(node=questions.node[rows], probe=questions.probe[rows])
    logits = network.query.logits(features_of(network, batch))
    return (jax.nn.softplus(logits) - questions.target[rows] * logits).sum() / len(rows)


def _draw(
    key: Key[Array, ""], cumulative: Float[Array, " pairs"], size: int
) -> Int[Array, " batch"]:
    """Systematic sampling: `size` evenly spaced points with one random offset."""
    points = (jnp.arange(size) + jax.random.uniform(key)) / size
    rows = jnp.searchsorted(cumulative, points * cumulative[-1])
    return jnp.minimum(rows, len(cumulative) - 1)


def _optimiser(settings: TrainingSettings, steps_per_epoch: int) -> optax.GradientTransformation:
    steps = settings.epochs * steps_per_epoch
    constant = round(settings.decay_from * steps)
    rate = optax.join_schedules(
        [
            optax.constant_schedule(settings.learning_rate),
            optax.cosine_decay_schedule(settings.learning_rate, max(1, steps - constant)),
        ],
        [constant],
    )
    return optax.adamw(rate, b2=settings.second_moment, weight_decay=settings.weight_decay)


def _new_networks(
    settings: TrainingSettings, num_tokens: int, num_units: int, key: Key[Array, ""]
) -> SentenceGestalt:
    """All networks of a run, stacked along a leading axis."""

    def new(index: Int[Array, ""]) -> SentenceGestalt:
        return new_sentence_gestalt(
            # by index, so that network 3 starts the same whether 4 or 40 are trained
            jax.random.fold_in(key, index),
            num_tokens=num_tokens,
            num_units=num_units,
            hidden=settings.hidden,
            gestalt=settings.gestalt,
        )

    return jax.vmap(new)(jnp.arange(settings.networks))


def fit(
    train: Questions,
    test: Questions,
    settings: TrainingSettings,
    *,
    num_tokens: int,
    num_train_sentences: int,
    on_epoch: OnEpoch | None = None,
) -> tuple[SentenceGestalt, list[EpochReport]]:
    """Train `settings.networks` networks; returns them stacked, each at its best epoch.

    A network whose held-out loss has not improved for `patience` epochs is left as it was best,
    whatever the others go on to do.
    """
    steps = max(1, round(num_train_sentences / settings.batch_size))
    start, order = jax.random.split(jax.random.key(settings.seed))
    network = _new_networks(settings, num_tokens, train.target.shape[1], start)
    state = _State(
        network=network,
        optimiser=jax.vmap(_optimiser(settings, steps).init)(network),
        best=network,
        best_loss=jnp.full(settings.networks, jnp.inf),
        waited=jnp.zeros(settings.networks, dtype=jnp.int32),
    )
    reports: list[EpochReport] = []
    for epoch in range(1, settings.epochs + 1):
        key = jax.random.fold_in(order, epoch)
        state, scores = _run_epoch(key, state, train, test, settings=settings, steps=steps)
        reports.append(EpochReport(epoch, *(np.asarray(score) for score in scores)))
        if on_epoch is not None:
            on_epoch(reports[-1], settings.epochs)
        if bool((state.waited >= settings.patience).all()):
            break
    return state.best, reports


# The corpus is an argument, not a constant: XLA would spend seconds folding it into the program.
@partial(jax.jit, static_argnames=("settings", "steps"))
def _run_epoch(
    key: Key[Array, ""],
    state: _State,
    train: Questions,
    test: Questions,
    *,
    settings: TrainingSettings,
    steps: int,
) -> tuple[_State, tuple[Array, ...]]:
    """`steps` steps of every network, then their scores on both parts of the corpus."""
    optimiser = _optimiser(settings, steps)
    cumulative = jnp.cumsum(train.weight)

    def step(
        carry: tuple[SentenceGestalt, optax.OptState], key: Key[Array, ""]
    ) -> tuple[tuple[SentenceGestalt, optax.OptState], None]:
        network, memory = carry
        rows = _draw(key, cumulative, settings.questions)
        gradient = jax.vmap(jax.grad(_batch_loss), in_axes=(0, None, None))(network, train, rows)
        change, memory = jax.vmap(optimiser.update)(gradient, memory, network)
        return (optax.apply_updates(network, change), memory), None

    keys = jax.random.split(key, steps)
    (network, memory), _ = jax.lax.scan(step, (state.network, state.optimiser), keys)
    score = jax.vmap(loss_and_accuracy, in_axes=(0, None))
    train_loss, train_accuracy = score(network, train)
    test_loss, test_accuracy = score(network, test)
    state = _keep_best(state, network, memory, test_loss, settings.patience)
    return state, (train_loss, test_loss, train_accuracy, test_accuracy)


def _keep_best(
    state: _State,
    network: SentenceGestalt,
    memory: optax.OptState,
    test_loss: Float[Array, " networks"],
    patience: int,
) -> _State:
    """Remember the weights of each network's best epoch, until it has stopped."""
    better = (test_loss < state.best_loss) & (state.waited < patience)

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return _State(
        network=network,
        optimiser=memory,
        best=jax.tree.map(choose, network, state.best),
        best_loss=jnp.where(better, test_loss, state.best_loss),
        waited=jnp.where(better, 0, state.waited + 1),
    )
