"""Recipes: the steps of each are those that it documents, and `fast` is unchanged."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from equivocal.network import TrainingSettings, train
from equivocal.network.questions import (
    Batch,
    BatchPlan,
    add_answers,
    collect_questions,
    compute_batch_loss,
)
from equivocal.network.runs import split_corpus
from equivocal.network.sentence_gestalt import SentenceGestalt, create_network
from equivocal.network.storage import name_arrays
from equivocal.network.training import build_optimiser
from equivocal.world import Corpus, World
from equivocal.world.grammar import NO_FILLER
from equivocal.world.queries import list_constituents

TINY = {"networks": 1, "sentences": 30, "hidden": 6, "gestalt": 5, "patience": 0}
PAPER = TrainingSettings(recipe="paper", batch=8, epochs=2, weight_decay=0.01, **TINY)
Weights = dict[str, NDArray[np.float64]]


def start_network(world: World, settings: TrainingSettings) -> SentenceGestalt:
    """The initial weights of network 0."""
    key = jax.random.fold_in(jax.random.split(jax.random.key(settings.seed))[0], 0)
    names = ("hidden", "gestalt", "initial_weights", "initial_range")
    chosen = {name: getattr(settings, name) for name in names}
    sizes = {"num_tokens": len(world.tokens), "num_units": len(world.units)}
    return create_network(key, **sizes, **chosen)


def list_sentences(corpus: Corpus) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Return for each row: tokens heard, patterns of the probes, patterns of the answers."""
    world, rows = corpus.world, corpus.derivations
    tokens = list_constituents(rows, world.grammar)
    sentences = []
    for row, fillers in enumerate(rows.fillers):
        probes, answers = [], []
        for role in np.flatnonzero(fillers != NO_FILLER):
            role_units = np.eye(len(world.units))[role]
            added = world.grammar.constructions[rows.construction[row]].adds[role]
            meaning = world.lexicon.features[fillers[role]] | world.grammar.added_features[added]
            probes += [role_units, meaning.astype(float)]
            answers += [np.maximum(role_units, meaning)] * 2
        heard = tokens[row][tokens[row, :, 0] != NO_FILLER]
        sentences.append((heard, np.array(probes), np.array(answers)))
    return sentences


def answer_literally(
    w: dict[str, Any], heard: Any, probes: Any, *, through_time: bool = True
) -> list[Any]:
    """Logits of every answer after each constituent, by the equations in `network`."""
    before, every = jnp.zeros(w["update.gestalt_bias"].shape), []
    for pair in heard:
        x = sum(jnp.eye(len(w["update.token_weight"]))[token] for token in pair if token >= 0)
        before = before if through_time else jax.lax.stop_gradient(before)
        h = jax.nn.sigmoid(
            x @ w["update.token_weight"]
            + before @ w["update.recurrent_weight"]
            + w["update.hidden_bias"]
        )
        before = jax.nn.sigmoid(h @ w["update.gestalt_weight"] + w["update.gestalt_bias"])
        psi = jax.nn.sigmoid(
            before @ w["query.gestalt_weight"]
            + probes @ w["query.probe_weight"]
            + w["query.hidden_bias"]
        )
        every.append(psi @ w["query.output_weight"] + w["query.output_bias"])
    return every


def mean_cross_entropy(w: dict[str, Any], sentences: list[Any]) -> Any:
    """Binary cross-entropy averaged over every element of every answer."""
    elements = []
    for heard, probes, answers in sentences:
        for z in answer_literally(w, heard, probes):
            y = jax.nn.sigmoid(z)
            elements.append(-(answers * jnp.log(y) + (1 - answers) * jnp.log(1 - y)).ravel())
    return jnp.concatenate(elements).mean()


def test_paper_recipe_is_adam_on_mean_cross_entropy_with_coupled_decay(garden: World) -> None:
    """Two passes of a plain loop, Adam by hand in float64; the last batch of a pass is smaller."""
    kept, _ = split_corpus(garden, PAPER)
    sentences = list_sentences(kept)
    order = np.repeat(np.arange(len(kept)), kept.weight.astype(int))
    start = name_arrays(start_network(garden, PAPER))
    w: Weights = {name: np.asarray(array, float) for name, array in start.items()}
    m = {name: np.zeros_like(array) for name, array in w.items()}
    v = {name: np.zeros_like(array) for name, array in w.items()}
    gradient, n = jax.grad(mean_cross_entropy), 0
    for epoch in (1, 2):
        shuffled = order[np.random.default_rng([0, 2, epoch]).permutation(len(order))]
        for first in range(0, len(order), 8):
            n += 1
            batch = [sentences[row] for row in shuffled[first : first + 8]]
            for name, g in gradient({k: jnp.asarray(x) for k, x in w.items()}, batch).items():
                total = np.asarray(g, float) + 0.01 * w[name]
                m[name] = 0.9 * m[name] + 0.1 * total
                v[name] = 0.999 * v[name] + 0.001 * total**2
                step = m[name] / (1 - 0.9**n) / (np.sqrt(v[name] / (1 - 0.999**n)) + 1e-8)
                w[name] = w[name] - 4e-3 * step
    assert len(order) % 8  # or no smaller batch was seen
    (trained,) = train(garden, PAPER).models
    for name, array in name_arrays(trained).items():
        np.testing.assert_allclose(array, w[name], atol=1e-5, err_msg=name)


def make_batch(world: World, settings: TrainingSettings) -> tuple[Batch, Corpus]:
    """The first batch of a pass."""
    kept, _ = split_corpus(world, settings)
    (chunk,) = BatchPlan(kept, settings.batch).shuffle(np.random.default_rng(0))
    return jax.tree.map(lambda array: array[0], chunk), kept


def test_sg2018_sends_no_error_back_through_time(garden: World) -> None:
    settings = TrainingSettings(**TINY | {"recipe": "sg2018", "batch": 1, "held_out": 0.5})
    network = start_network(garden, replace(settings, initial_range=2.0))  # or nothing flows
    batch, kept = make_batch(garden, settings)
    probes = collect_questions(kept).probes
    compute = jax.grad(partial(compute_batch_loss, kept=None), argnums=0)
    answers = add_answers(batch, probes)
    got = name_arrays(compute(network, batch, probes, answers, settings=settings))
    tokens = np.asarray(batch.tokens)[0]
    (row, *_) = np.flatnonzero(
        (list_constituents(kept.derivations, garden.grammar) == tokens).all(axis=(1, 2))
    )
    heard, asked, said = list_sentences(kept)[row]

    def compute_literally(w: dict[str, Any]) -> Any:
        logits = answer_literally(w, heard, asked, through_time=False)
        return sum((jax.nn.softplus(z) - said * z).sum() for z in logits)

    expected = jax.grad(compute_literally)(name_arrays(network))
    for name, gradient in expected.items():
        np.testing.assert_allclose(got[name], gradient, rtol=1e-4, atol=1e-5, err_msg=name)
    full = compute(network, batch, probes, answers, settings=replace(settings, through_time=True))
    assert not np.allclose(full.update.token_weight, got["update.token_weight"], rtol=1e-2)


@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_optimisers_by_hand(optimiser: str, decay: str) -> None:
    """Two steps on one weight."""
    settings = TrainingSettings(
        optimiser=optimiser, decay=decay, decay_from=1.0, second_moment=0.99, momentum=0.8
    )
    built = build_optimiser(settings, 2, 0.5)
    w, m, v, state = 2.0, 0.0, 0.0, built.init(jnp.asarray(2.0))
    got = jnp.asarray(w)
    for n, gradient in enumerate((0.3, -0.7), start=1):
        change, state = built.update(jnp.asarray(gradient), state, got)
        got = got + change
        g = gradient + 0.5 * w * (decay == "coupled")
        if optimiser == "adam":
            m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g**2
            step = m / (1 - 0.8**n) / (np.sqrt(v / (1 - 0.99**n)) + 1e-8)
        else:
            m = step = 0.8 * m + g
        w -= 4e-3 * (step + 0.5 * w * (decay == "decoupled"))
    assert float(got) == pytest.approx(w, abs=1e-6)


def test_fast_recipe_is_unchanged() -> None:
    """The final losses of version 0.1.0, up to round-off that depends on the compiler's flags."""
    run = train("paper", networks=2, epochs=3, sentences=500, hidden=20, gestalt=20)
    losses = run.curves.groupby("network")["test_loss"].min()
    np.testing.assert_allclose(losses, [16.039329528808594, 16.362255096435547], rtol=1e-6)
