"""The network against its equations written out literally, one unit at a time."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from equivocal.network import Network, Run
from equivocal.network.questions import (
    collect_answers,
    collect_questions,
    compute_cross_entropy,
    compute_gestalts,
)
from equivocal.network.sentence_gestalt import create_network
from equivocal.world import World


@pytest.fixture(autouse=True)
def strict_dtypes() -> Iterator[None]:
    """No silent promotion in our own arithmetic (optax is not strict, so training cannot be)."""
    with jax.numpy_dtype_promotion("strict"):
        yield


def sigma(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def literal_answer(network: Network, tokens: list[list[str]], probe: np.ndarray) -> np.ndarray:
    """The docstring of `network.py` with one-hot vectors and full products, in float64."""
    update, query = (
        {name: np.asarray(value, np.float64) for name, value in vars(part).items()}
        for part in (network.model.update, network.model.query)
    )
    gestalt = np.zeros(len(update["gestalt_bias"]))
    for constituent in tokens:
        x = np.isin(network.world.tokens, constituent).astype(float)
        hidden = sigma(
            x @ update["token_weight"]
            + gestalt @ update["recurrent_weight"]
            + update["hidden_bias"]
        )
        gestalt = sigma(hidden @ update["gestalt_weight"] + update["gestalt_bias"])
    psi = sigma(
        gestalt @ query["gestalt_weight"] + probe @ query["probe_weight"] + query["hidden_bias"]
    )
    return sigma(psi @ query["output_weight"] + query["output_bias"])


@pytest.fixture(scope="module")
def network(paper: World) -> Network:
    model = create_network(jax.random.key(4), num_tokens=72, num_units=176, hidden=30, gestalt=25)
    return Network(model, paper)


@pytest.mark.parametrize(
    "text", ["during dinner the pizza eats the woman", "woman", "pizza kitchen eats eats"]
)
def test_comprehend_follows_the_equations(network: Network, text: str) -> None:
    world = network.world
    activation = network.comprehend(text)
    utterance = world.parse(text)
    for last, word in enumerate(utterance.words):
        heard = [list(tokens) for tokens in utterance.tokens[: last + 1]]
        for role in world.roles:
            probe = np.isin(world.units, "role:" + role).astype(float)
            expected = literal_answer(network, heard, probe)
            found = activation.isel(word=last).sel(probe=role)
            assert str(found.coords["word"].values) == word
            # float32: 1e-7 relative per operation, through four layers of at most 200 terms
            np.testing.assert_allclose(found, expected, atol=2e-6)


def test_filler_probe_is_the_filler_pattern(network: Network) -> None:
    world = network.world
    activation = network.comprehend("the woman eats", probes=["agent", "pizza", "iced tea"])
    assert list(activation.coords["probe"].values) == ["agent", "pizza", "iced tea"]
    probe = np.isin(world.units, world.file.words["food"]["pizza"]).astype(float)
    expected = literal_answer(network, [["woman"], ["eat"]], probe)
    np.testing.assert_allclose(activation.isel(word=-1).sel(probe="pizza"), expected, atol=2e-6)


@pytest.mark.parametrize("probe", ["agnt", "woman pizza", "in kitchen", ""])
def test_unknown_probes_are_refused(network: Network, probe: str) -> None:
    with pytest.raises(ValueError, match="unknown role or word"):
        network.comprehend("woman", probes=[probe])


def test_collapsed_loss_is_the_loss_of_all_single_rows(small_run: Run) -> None:
    """Counts and mean answers leave the cross-entropy of the corpus unchanged."""
    world, model = small_run.world, small_run.models[0]
    corpus = world.sample(80, seed=9)
    questions, answers = collect_questions(corpus), collect_answers(corpus)
    network = Network(model, world)
    gestalts = compute_gestalts(model, questions.levels)
    psi = model.query.features(gestalts, questions.probes, questions.node, questions.probe)
    collapsed = float(
        answers.weight @ compute_cross_entropy(model.query.logits(psi), answers.target)
    )

    total, asked = 0.0, 0
    words = world.lexicon.words
    for text, event in zip(corpus.texts, corpus.derivations.fillers, strict=True):
        roles = [(r, words[f]) for r, f in zip(world.roles, event, strict=True) if f >= 0]
        answer = network.comprehend(text, probes=[name for pair in roles for name in pair])
        for index, (role, filler) in enumerate(roles):
            target = world.find_filler_units(filler) | np.isin(world.units, "role:" + role)
            for probe in (2 * index, 2 * index + 1):
                y = answer.isel(probe=probe).to_numpy().astype(np.float64)
                total -= np.log(np.where(target, y, 1 - y)).sum()
                asked += len(y)
    # both sums are of float32 terms; 1e-7 for each of about 30 units and 1e-5 for the logarithms
    assert collapsed == pytest.approx(total / asked, rel=1e-4)
