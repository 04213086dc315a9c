"""Answers against their network, the posterior's own formulas, and the world's truth."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from equivocal.asking import Comprehender, Source
from equivocal.asking.network import (
    compute_beliefs,
    compute_logits,
    compute_semantic_update,
)
from equivocal.asking.posteriors import load_ensemble
from equivocal.errors import UserError
from equivocal.gestalt import Run
from equivocal.inference import SamplerSettings, collect_last_layer, infer_posterior
from equivocal.world import UnknownWordError, World
from tests.asking.conftest import TINY

SENTENCE = "The cat chases the mouse on the lawn."
REVERSAL = "the mouse chases the cat"


def test_trained_beliefs_are_the_networks(garden_mind: Comprehender, small_run: Run) -> None:
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


def test_truth_is_the_worlds(garden_mind: Comprehender, garden: World) -> None:
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
    """Step 0 is a draw of weights from N(θ_MLE, v I)."""
    for variance in (0.01, 1.0, 5.0):
        particles = load_ensemble(garden_mind.source, "path", variance)["particles"]
        drawn = particles[0] - garden_mind._trained[:, None]
        count = drawn.size
        assert abs(drawn.mean()) < 5 * np.sqrt(variance / count)
        assert abs(drawn.var() / variance - 1) < 5 * np.sqrt(2 / count)


def test_converged_ensemble_is_the_posterior(garden_mind: Comprehender, small_run: Run) -> None:
    """Averages over the stored particles against the posterior's closed forms, to Monte Carlo."""
    network = small_run.networks[1]
    units, unit_of = np.unique(garden_mind.vocabulary.units, return_inverse=True)
    layer = collect_last_layer(small_run, network, "every word").select(units.tolist())
    how = {"num_particles": TINY.particles, "tolerance": TINY.tolerance}
    sampler = SamplerSettings(method="exact-flow", **how)
    posterior = infer_posterior(layer, sampler, 1.0, TINY.seed)
    rows = network.probe_features(REVERSAL, list(small_run.world.roles)).values
    psi = rows.reshape(-1, rows.shape[-1])
    drawn = load_ensemble(garden_mind.source, "converged", 1.0)
    found = compute_beliefs(compute_logits(psi, drawn["particles"]))
    sd = posterior.predict_sd(psi)[:, unit_of]
    # 40 exact draws: five standard errors
    error = 5 * sd / np.sqrt(40) + 1e-4
    assert (np.abs(found.bayes - posterior.predict_proba(psi)[:, unit_of]) < error).all()
    total, expected, _ = (part[:, unit_of] for part in posterior.entropies(psi))
    # entropies lie in [0, log 2]: that of a mean moves with it, and a mean of 40 by 5 errors
    slope = np.log(9)  # of H between 0.1 and 0.9
    inside = (total > 0.33) & (found.entropy > 0.33)  # H(0.1): beyond, H is steeper
    assert (np.abs(found.entropy - total) < slope * error + 1e-3)[inside].all()
    kept = found.entropy - found.epistemic
    assert (np.abs(kept - expected) < 5 * np.log(2) / 2 / np.sqrt(40)).all()


def test_ensemble_beliefs_are_averages_over_members() -> None:
    """Against plain loops, and logits so large that only care keeps them from overflowing."""
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(6, 4)).astype(np.float32)
    particles = 2 * rng.normal(size=(3, 21, 4)).astype(np.float32)
    found = compute_beliefs(compute_logits(psi, particles))
    logits = np.einsum("nd,ujd->nuj", psi.astype(float), particles.astype(float))
    y = 1 / (1 + np.exp(-logits))

    def binary(p: np.ndarray) -> np.ndarray:
        return -(p * np.log(p) + (1 - p) * np.log(1 - p))

    np.testing.assert_allclose(found.bayes, y.mean(axis=-1), atol=1e-5)
    for ours, share in ((found.low, 0.05), (found.high, 0.95)):
        np.testing.assert_allclose(ours, expit(np.quantile(logits, share, axis=-1)), atol=1e-5)
    np.testing.assert_allclose(found.entropy, binary(y.mean(axis=-1)), atol=1e-5)
    lost = binary(y.mean(axis=-1)) - binary(y).mean(axis=-1)
    np.testing.assert_allclose(found.epistemic, lost, atol=1e-5)
    huge = compute_beliefs(compute_logits(1e4 * psi, particles))
    assert all(np.isfinite(part).all() for part in huge)


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
    assert garden_mind.answer(REVERSAL, step=17).time > 0
    assert garden_mind.answer(REVERSAL).time is None
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
        ("the mouse\x07 chases", r"control character, U\+0007, in place 10; leave it out"),
        ("the \u202emouse", r"control character, U\+202E"),
        ("mouse " * 31, "31 words, at most 30"),
        ("mouse " * 500, "characters, at most"),
        ("the mouse chases 🐈", "'🐈' in place 18 is no word of the world; leave it out"),
        ("the mouse \ufffd", "in place 11 is no word of the world"),
        ("猫が", "unknown word '猫が'"),
        ("the mose chases", "did you mean 'mouse'"),
    ],
)
def test_bad_sentences_get_one_clear_sentence(
    garden_mind: Comprehender, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        garden_mind.answer(text)


def test_unknown_words_are_told_apart(garden_mind: Comprehender) -> None:
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
    assert done.stdout.startswith("The model")


def test_one_ensemble_is_made_however_many_threads_ask(
    saved_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("EQUIVOCAL_CACHE", str(tmp_path))
    fresh = Comprehender(Source.choose(run=saved_run, settings=TINY))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: fresh.answer("the cat").bayes, range(4)))
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])
    assert capsys.readouterr().err.count("is sampled once") == 1
