"""Beliefs pooled over members, and their distance from exact beliefs about reversals."""

import numpy as np
import pytest
from scipy.special import entr, expit

from equivocal.network import Run
from equivocal.truth import (
    PooledBeliefs,
    ReversalQuestions,
    ask_about_reversals,
    average_beliefs,
    divide_logits,
    pool_gaussian,
    pool_particles,
)
from equivocal.world import World
from equivocal.world.reversals import RoleReversal
from lastlayer import sample_posterior
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def asked() -> ReversalQuestions:
    return ask_about_reversals(World.load("slips"))


def believe(p) -> PooledBeliefs:
    p = np.clip(np.asarray(p, float), 1e-300, 1 - 1e-16)
    return PooledBeliefs(np.log(p), np.log1p(-p), np.zeros_like(p))


def test_divergence_by_hand() -> None:
    t, p = np.array([[0.523, 0.477]]), np.array([[0.9, 0.2]])
    by_hand = [
        a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))
        for a, b in zip(t[0], p[0], strict=True)
    ]
    np.testing.assert_allclose(believe(p).compute_divergence(t)[0], by_hand, rtol=1e-12)


def test_exact_beliefs_have_no_error(asked: ReversalQuestions) -> None:
    p = np.full((len(asked.item), len(asked.units)), 0.5)
    np.put_along_axis(p, asked.nouns, asked.truth, axis=1)
    assert all(abs(error) < 1e-12 for error in asked.measure(believe(p)).values())
    half = asked.measure(believe(np.full_like(p, 0.5)))
    assert 0.01 < half["kl_reversal"] < half["kl_congruent"]
    reversals = asked.truth[asked.condition == 1].reshape(-1, 2, 2)  # item, role, noun
    np.testing.assert_allclose(reversals.sum(axis=2), 1)  # one of the two nouns it must be
    np.testing.assert_allclose(reversals[:, 0], reversals[:, 1][:, ::-1])  # the other is patient
    texts = [str(item.reversal) for item in asked.items]
    dinner = next(number for number, text in enumerate(texts) if "during dinner pizza" in text)
    found = asked.truth[asked.find_question(dinner, "reversal"), 1]
    assert found == pytest.approx(asked.items[dinner].literal)
    assert found == pytest.approx(0.4768, abs=1e-4)


def test_questions_are_those_of_the_network(asked: ReversalQuestions, small_run: Run) -> None:
    network, world = small_run.networks[0], small_run.world
    texts = ("dog chases cat", "cat chases mouse")  # what is asked does not depend on the nouns
    item = RoleReversal(*map(world.parse, texts), "dog", "cat", "chase", (), 0.5)
    own = ask_about_reversals(world, [item])
    for condition, text in zip(("congruent", "reversal"), texts, strict=True):
        for role in ("agent", "patient"):
            psi = network.probe_features(text, [role]).values[-1, 0]
            number = own.find_question(0, condition, role)
            np.testing.assert_allclose(own.compute_psi(network)[number], psi, atol=1e-6)


def test_pooled_beliefs_are_means_and_differences_are_epistemic() -> None:
    rng = np.random.default_rng(0)
    psi, theta = rng.normal(size=(5, 3)), rng.normal(size=(2, 7, 3))
    found = pool_particles(psi, theta)
    y = expit(np.einsum("qd,kjd->jqk", psi, theta))
    np.testing.assert_allclose(found.belief, y.mean(axis=0))
    np.testing.assert_allclose(np.exp(found.log_no), 1 - y.mean(axis=0))
    own = (entr(y) + entr(1 - y)).mean(axis=0)
    entropy = entr(y.mean(axis=0)) + entr(1 - y.mean(axis=0))
    np.testing.assert_allclose(found.epistemic, entropy - own, atol=1e-12)
    parts = [pool_particles(psi, theta[:, j : j + 1]) for j in range(7)]
    for part, expected in zip(average_beliefs(parts), found, strict=True):
        np.testing.assert_allclose(part, expected)


def test_a_gaussian_is_the_limit_of_its_particles() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    t = (rng.random((40, 2)) < 0.5).astype(float)
    posterior = sample_posterior(x, t, prior_variance=400.0, num_particles=20, seed=0)
    psi = np.vstack([x[:4], 30 * x[:2]])  # logits with a wide spread, too
    root = np.linalg.cholesky(posterior.covariance.astype(float))
    drawn = posterior.mean[:, None] + rng.normal(size=(2, 40_000, 3)) @ root.swapaxes(1, 2)
    found, expected = pool_gaussian(psi, posterior), pool_particles(psi, drawn)
    np.testing.assert_allclose(found.belief, expected.belief, atol=0.01)
    np.testing.assert_allclose(found.aleatoric, expected.aleatoric, atol=0.01)
    np.testing.assert_allclose(np.exp(found.log_yes) + np.exp(found.log_no), 1, atol=1e-9)


def test_a_temperature_moves_beliefs_towards_one_half() -> None:
    p = np.array([[0.9, 0.2]])
    odds = (p / (1 - p)) ** (1 / 1.5)
    np.testing.assert_allclose(divide_logits(believe(p), 1.5).belief, odds / (1 + odds))
    np.testing.assert_allclose(divide_logits(believe(p), np.inf).belief, 0.5)


def test_a_world_without_true_reversals_is_refused(paper: World) -> None:
    with pytest.raises(UserError, match="no role reversal can be read in two ways"):
        ask_about_reversals(paper)
