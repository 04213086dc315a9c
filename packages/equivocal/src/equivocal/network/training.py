"""Training: all networks of a study side by side, on the same corpus, from different seeds.

The loss is cross-entropy of the answer to every probe after every constituent,

    L(w) = Σ_q n_q Σ_k [log(1 + exp z_qk) − t_qk z_qk] / Σ_q n_q,

over the distinct questions q (a prefix and a probe), with n_q the number of times q is asked in
the corpus and t_q its mean answer; learning curves always show this L. `settings.loss` selects the
loss that the steps minimise: "sum" is L, summed over output units; "mean" is L over the number of
units, as the common frameworks average; "total" is summed over units and questions and averaged
over sentences only.

With `settings.batch`, an epoch is a shuffled pass over the corpus and a step sees every question
about so many sentences (`BatchPlan`). With `batch = 0`, a step takes `questions` of the distinct q
by systematic sampling, each with probability proportional to n_q and equal weight, which is an
unbiased estimate of the same gradient; questions are sorted by prefix, so a step sees all kinds of
prefixes. An epoch is then a fixed number of steps. After an epoch both parts of the corpus are
scored.

The optimiser is Adam or gradient descent, with weight decay λ of weights and biases in one of two
places; η is the learning rate:

    g ← ∇L(w) + λw                 coupled: decay is part of the gradient, as in `torch.optim.Adam`
    u = m̂ / (√v̂ + ε)  or  u = m    Adam, or momentum
    w ← w − η (u + λw)             decoupled: decay is apart, as in AdamW (Loshchilov & Hutter 2019)

The networks differ only in their initial weights; they share corpus, held-out part and order of
sentences, so one batched product computes them all.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from equivocal.network.questions import (
    Answers,
    Batch,
    BatchPlan,
    Questions,
    add_answers,
    collect_answers,
    collect_questions,
    compute_batch_loss,
    compute_features,
    draw_rows,
    estimate_loss,
    score_answers,
)
from equivocal.network.sentence_gestalt import SentenceGestalt, create_network
from equivocal.network.settings import TrainingSettings
from equivocal.world import Corpus
from lastlayer.errors import UserError
from lastlayer.machine import count_cores

__all__ = ["EpochReport", "OnEpoch"]


class EpochReport(NamedTuple):
    """Losses and accuracies after an epoch, one entry per network."""

    epoch: int  # from 1
    train_loss: Float[np.ndarray, " networks"]
    test_loss: Float[np.ndarray, " networks"]
    train_accuracy: Float[np.ndarray, " networks"]  # share of output units on the right side of ½
    test_accuracy: Float[np.ndarray, " networks"]


Loss = Callable[[SentenceGestalt], Float[Array, ""]]
OnEpoch = Callable[[EpochReport, int], None]  # called with the report and the largest epoch number


class TrainingState(NamedTuple):
    """All that the next epoch reads; every leaf has a leading axis over networks."""

    network: SentenceGestalt
    weight_decay: Float[Array, " networks"]
    optimiser: optax.OptState
    best: SentenceGestalt
    best_loss: Float[Array, " networks"]
    waited: Int[Array, " networks"]  # epochs since best_loss


def _draw_dropout(
    key: Key[Array, ""], dropout: float, shape: tuple[int, int]
) -> Float[Array, "batch hidden"] | None:
    """Draw the factors by which dropout scales ψ, of mean 1; None where there is no dropout."""
    if not dropout:
        return None
    return jax.random.bernoulli(jax.random.fold_in(key, 1), 1 - dropout, shape) / (1 - dropout)


def disturb_words(
    key: Key[Array, ""], rate: float, tokens: Int[Array, "*words 2"]
) -> Int[Array, "*words 2"]:
    """Drop half of a share of the words, and exchange the others for words heard elsewhere."""
    if not rate:
        return tokens
    chance_key, other_key = jax.random.split(key)
    chance = jax.random.uniform(chance_key, (*tokens.shape[:-1], 1))
    other = jax.random.permutation(other_key, tokens.reshape(-1, 2)).reshape(tokens.shape)
    changed = jnp.where(chance < rate / 2, -1, jnp.where(chance < rate, other, tokens))
    return jnp.where((tokens >= 0).any(axis=-1, keepdims=True), changed, tokens)


def _smooth(
    answers: Float[Array, "rows units"], share: float, times: Float[Array, "rows 1"] | float = 1.0
) -> Float[Array, "rows units"]:
    """Move answers that count `times` a share of the way to ½."""
    return answers if not share else (1 - share) * answers + share / 2 * times


@partial(jax.jit, static_argnames=("settings", "num_tokens", "num_units"))
def _start_group(
    indices: Int[Array, " networks"],
    weight_decay: Float[Array, " networks"],
    settings: TrainingSettings,
    num_tokens: int,
    num_units: int,
    key: Key[Array, ""],
) -> TrainingState:
    """Initialise networks with these indices, stacked along a leading axis."""
    # by index, so that network 3 starts the same whether 4 or 40 are trained
    keys = jax.vmap(partial(jax.random.fold_in, key))(indices)
    new = partial(
        create_network,
        num_tokens=num_tokens,
        num_units=num_units,
        hidden=settings.hidden,
        gestalt=settings.gestalt,
        initial_weights=settings.initial_weights,
        initial_range=settings.initial_range,
    )
    network = jax.vmap(new)(keys)
    return TrainingState(
        network=network,
        weight_decay=weight_decay,
        optimiser=jax.vmap(build_optimiser(settings, 1, 0.0).init)(network),
        best=network,
        best_loss=jnp.full(len(indices), jnp.inf, dtype=jnp.float32),
        waited=jnp.zeros(len(indices), dtype=jnp.int32),
    )


class _Steps:
    """The inputs of an epoch's steps: keys to draw questions with, or batches of sentences."""

    def __init__(self, kept: Corpus, settings: TrainingSettings, key: Key[Array, ""]) -> None:
        self.settings, self.key = settings, key
        self.plan = BatchPlan(kept, settings.batch) if settings.batch else None
        self.number = self.plan.num_steps if self.plan else settings.steps  # in an epoch

    def list_chunks(self, epoch: int) -> Iterator[tuple[Key[Array, " steps"], Batch | None]]:
        """Yield the steps of an epoch, one key each, in chunks."""
        key = jax.random.fold_in(self.key, epoch)
        if self.plan is None:
            yield jax.random.split(key, self.number), None
            return
        rng = np.random.default_rng([self.settings.seed, 2, epoch])
        for number, batches in enumerate(self.plan.shuffle(rng)):
            yield jax.random.split(jax.random.fold_in(key, number), len(batches.sentences)), batches


def fit(
    kept: Corpus,
    held_out: Corpus,
    settings: TrainingSettings,
    *,
    on_epoch: OnEpoch | None = None,
) -> tuple[SentenceGestalt, list[EpochReport]]:
    """Train `settings.networks` networks and return them stacked, each at its best epoch.

    Both parts of the corpus have the same questions, with weight zero where one part lacks a
    question. A network whose held-out loss has not improved for `patience` epochs stops and keeps
    its best weights while the others train on; with patience 0 every network keeps its last
    weights. Networks are scored without dropout, smoothing and noise.
    """
    start, order = jax.random.split(jax.random.key(settings.seed))
    questions, train = collect_questions(kept), collect_answers(kept)
    data = (questions, train, collect_answers(held_out))
    steps = _Steps(kept, settings, order)
    # settings that the compiled program does not depend on are set alike, so that runs share it
    program = replace(settings, seed=0, networks=1, weight_decay=0.0)
    sizes = len(kept.world.tokens), train.target.shape[1]
    decays = jnp.full(settings.networks, settings.weight_decay, jnp.float32)
    many = _count_groups(settings.networks)
    parts = (jnp.array_split(each, many) for each in (jnp.arange(settings.networks), decays))
    groups = [_start_group(*part, program, *sizes, start) for part in zip(*parts, strict=True)]
    groups, reports = _run_epochs(groups, steps, data, program, on_epoch)
    if not all(jnp.isfinite(group.best_loss).all() for group in groups):
        raise UserError(
            f"training diverged: the held-out loss of a network was never finite; "
            f"try a learning_rate below {settings.learning_rate}."
        )
    best = jax.tree.map(lambda *parts: jnp.concatenate(parts), *(group.best for group in groups))
    return best, reports


def _run_epochs(
    groups: list[TrainingState],
    steps: _Steps,
    data: tuple[Questions, Answers, Answers],
    program: TrainingSettings,
    on_epoch: OnEpoch | None,
) -> tuple[list[TrainingState], list[EpochReport]]:
    """Train groups of networks side by side, until all have stopped or there are no more epochs."""
    settings = steps.settings

    def advance(
        group: TrainingState, keys: Key[Array, " steps"], batches: Batch | None
    ) -> TrainingState:
        moved: TrainingState = take_steps(
            keys, batches, group, data[:2], program, settings.epochs * steps.number
        )
        moved.network.query.output_bias.block_until_ready()  # so that threads share cores
        return moved

    reports: list[EpochReport] = []
    finish = partial(_finish_epoch, data=data, patience=settings.patience)
    with ThreadPoolExecutor(len(groups)) as pool:
        for epoch in range(1, settings.epochs + 1):
            for keys, batches in steps.list_chunks(epoch):
                groups = list(pool.map(partial(advance, keys=keys, batches=batches), groups))
            finished = list(pool.map(finish, groups))
            groups = [group for group, _ in finished]
            scores = [each for _, each in finished]
            reports.append(EpochReport(epoch, *map(np.concatenate, zip(*scores, strict=True))))
            if on_epoch is not None:
                on_epoch(reports[-1], settings.epochs)
            if settings.patience and all((g.waited >= settings.patience).all() for g in groups):
                break
    return groups, reports


def _count_groups(networks: int) -> int:
    """Count the groups of networks: one per core on a CPU, as products this small fill a core."""
    return min(networks, count_cores()) if jax.default_backend() == "cpu" else 1


# The corpus is an argument, not a constant: XLA would spend seconds folding it into the program.
@partial(jax.jit, static_argnames=("settings", "num_steps"))
def take_steps(
    keys: Key[Array, " steps"],
    batches: Batch | None,
    state: TrainingState,
    data: tuple[Questions, Answers],
    settings: TrainingSettings,
    num_steps: int,
) -> TrainingState:
    """Take some of the `num_steps` steps of a training with every network."""
    questions, train = data
    cumulative = jnp.cumsum(train.weight)

    def disturb(key: Key[Array, ""], tokens: Int[Array, "*words 2"]) -> Int[Array, "*words 2"]:
        return disturb_words(key, settings.word_noise, tokens)

    def prepare_loss(key: Key[Array, ""], batch: Batch | None) -> Loss:
        """Return the loss that a step minimises, as a function of one network."""
        if batch is None:
            rows = draw_rows(key, cumulative, settings.questions)
            kept = _draw_dropout(key, settings.dropout, (len(rows), settings.hidden))
            levels = [
                level._replace(tokens=disturb(jax.random.fold_in(key, 2 + depth), level.tokens))
                for depth, level in enumerate(questions.levels)
            ]
            asked = questions._replace(
                levels=tuple(levels),
                node=questions.node[rows],
                probe=questions.probe[rows],
            )
            target = _smooth(train.target[rows], settings.smoothing)
            return lambda network: estimate_loss(network, asked, target, kept, settings)
        batch = batch._replace(tokens=disturb(jax.random.fold_in(key, 2), batch.tokens))
        answers = add_answers(batch, questions.probes)
        answers = _smooth(answers, settings.smoothing, batch.times[:, None])
        kept = _draw_dropout(key, settings.dropout, (len(answers), settings.hidden))
        return lambda network: compute_batch_loss(
            network, batch, questions.probes, answers, kept, settings
        )

    def change(
        weight_decay: Float[Array, ""], *arguments: SentenceGestalt | optax.OptState
    ) -> tuple[SentenceGestalt, optax.OptState]:
        optimiser = build_optimiser(settings, num_steps, weight_decay)
        changes: tuple[SentenceGestalt, optax.OptState] = optimiser.update(*arguments)
        return changes

    def step(
        carry: tuple[SentenceGestalt, optax.OptState], seen: tuple[Key[Array, ""], Batch | None]
    ) -> tuple[tuple[SentenceGestalt, optax.OptState], None]:
        network, memory = carry
        gradient = jax.vmap(jax.grad(prepare_loss(*seen)))(network)

        changes, memory = jax.vmap(change)(state.weight_decay, gradient, memory, network)
        return (optax.apply_updates(network, changes), memory), None

    start = state.network, state.optimiser
    (network, memory), _ = jax.lax.scan(step, start, (keys, batches))
    return state._replace(network=network, optimiser=memory)


@partial(jax.jit, static_argnames="patience")
def _finish_epoch(
    state: TrainingState, data: tuple[Questions, Answers, Answers], patience: int
) -> tuple[TrainingState, tuple[Array, ...]]:
    """Score every network on both parts of the corpus, and keep the weights of its best epoch."""
    questions, train, test = data
    logits = jax.vmap(lambda each: each.query.logits(compute_features(each, questions)))(
        state.network
    )
    score = jax.vmap(score_answers, in_axes=(0, None))
    train_loss, train_accuracy = score(logits, train)
    test_loss, test_accuracy = score(logits, test)
    scores = (train_loss, test_loss, train_accuracy, test_accuracy)
    return keep_best(state, test_loss, patience), scores


def keep_best(
    state: TrainingState, test_loss: Float[Array, " networks"], patience: int
) -> TrainingState:
    """Keep the weights of each network's best epoch, until it has stopped.

    With patience 0 the last epoch counts as the best.
    """
    better = (test_loss < state.best_loss) & (state.waited < patience)
    better = better | (patience == 0)

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    return state._replace(
        best=jax.tree.map(choose, state.network, state.best),
        best_loss=jnp.where(better, test_loss, state.best_loss),
        waited=jnp.where(better, 0, state.waited + 1),
    )


def build_optimiser(
    settings: TrainingSettings, num_steps: int, weight_decay: float | Float[Array, ""]
) -> optax.GradientTransformation:
    """Build the optimiser for `num_steps` steps in all.

    The strength of the decay may be traced, so that runs of several strengths share a program.
    """
    decay = optax.add_decayed_weights(weight_decay)
    if settings.optimiser == "adam":
        scale = optax.scale_by_adam(b1=settings.momentum, b2=settings.second_moment)
    else:
        scale = optax.trace(settings.momentum)
    order = [decay, scale] if settings.decay == "coupled" else [scale, decay]
    rate = optax.scale_by_learning_rate(_schedule_rate(settings, num_steps))
    return optax.chain(*order, rate)


def _schedule_rate(settings: TrainingSettings, num_steps: int) -> optax.Schedule:
    """Keep the learning rate constant at first; from `decay_from` on it falls to zero."""
    constant = round(settings.decay_from * num_steps)
    flat = optax.constant_schedule(settings.learning_rate)
    falling = optax.cosine_decay_schedule(settings.learning_rate, max(1, num_steps - constant))
    return optax.join_schedules([flat, falling], [constant])
