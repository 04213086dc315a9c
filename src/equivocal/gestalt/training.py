"""Training: all networks of a study side by side, on the same corpus, from different seeds.

The loss is the paper's: cross-entropy of the answer to every probe after every constituent,

    L(w) = Σ_q n_q Σ_k [log(1 + exp z_qk) − t_qk z_qk] / Σ_q n_q,

over the distinct questions q (a beginning and a probe), with n_q the number of times q is asked in
the corpus and t_q its mean answer. A step does not walk through a batch of sentences: it takes
`questions` of the distinct q by systematic sampling, each with probability proportional to n_q and
equal weight, which is an unbiased estimate of the same gradient. Questions are sorted by beginning,
so a step sees all kinds of beginnings. An epoch is a fixed number of such steps, after which both
parts of the corpus are scored.

The networks differ in their initial weights alone; they share corpus, held-out part and order, so
one batched product serves them all.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from equivocal.errors import UserError
from equivocal.gestalt.network import SentenceGestalt, new_sentence_gestalt
from equivocal.gestalt.questions import Answers, Questions, features_of
from equivocal.gestalt.settings import TrainingSettings
from equivocal.machine import available_cores

__all__ = ["EpochReport", "OnEpoch", "fit"]


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


def _loss_and_accuracy(
    logits: Float[Array, "pairs units"], answers: Answers
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """L(w), and the share of units on the right side of ½, over all questions.

    With a mean answer t, an output above ½ is right in a share t of the cases, one below in 1−t.
    """
    loss = _cross_entropy(logits, answers.target)
    right = jnp.where(logits > 0, answers.target, 1 - answers.target).mean(axis=1)
    return answers.weight @ loss, answers.weight @ right


def _cross_entropy(
    logits: Float[Array, "rows units"], target: Float[Array, "rows units"]
) -> Float[Array, " rows"]:
    return (jax.nn.softplus(logits) - target * logits).sum(axis=1)


def _batch_loss(
    network: SentenceGestalt,
    batch: Questions,
    target: Float[Array, "batch units"],
    kept: Float[Array, "batch hidden"] | None,
) -> Float[Array, ""]:
    """The estimate of L(w) from questions drawn in proportion to their weight.

    `kept` scales ψ: 0 where a unit is dropped, 1/(1−ρ) elsewhere.
    """
    psi = features_of(network, batch)
    return _cross_entropy(network.query.logits(psi if kept is None else psi * kept), target).mean()


def _draw(
    key: Key[Array, ""], cumulative: Float[Array, " pairs"], size: int
) -> Int[Array, " batch"]:
    """Systematic sampling: `size` evenly spaced points with one random offset."""
    points = (jnp.arange(size, dtype=jnp.float32) + jax.random.uniform(key)) / size
    return jnp.searchsorted(cumulative, points * cumulative[-1])


def _kept(
    key: Key[Array, ""], dropout: float, settings: TrainingSettings
) -> Float[Array, "batch hidden"] | None:
    """What dropout leaves of ψ, scaled so that its mean is ψ; None for all of it."""
    if not dropout:
        return None
    shape = (settings.questions, settings.hidden)
    return jax.random.bernoulli(jax.random.fold_in(key, 1), 1 - dropout, shape) / (1 - dropout)


def _optimiser(settings: TrainingSettings) -> optax.GradientTransformation:
    steps = settings.epochs * settings.steps
    constant = round(settings.decay_from * steps)
    rate = optax.join_schedules(
        [
            optax.constant_schedule(settings.learning_rate),
            optax.cosine_decay_schedule(settings.learning_rate, max(1, steps - constant)),
        ],
        [constant],
    )
    return optax.adamw(rate, b2=settings.second_moment, weight_decay=settings.weight_decay)


@partial(jax.jit, static_argnames=("settings", "num_tokens", "num_units"))
def _start(
    indices: Int[Array, " networks"],
    settings: TrainingSettings,
    num_tokens: int,
    num_units: int,
    key: Key[Array, ""],
) -> _State:
    """New networks with these indices, stacked along a leading axis, before their first step."""

    def new(index: Int[Array, ""]) -> SentenceGestalt:
        return new_sentence_gestalt(
            # by index, so that network 3 starts the same whether 4 or 40 are trained
            jax.random.fold_in(key, index),
            num_tokens=num_tokens,
            num_units=num_units,
            hidden=settings.hidden,
            gestalt=settings.gestalt,
        )

    network = jax.vmap(new)(indices)
    return _State(
        network=network,
        optimiser=jax.vmap(_optimiser(settings).init)(network),
        best=network,
        best_loss=jnp.full(len(indices), jnp.inf, dtype=jnp.float32),
        waited=jnp.zeros(len(indices), dtype=jnp.int32),
    )


def fit(
    questions: Questions,
    train: Answers,
    test: Answers,
    settings: TrainingSettings,
    *,
    num_tokens: int,
    on_epoch: OnEpoch | None = None,
    dropout: float = 0.0,
) -> tuple[SentenceGestalt, list[EpochReport]]:
    """Train `settings.networks` networks; returns them stacked, each at its best epoch.

    Both parts of the corpus answer the same questions, with weight zero where one never asks.
    A network whose held-out loss has not improved for `patience` epochs is left as it was best,
    whatever the others go on to do. `dropout` is the share ρ of hidden2 that is left out at random,
    anew for each question of a step; networks are scored with all of it.
    """
    if not 0 <= dropout < 1:
        raise UserError(f"dropout must lie in [0, 1), got {dropout!r}.")
    start, order = jax.random.split(jax.random.key(settings.seed))
    data = (questions, train, test)
    # what the program does not depend on is made alike, so that another seed reuses it
    program = replace(settings, seed=0, networks=1)
    groups = [
        _start(jnp.asarray(indices), program, num_tokens, train.target.shape[1], start)
        for indices in np.array_split(np.arange(settings.networks), _num_groups(settings.networks))
    ]
    reports: list[EpochReport] = []
    with ThreadPoolExecutor(len(groups)) as pool:
        for epoch in range(1, settings.epochs + 1):
            run = partial(_run_in_thread, jax.random.fold_in(order, epoch), data, program, dropout)
            groups, scores = zip(*pool.map(run, groups), strict=True)
            reports.append(EpochReport(epoch, *map(np.concatenate, zip(*scores, strict=True))))
            if on_epoch is not None:
                on_epoch(reports[-1], settings.epochs)
            if all((group.waited >= settings.patience).all() for group in groups):
                break
    if not all(jnp.isfinite(group.best_loss).all() for group in groups):
        raise UserError(
            f"training diverged: the held-out loss of a network was never finite; "
            f"try a learning_rate below {settings.learning_rate}."
        )
    best = jax.tree.map(lambda *parts: jnp.concatenate(parts), *(group.best for group in groups))
    return best, reports


def _num_groups(networks: int) -> int:
    """On a CPU one group of networks per core: such small products do not fill two cores."""
    return min(networks, available_cores()) if jax.default_backend() == "cpu" else 1


def _run_in_thread(
    key: Key[Array, ""],
    data: tuple[Questions, Answers, Answers],
    settings: TrainingSettings,
    dropout: float,
    group: _State,
) -> tuple[_State, list[np.ndarray]]:
    """One epoch of one group; waits for its scores, so that the threads work side by side."""
    group, scores = _run_epoch(key, group, data, settings=settings, dropout=dropout)
    return group, [np.asarray(score) for score in scores]


# The corpus is an argument, not a constant: XLA would spend seconds folding it into the program.
@partial(jax.jit, static_argnames=("settings", "dropout"))
def _run_epoch(
    key: Key[Array, ""],
    state: _State,
    data: tuple[Questions, Answers, Answers],
    *,
    settings: TrainingSettings,
    dropout: float = 0.0,
) -> tuple[_State, tuple[Array, ...]]:
    """The steps of one epoch for every network, then their scores on both parts of the corpus."""
    questions, train, test = data
    optimiser = _optimiser(settings)
    cumulative = jnp.cumsum(train.weight)

    def step(
        carry: tuple[SentenceGestalt, optax.OptState], key: Key[Array, ""]
    ) -> tuple[tuple[SentenceGestalt, optax.OptState], None]:
        network, memory = carry
        rows = _draw(key, cumulative, settings.questions)
        batch = questions._replace(node=questions.node[rows], probe=questions.probe[rows])
        gradient = jax.vmap(jax.grad(_batch_loss), in_axes=(0, None, None, None))(
            network, batch, train.target[rows], _kept(key, dropout, settings)
        )
        change, memory = jax.vmap(optimiser.update)(gradient, memory, network)
        return (optax.apply_updates(network, change), memory), None

    keys = jax.random.split(key, settings.steps)
    (network, memory), _ = jax.lax.scan(step, (state.network, state.optimiser), keys)
    logits = jax.vmap(lambda each: each.query.logits(features_of(each, questions)))(network)
    score = jax.vmap(_loss_and_accuracy, in_axes=(0, None))
    train_loss, train_accuracy = score(logits, train)
    test_loss, test_accuracy = score(logits, test)
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
