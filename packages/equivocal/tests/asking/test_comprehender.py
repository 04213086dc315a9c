"""Answers against their network, the posterior's own formulas, and the world's truth."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equivocal.asking.comprehender import Comprehender, Latest
from equivocal.asking.ensembles import compute_semantic_update
from equivocal.asking.source import Source
from equivocal.beliefs import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.network import Run
from equivocal.world import UnknownWordError, World
from lastlayer.errors import UserError
from tests.asking.conftest import TINY

SENTENCE = "The cat chases the mouse on the lawn."
REVERSAL = "the mouse chases the cat"


def test_trained_beliefs_agree_with_jax(garden_mind: Comprehender, small_run: Run) -> None:
    """NumPy and JAX compute the same network."""
    answer = garden_mind.answer(SENTENCE)
    network = small_run.networks[1]
    asked = network.comprehend(SENTENCE, list(answer.roles))
    units = [network.world.units[unit] for unit in garden_mind.vocabulary.units]
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


def test_truth_agrees_with_the_world(garden_mind: Comprehender, garden: World) -> None:
    answer = garden_mind.answer(SENTENCE)
    for position, heard in enumerate(["cat", "cat chases", "cat chases mouse", SENTENCE]):
        for r, role in enumerate(answer.roles):
            exact = garden.true_beliefs(heard, role)[list(answer.fillers)]
            np.testing.assert_allclose(answer.truth[position, r], exact, atol=1e-12)
    assert all(answer.is_possible(position) for position in range(4))


def test_impossible_words_have_no_truth(garden_mind: Comprehender) -> None:
    answer = garden_mind.answer("the mouse chases")
    assert [answer.is_possible(position) for position in range(2)] == [True, False]
    assert answer.belief(1, "agent", "mouse").truth is None


def test_before_the_first_step_the_ensemble_is_the_prior(garden_mind: Comprehender) -> None:
    """Step 0 is N(θ_MLE, v I): a logit has the trained mean and the variance v |ψ|²."""
    network = garden_mind.network
    tokens = garden_mind.world.encode(REVERSAL)
    psi = network.compute_features(network.compute_gestalts(tokens))
    for variance in (0.01, 1.0, 5.0):
        ensembles, words = garden_mind._load_once(variance, 0), garden_mind.vocabulary
        found = ensembles.compute_logits(psi)
        logits = (psi @ network.last_layer.swapaxes(1, 2)[:, None])[..., words.places]
        for ours in (found.trained, found.mean):
            np.testing.assert_allclose(ours, logits[:, :, words.candidates], atol=1e-4)
        number = words.candidates.sum(axis=1)
        sizes = np.repeat(np.linalg.norm(psi, axis=-1), number, axis=-1)
        np.testing.assert_allclose(found.sd, np.sqrt(variance) * sizes, rtol=1e-4)


def test_converged_ensemble_is_the_posterior(garden_mind: Comprehender, small_run: Run) -> None:
    """The NumPy closed forms against those of `Posterior`, which integrate on 24 nodes."""
    network = small_run.networks[1]
    layer = collect_last_layer(small_run, network, "every word")
    layer = layer.select(garden_mind.vocabulary.shown.tolist())
    sampler = SamplerSettings(method="exact-flow", num_particles=2, tolerance=TINY.tolerance)
    posterior = infer_posterior(layer, sampler, 1.0, 0)
    rows = network.probe_features(REVERSAL, list(small_run.world.roles)).values
    words, roles, size = rows.shape
    psi = rows.reshape(-1, size)
    places = garden_mind.vocabulary.places

    def arrange(values: np.ndarray) -> np.ndarray:
        return values[:, places].reshape(words, roles, -1)[:, answer.candidates]

    answer = garden_mind.answer(REVERSAL, step="converged")
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


def test_a_cached_prefix_changes_no_bit(garden_mind: Comprehender) -> None:
    """Whether a sentence is heard at once or word by word after another, the bits are the same."""
    fresh, again = (Comprehender(garden_mind.source) for _ in range(2))
    for text in ("the cat", "the cat chases", "the cat chases the ball", SENTENCE):
        again.answer(text, step=4)
    for text in (SENTENCE, "the cat chases the cat"):
        ours, theirs = (mind.answer(text, step=4) for mind in (again, fresh))
        for name in ("mle", "bayes", "low", "high", "entropy", "epistemic", "semantic_update"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    again._heard.clear()
    np.testing.assert_array_equal(
        again.answer(SENTENCE, step=1).bayes[0], fresh.answer("the cat", step=1).bayes[0]
    )


def test_heard_participants_are_always_listed(garden_mind: Comprehender) -> None:
    answer = garden_mind.answer(REVERSAL)
    for role in ("agent", "patient"):
        listed = [belief.filler for belief in answer.beliefs(2, role, top=1)]
        assert {"mouse", "cat"} <= set(listed)
    assert len(answer.beliefs(2, "place", top=1)) == 1
    assert answer.indicated == {"agent": "mouse", "action": "chase", "patient": "cat"}


def test_prior_and_step_are_chosen(garden_mind: Comprehender) -> None:
    narrow = garden_mind.answer(REVERSAL, prior_variance=0.01, step=0)
    wide = garden_mind.answer(REVERSAL, prior_variance=5.0, step=0)
    assert np.nanmean(wide.high - wide.low) > 2 * np.nanmean(narrow.high - narrow.low)
    assert wide.time == 0
    assert garden_mind.answer(REVERSAL, step="converged").time is None
    assert garden_mind.answer(REVERSAL).step == "converged"
    assert (
        garden_mind.find_paper_time(0.01)
        == garden_mind.answer("cat", prior_variance=0.01, step=17).time
    )
    paper = garden_mind.answer(REVERSAL, step=17).time  # where the paper stops
    assert garden_mind.find_paper_time(1.0) == paper > 0
    with pytest.raises(UserError, match=r"prior variance 2\.0; choose from 0\.01, 1, 5"):
        garden_mind.answer(REVERSAL, prior_variance=2.0)
    with pytest.raises(UserError, match=r"step 3 is not available; choose from 0, 1, 4, 17"):
        garden_mind.answer(REVERSAL, step=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("!?", "is empty"),
        ("the mouse\x07 chases", r"control character, U\+0007, at position 10; leave it out"),
        ("the \u202emouse", r"control character, U\+202E"),
        ("mouse " * 31, "31 words, at most 30"),
        ("mouse " * 500, "characters, at most"),
        ("the mouse chases 🐈", "'🐈' at position 18 is not a word of this world; leave it out"),
        ("the mouse \ufffd", "at position 11 is not a word of this world"),
        ("猫が", "unknown word '猫が'"),
        ("the mose chases", "did you mean 'mouse'"),
    ],
)
def test_bad_sentences_get_one_clear_sentence(
    garden_mind: Comprehender, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        garden_mind.answer(text)


def test_unknown_words_have_an_error_of_their_own(garden_mind: Comprehender) -> None:
    with pytest.raises(UnknownWordError):
        garden_mind.answer("the zebra")


def test_answering_needs_no_jax(garden_mind: Comprehender, cache: Path) -> None:
    """Start-up: a fresh process that answers from the cache never imports JAX, nor pandas."""
    garden_mind.answer("the cat")  # everything is there
    run = str(garden_mind.source.run)
    code = (
        "import sys; from equivocal.asking import *; "
        f"source = Source.choose(run={run!r}, network=1, settings={TINY!r}); "
        "print(Comprehender(source).answer('the cat').summary); "
        "sys.exit('jax' in sys.modules or 'pandas' in sys.modules)"
    )
    environment = os.environ | {"EQUIVOCAL_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Reads: ")


def test_one_ensemble_is_made_however_many_threads_ask(
    saved_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path))
    fresh = Comprehender(Source.choose(run=saved_run, network=0, settings=TINY))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: fresh.answer("the cat").bayes, range(4)))
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])
    assert capsys.readouterr().err.count("is computed once") == 1


def test_the_least_recently_used_value_is_dropped() -> None:
    kept = Latest(2)
    for name in "aba":  # so that b is the one asked for longest ago
        kept.keep(name, name.upper())
        kept.find("a")
    kept.keep("c", "C")
    assert [kept.find(name) for name in "abc"] == ["A", None, "C"]
