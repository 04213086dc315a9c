"""Training: networks learn, runs repeat bit for bit, early stopping, sampling of questions."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equivocal.network import Run, train
from equivocal.network.questions import (
    collect_answers,
    collect_questions,
    compute_cross_entropy,
    compute_features,
    draw_rows,
)
from equivocal.network.sentence_gestalt import SentenceGestalt, create_network
from equivocal.network.training import TrainingState, disturb_words, keep_best
from equivocal.world import World
from lastlayer.errors import UserError
from tests.conftest import SMALL


def held_out_loss(run: Run, index: int) -> float:
    questions, answers = collect_questions(run.held_out), collect_answers(run.held_out)
    model = run.models[index]
    logits = model.query.logits(compute_features(model, questions))
    return float(answers.weight @ compute_cross_entropy(logits, answers.target))


def entropy_floor(run: Run) -> float:
    """Cross-entropy of the exact beliefs with themselves: no network can do better on average."""
    queries = run.world.all_derivations.queries
    truth = np.clip(queries.targets(), 1e-12, 1 - 1e-12)
    entropy = -(truth * np.log(truth) + (1 - truth) * np.log(1 - truth)).sum(axis=1)
    return float(queries.weight @ entropy / queries.weight.sum())


def test_networks_learn_the_world(small_run: Run) -> None:
    first = small_run.curves.query("epoch == 1")["test_loss"].mean()
    last = small_run.curves.groupby("network")["test_loss"].min().mean()
    floor = entropy_floor(small_run)
    assert first > 4 * floor
    # seen: 0.1 above the floor; a network deaf to the sentence, which gives the mean answer to each
    # probe, has 1.8 more than the floor
    assert last < floor + 0.5


def test_same_seed_same_weights_bit_for_bit(garden: World, small_run: Run) -> None:
    again = train(garden, SMALL)
    for one, other in zip(small_run.models, again.models, strict=True):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_array_equal(a, b)


def test_returned_weights_are_those_of_the_best_epoch(small_run: Run) -> None:
    for index in range(2):
        best = small_run.curves.query(f"network == {index}")["test_loss"].min()
        assert held_out_loss(small_run, index) == pytest.approx(best, rel=1e-5)


def test_early_stopping_keeps_each_networks_own_best() -> None:
    """Losses by epoch; patience 2. The first network stops after epoch 3 and must not restart."""
    losses = np.array([[3.0, 3.0], [4.0, 2.0], [5.0, 1.5], [1.0, 2.5], [1.0, 1.0]], np.float32)
    one = create_network(jax.random.key(0), num_tokens=1, num_units=1, hidden=1, gestalt=1)

    def after(epoch: int) -> SentenceGestalt:  # both networks, every weight the epoch's number
        return jax.tree.map(lambda leaf: jnp.full((2, *leaf.shape), float(epoch)), one)

    decay, worst, waited = jnp.zeros(2), jnp.full(2, jnp.inf), jnp.zeros(2, dtype=jnp.int32)
    state = TrainingState(after(0), decay, None, after(0), worst, waited)
    kept = []
    for epoch, loss in enumerate(losses, start=1):
        state = state._replace(network=after(epoch))
        state = keep_best(state, jnp.asarray(loss), patience=2)
        kept.append(np.asarray(state.best.update.hidden_bias)[:, 0].tolist())
    assert kept == [[1, 1], [1, 2], [1, 3], [1, 3], [1, 5]]
    assert (np.asarray(state.waited) >= 2).tolist() == [True, False]


def test_diverged_training_is_an_error_not_a_result(garden: World) -> None:
    with pytest.raises(UserError, match="training diverged.* try a learning_rate below 1e\\+30"):
        train(garden, replace(SMALL, learning_rate=1e30, patience=2))


def test_systematic_sampling_is_unbiased() -> None:
    """Mean count over 4,000 offsets within 5 standard errors of n·w; a shift of half a step fails.

    A row's count is one of two neighbours, so its variance is at most 1/4: 5·0.5/√4000 = 0.04.
    """
    weight = np.random.default_rng(0).dirichlet(np.ones(7)).astype(np.float32)
    cumulative = jnp.cumsum(jnp.asarray(weight))
    rows = jax.vmap(lambda key: draw_rows(key, cumulative, 4))(
        jax.random.split(jax.random.key(1), 4000)
    )
    mean = np.bincount(np.asarray(rows).ravel(), minlength=7) / 4000
    np.testing.assert_allclose(mean, 4 * weight, atol=0.04)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"networks": 0}, "networks must be from 1 to 10,000, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be from 0 .*excluded, got 0.0"),
        ({"seed": 2**32}, "seed must be a whole number between 0 and"),
        ({"decay": "l2"}, "decay must be one of decoupled, coupled, got 'l2'"),
        ({"through_time": 1}, "through_time must be true or false, got 1"),
        ({"loss": "total"}, "need batches of sentences; set batch"),
    ],
)
def test_bad_settings_are_named(garden: World, change: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        train(garden, **change)


def test_words_are_dropped_and_exchanged_at_half_the_rate_each() -> None:
    tokens = np.stack([np.arange(40_000), np.full(40_000, -1)], axis=1).reshape(100, 400, 2)
    tokens[:, 300:] = -1  # silence after the last word stays silent
    changed = np.asarray(disturb_words(jax.random.key(0), 0.2, jnp.asarray(tokens)))
    assert (changed[:, 300:] == -1).all()
    word, heard = tokens[:, :300, 0], changed[:, :300, 0]
    # a quarter of the exchanges draw silence, which is as good as a dropped word
    assert (heard == -1).mean() == pytest.approx(0.1 + 0.1 / 4, abs=0.01)
    assert ((heard != word) & (heard >= 0)).mean() == pytest.approx(0.1 * 3 / 4, abs=0.01)
    assert (disturb_words(jax.random.key(0), 0.0, jnp.asarray(tokens)) == tokens).all()


@pytest.mark.parametrize("batch", [0, 32])
def test_smoothed_answers_make_beliefs_less_extreme(garden: World, batch: int) -> None:
    how = {"networks": 1, "epochs": 8, "batch": batch}
    settings = SMALL.change(how)
    beliefs = []
    for smoothing in (0.0, 0.2):
        run = train(garden, settings, smoothing=smoothing)
        beliefs.append(run.networks[0].comprehend("dog chases cat").to_numpy())
    sharp, smooth = (np.minimum(p, 1 - p).mean() for p in beliefs)
    assert sharp + 0.03 < smooth < 0.2
