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
one batched product serves them all. A new number that changes the result is a field of
`TrainingSettings`.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import Field, dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from equivocal.errors import UserError, check_known
from equivocal.gestalt.network import SentenceGestalt, create_network
from equivocal.gestalt.questions import Answers, Questions, compute_features
from equivocal.machine import count_cores
from equivocal.world import MAX_SAMPLE

LARGEST = 1e300  # a whole number may be too large for a float, and even to be printed
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("networks", "hidden", "gestalt"), (1, 10_000)),
    **dict.fromkeys(("epochs", "patience", "steps", "questions"), (1, 1_000_000)),
    **dict.fromkeys(("held_out", "decay_from", "second_moment"), (0, 1)),
    **dict.fromkeys(("learning_rate", "weight_decay"), (0, LARGEST)),
    "sentences": (2, MAX_SAMPLE),
    "seed": (0, 2**32 - 1),
}
OPEN = ("held_out", "second_moment", "learning_rate")  # the limits themselves are out


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Every number that decides what a training run ends with.

    A run can be repeated from this object, the world and the package version. The comments say what
    each number is; a value out of range is a `UserError` that names it.

    From the paper: 10,000 sentences (its §2.3), Adam, learning rate 4e-3, weight decay, 60 epochs,
    early stopping (§2.4), ten networks (§2.5). Left open there and chosen here: all the rest.
    """

    networks: int = 10
    seed: int = 0
    sentences: int = 10_000  # size of the sampled corpus, held-out part included
    held_out: float = 0.1  # share of the sentences kept for early stopping
    epochs: int = 60  # at most
    patience: int = 15  # epochs without a better held-out loss before a network stops
    steps: int = 40  # optimiser steps in an epoch, whatever the size of the corpus
    questions: int = 512  # questions looked at in one step (see above)
    learning_rate: float = 4e-3
    decay_from: float = 0.6  # share of the epochs after which the learning rate falls to zero
    second_moment: float = 0.95  # Adam's β₂; sentences repeat so often that a short memory will do
    weight_decay: float = 1e-4  # decoupled (AdamW), relative to the learning rate
    hidden: int = 100  # units in both hidden layers
    gestalt: int = 100  # units in the gestalt layer

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _check_number(field, getattr(self, field.name)))

    @classmethod
    def parse(cls, pairs: Sequence[str]) -> dict[str, Any]:
        """Read settings written as `name=value`; what is no number is left for others to refuse.

        >>> TrainingSettings.parse(["hidden=50", "weight_decay=1e-3"])
        {'hidden': 50, 'weight_decay': 0.001}
        """
        return {name: _read_number(text) for name, _, text in (p.partition("=") for p in pairs)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainingSettings":
        """Build settings from values by name; for an unknown name the nearest is proposed."""
        known = {field.name: field for field in fields(cls)}
        for name in values:
            check_known(name, known, "setting")
        numbers: dict[str, Any] = {
            name: _check_number(known[name], value) for name, value in values.items()
        }
        return cls(**numbers)


def _read_number(text: str) -> Any:
    """Read a whole number or another; what is neither is returned as it is."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _check_number(field: "Field[Any]", value: Any) -> int | float:
    """Return a number of the field's own type and in its range: `learning_rate = 1` is 1.0."""
    kind: type[int] | type[float] = int if isinstance(field.default, int) else float
    fits = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if not fits:
        what, example = "a whole number" if kind is int else "a number", field.default
        raise UserError(f"{field.name} must be {what} such as {example}, got {value!r:.60}.")
    low, high = LIMITS[field.name]
    if not low <= value <= high or (field.name in OPEN and value in (low, high)):  # or NaN
        rule = f"from {low:,} to {high:,}" + ", these two excluded" * (field.name in OPEN)
        given = value if abs(value) < LARGEST else "one that is not"
        raise UserError(f"{field.name} must be {rule}, got {given}.")
    return kind(value)


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


def _score(
    logits: Float[Array, "pairs units"], answers: Answers
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return L(w), and the share of units on the right side of ½, over all questions.

    With a mean answer t, an output above ½ is right in a share t of the cases, one below in 1−t.
    """
    loss = _compute_cross_entropy(logits, answers.target)
    right = jnp.where(logits > 0, answers.target, 1 - answers.target).mean(axis=1)
    return answers.weight @ loss, answers.weight @ right


def _compute_cross_entropy(
    logits: Float[Array, "rows units"], target: Float[Array, "rows units"]
) -> Float[Array, " rows"]:
    """Return the cross-entropy of each row, summed over units."""
    return (jax.nn.softplus(logits) - target * logits).sum(axis=1)


def _estimate_loss(
    network: SentenceGestalt,
    batch: Questions,
    target: Float[Array, "batch units"],
    kept: Float[Array, "batch hidden"] | None,
) -> Float[Array, ""]:
    """Estimate L(w) from questions drawn in proportion to their weight.

    `kept` scales ψ: 0 where a unit is dropped, 1/(1−ρ) elsewhere.
    """
    psi = compute_features(network, batch)
    return _compute_cross_entropy(
        network.query.logits(psi if kept is None else psi * kept), target
    ).mean()


def _draw(
    key: Key[Array, ""], cumulative: Float[Array, " pairs"], size: int
) -> Int[Array, " batch"]:
    """Draw rows by systematic sampling: `size` evenly spaced points with one random offset."""
    points = (jnp.arange(size, dtype=jnp.float32) + jax.random.uniform(key)) / size
    return jnp.searchsorted(cumulative, points * cumulative[-1])


def _draw_dropout(
    key: Key[Array, ""], dropout: float, settings: TrainingSettings
) -> Float[Array, "batch hidden"] | None:
    """Draw what dropout leaves of ψ, scaled so that its mean is ψ; None stands for all of it."""
    if not dropout:
        return None
    shape = (settings.questions, settings.hidden)
    return jax.random.bernoulli(jax.random.fold_in(key, 1), 1 - dropout, shape) / (1 - dropout)


def _build_optimiser(settings: TrainingSettings) -> optax.GradientTransformation:
    """Build AdamW with a learning rate that is constant at first and then falls to zero."""
    steps = settings.epochs * settings.steps
    constant = round(settings.decay_from * steps)
    flat = optax.constant_schedule(settings.learning_rate)
    falling = optax.cosine_decay_schedule(settings.learning_rate, max(1, steps - constant))
    rate = optax.join_schedules([flat, falling], [constant])
    return optax.adamw(rate, b2=settings.second_moment, weight_decay=settings.weight_decay)


@partial(jax.jit, static_argnames=("settings", "num_tokens", "num_units"))
def _start(
    indices: Int[Array, " networks"],
    settings: TrainingSettings,
    num_tokens: int,
    num_units: int,
    key: Key[Array, ""],
) -> _State:
    """Initialise networks with these indices, stacked along a leading axis."""
    # by index, so that network 3 starts the same whether 4 or 40 are trained
    keys = jax.vmap(partial(jax.random.fold_in, key))(indices)
    new = partial(
        create_network,
        num_tokens=num_tokens,
        num_units=num_units,
        hidden=settings.hidden,
        gestalt=settings.gestalt,
    )
    network = jax.vmap(new)(keys)
    return _State(
        network=network,
        optimiser=jax.vmap(_build_optimiser(settings).init)(network),
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
    """Train `settings.networks` networks and return them stacked, each at its best epoch.

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
        for indices in np.array_split(
            np.arange(settings.networks), _count_groups(settings.networks)
        )
    ]

    def run(group: _State, key: Key[Array, ""]) -> tuple[_State, list[np.ndarray]]:
        group, scores = _run_epoch(key, group, data, settings=program, dropout=dropout)
        return group, [np.asarray(score) for score in scores]  # waits, so that threads share cores

    reports: list[EpochReport] = []
    with ThreadPoolExecutor(len(groups)) as pool:
        for epoch in range(1, settings.epochs + 1):
            key = jax.random.fold_in(order, epoch)
            groups, scores = zip(*pool.map(partial(run, key=key), groups), strict=True)
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


def _count_groups(networks: int) -> int:
    """Count the groups of networks: one per core on a CPU, as such small products fill one."""
    return min(networks, count_cores()) if jax.default_backend() == "cpu" else 1


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
    """Take the steps of one epoch with every network, then score them on both parts."""
    questions, train, test = data
    optimiser = _build_optimiser(settings)
    cumulative = jnp.cumsum(train.weight)

    def step(
        carry: tuple[SentenceGestalt, optax.OptState], key: Key[Array, ""]
    ) -> tuple[tuple[SentenceGestalt, optax.OptState], None]:
        network, memory = carry
        rows = _draw(key, cumulative, settings.questions)
        batch = questions._replace(node=questions.node[rows], probe=questions.probe[rows])
        gradient = jax.vmap(jax.grad(_estimate_loss), in_axes=(0, None, None, None))(
            network, batch, train.target[rows], _draw_dropout(key, dropout, settings)
        )
        change, memory = jax.vmap(optimiser.update)(gradient, memory, network)
        return (optax.apply_updates(network, change), memory), None

    keys = jax.random.split(key, settings.steps)
    (network, memory), _ = jax.lax.scan(step, (state.network, state.optimiser), keys)
    logits = jax.vmap(lambda each: each.query.logits(compute_features(each, questions)))(network)
    score = jax.vmap(_score, in_axes=(0, None))
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
