"""Answers against their network, the posterior's own formulas, and the world's truth."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equivocal.asking.ensembles import compute_semantic_update
from equivocal.asking.listeners import Listeners
from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Run
from equivocal.world import UnknownWordError, World
from lastlayer.errors import UserError
from tests.asking.conftest import TINY

SENTENCE = "The cat chases the mouse on the lawn."
REVERSAL = "the mouse chases the cat"


def test_trained_beliefs_agree_with_jax(gardener: Listeners, small_run: Run) -> None:
    """NumPy and JAX compute the same network."""
    answer = gardener.answer(SENTENCE)
    network = small_run.networks[1]
    asked = network.comprehend(SENTENCE, list(answer.roles))
    units = [network.world.units[unit] for unit in gardener.vocabulary.units]
    np.testing.assert_allclose(
        answer.mle[:, answer.candidates],
        asked.sel(unit=units).values[:, answer.candidates],
        atol=1e-6,
    )
    assert np.isnan(answer.mle[:, ~answer.candidates]).all()
    moved = np.abs(np.diff(network.gestalts(SENTENCE).values, axis=0)).sum(axis=1)
    np.testing.assert_allclose(answer.semantic_update[1:], moved, rtol=1e-4)


def test_first_word_is_measured_from_silence() -> None:
    gestalts = np.array([[0.5, 0.25], [0.25, 0.75]], np.float32)
    np.testing.assert_allclose(compute_semantic_update(gestalts), [0.75, 0.75])


def test_truth_agrees_with_the_world(gardener: Listeners, garden: World) -> None:
    answer = gardener.answer(SENTENCE)
    for position, heard in enumerate(["cat", "cat chases", "cat chases mouse", SENTENCE]):
        for r, role in enumerate(answer.roles):
            exact = garden.true_beliefs(heard, role)[list(answer.fillers)]
            np.testing.assert_allclose(answer.truth[position, r], exact, atol=1e-12)
    assert all(answer.is_possible(position) for position in range(4))


def test_impossible_words_have_no_truth(gardener: Listeners) -> None:
    answer = gardener.answer("the mouse chases")
    assert [answer.is_possible(position) for position in range(2)] == [True, False]
    assert answer.belief(1, "agent", "mouse").truth is None


def test_before_the_first_step_the_ensemble_is_the_prior(gardener: Listeners) -> None:
    """Step 0 is N(θ_MLE, v I): a logit has the trained mean and the variance v |ψ|²."""
    (member,) = gardener.members
    gestalts = member.network.compute_gestalts(gardener.world.encode(REVERSAL))
    psi, trained = member.network.compute_features(gestalts), member.network.last_layer
    for variance in (0.01, 1.0, 5.0):
        (layers,) = gardener.load_layers(variance, 0)
        logits = layers.compute_logits(psi, trained)
        for ours in (logits.trained, logits.mean):
            np.testing.assert_allclose(ours, psi @ trained.T, atol=1e-4)
        sizes = np.linalg.norm(psi, axis=-1, keepdims=True)
        wanted = np.broadcast_to(np.sqrt(variance) * sizes, logits.sd.shape)
        np.testing.assert_allclose(logits.sd, wanted, rtol=1e-4)


def test_converged_ensemble_is_the_posterior(gardener: Listeners, small_run: Run) -> None:
    """The NumPy closed forms against those of `Posterior`, which integrate on 24 nodes."""
    network = small_run.networks[1]
    layer = collect_last_layer(small_run, network, "every word")
    layer = layer.select(gardener.vocabulary.shown.tolist())
    sampler = SamplerSettings(method="exact-flow", num_particles=2, tolerance=TINY.tolerance)
    posterior = infer_posterior(layer, sampler, 1.0, 0)
    rows = network.probe_features(REVERSAL, list(small_run.world.roles)).values
    words, roles, size = rows.shape
    psi = rows.reshape(-1, size)
    places = gardener.vocabulary.places

    def arrange(values: np.ndarray) -> np.ndarray:
        return values[:, places].reshape(words, roles, -1)[:, answer.candidates]

    answer = gardener.answer(REVERSAL, step="converged")
    total, _, information = posterior.entropies(psi)
    low, high = posterior.predict_interval(psi)
    for ours, exact in (
        (answer.bayes, posterior.predict_proba(psi)),
        (answer.low, low),
        (answer.high, high),
    ):
        np.testing.assert_allclose(ours[:, answer.candidates], arrange(exact), atol=2e-5)
    for ours, exact in ((answer.entropy, total), (answer.epistemic, information)):
        summed = np.where(answer.candidates, exact[:, places].reshape(words, roles, -1), 0)
        np.testing.assert_allclose(ours, summed.sum(axis=-1), atol=2e-4)


def test_heard_participants_are_always_listed(gardener: Listeners) -> None:
    answer = gardener.answer(REVERSAL)
    for role in ("agent", "patient"):
        listed = [belief.filler for belief in answer.beliefs(2, role, top=1)]
        assert {"mouse", "cat"} <= set(listed)
    assert len(answer.beliefs(2, "place", top=1)) == 1
    assert answer.indicated == {"agent": "mouse", "action": "chase", "patient": "cat"}


def test_prior_and_step_are_chosen(gardener: Listeners) -> None:
    narrow = gardener.answer(REVERSAL, prior_variance=0.01, step=0)
    wide = gardener.answer(REVERSAL, prior_variance=5.0, step=0)
    assert np.nanmean(wide.high - wide.low) > 2 * np.nanmean(narrow.high - narrow.low)
    assert wide.time == 0
    assert gardener.answer(REVERSAL, step="converged").time is None
    assert gardener.answer(REVERSAL).step == "converged"
    assert gardener.answer(REVERSAL, step=17).time > 0
    with pytest.raises(UserError, match=r"prior variance 2\.0; choose from 0\.01, 1, 5"):
        gardener.answer(REVERSAL, prior_variance=2.0)
    with pytest.raises(UserError, match=r"step 3 is not available; choose from 0, 1, 4, 17"):
        gardener.answer(REVERSAL, step=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("!?", "is empty"),
        ("the mouse\x07 chases", r"control character, '.x07'; leave it out"),
        ("the \u202emouse", r"control character, '.u202e'"),
        ("mouse " * 31, "31 words, at most 30"),
        ("mouse " * 500, "characters, at most"),
        ("猫が", "unknown word '猫が'"),
        ("the mose chases", "did you mean 'mouse'"),
    ],
)
def test_bad_sentences_get_one_clear_sentence(gardener: Listeners, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        gardener.answer(text)


def test_unknown_words_have_an_error_of_their_own(gardener: Listeners) -> None:
    with pytest.raises(UnknownWordError):
        gardener.answer("the zebra")


def test_answering_needs_no_jax(gardener: Listeners, cache: Path) -> None:
    """Start-up: a fresh process that answers from the cache never imports JAX, nor pandas."""
    gardener.answer("the cat")  # everything is there
    run = str(gardener.source.run)
    code = (
        "import sys; from equivocal.asking.listeners import *; "
        "from equivocal.asking.source import *; "
        f"source = Source.choose(run={run!r}, network=1, settings={TINY!r}); "
        "print(Listeners(source).answer('the cat').summary); "
        "sys.exit('jax' in sys.modules or 'pandas' in sys.modules)"
    )
    environment = os.environ | {"EQUIVOCAL_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Reads: ")
