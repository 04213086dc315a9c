"""Known scores of beliefs about reversals: of the truth, of the constant, of made-up spreads."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from equivocal.doubt.answers import LEARNERS
from equivocal.doubt.scores import ReversalScores
from equivocal.truth import PooledBeliefs, ReversalQuestions, ask_about_reversals, pool_logits
from equivocal.world import World


@pytest.fixture(scope="module")
def asked() -> ReversalQuestions:
    return ask_about_reversals(World.load("graded"))


@pytest.fixture(scope="module")
def scores(asked: ReversalQuestions) -> ReversalScores:
    heard = World.load("graded").sample(2_000, seed=1)
    constant, learner = (
        PooledBeliefs(*(part[None] for part in next(LEARNERS[kind](asked, heard)).beliefs))
        for kind in ("constant", "learner-counts")
    )
    return ReversalScores(asked, constant, learner)


def measure(scores: ReversalScores, logits: np.ndarray, sd: float = 1e-9) -> dict[str, float]:
    """Score beliefs whose logits about the two nouns have a mean and a spread."""
    asked = scores.asked
    mean = np.zeros((len(asked.truth), len(asked.units)))
    np.put_along_axis(mean, asked.nouns, logits, axis=1)
    pooled = pool_logits(mean, np.full_like(mean, sd))
    found = scores.measure(PooledBeliefs(*(part[None] for part in pooled)))
    return {name: float(values[0]) for name, values in found.items()}


def test_the_truth_has_every_skill(scores: ReversalScores) -> None:
    found = measure(scores, logit(scores.asked.truth))
    assert abs(found["kl_reversal"]) < 1e-9
    for name in ("skill", "skill_counts", "slope", "correlation"):
        assert found[name] == pytest.approx(1), name
    assert found["reliability"] < 1e-12
    assert found["resolution"] > 0.1
    assert np.isnan(found["spread_rank"])


def test_one_half_has_none(scores: ReversalScores) -> None:
    found = measure(scores, np.zeros_like(scores.asked.truth))
    assert abs(found["skill"]) < 0.02  # literal readings are true half the time, and a bit more
    assert found["slope"] == 0
    assert found["resolution"] < 1e-12
    assert found["aurc_entropy"] == pytest.approx(found["kl_reversal"])


def test_halved_logits_have_half_the_slope(scores: ReversalScores) -> None:
    found = measure(scores, logit(scores.asked.truth) / 2)
    assert found["slope"] == pytest.approx(0.5)
    assert found["correlation"] == pytest.approx(1)
    assert 0 < found["skill"] < 1


def test_wide_beliefs_have_epistemic_uncertainty_that_ranks_their_errors(
    scores: ReversalScores,
) -> None:
    asked = scores.asked
    rng = np.random.default_rng(0)
    found = measure(scores, logit(asked.truth) + rng.normal(0, 0.1, asked.truth.shape), sd=0.5)
    # I of a belief near ½ with logits of spread 0.5 is Var(p) / (2 p (1 − p)), some 0.03
    z = norm.ppf((np.arange(2000) + 0.5) / 2000)
    variance = expit(0.5 * z).var()
    assert found["spread"] == pytest.approx(np.sqrt(2 * variance), rel=0.5)
    assert found["spread_ratio"] > 1
    assert 0 < found["aurc"] != found["aurc_entropy"]


def test_learners_answer_as_they_do_elsewhere(asked: ReversalQuestions) -> None:
    heard = World.load("graded").sample(2_000, seed=1)
    (answer,) = LEARNERS["learner-form"](asked, heard)
    from equivocal.doubt import learn

    learner, row = learn(heard.world, heard, "form"), asked.find_question(15, "reversal")
    expected = learner.beliefs(asked.items[15].reversal, "agent").to_numpy()[list(asked.units)]
    np.testing.assert_allclose(answer.beliefs.belief[row], np.clip(expected, 1e-16, 1), atol=1e-12)
    members = learner.members(asked.items[15].reversal, "agent")[:, list(asked.units)]
    spread = np.sqrt(answer.beliefs.epistemic[row, asked.nouns[row, 0]])
    p = expected[asked.nouns[row, 0]]
    sd = members.std(axis=0)[asked.nouns[row, 0]]
    assert spread == pytest.approx(sd / np.sqrt(2 * p * (1 - p)), rel=0.2)
