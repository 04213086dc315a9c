"""Known scores: of the truth itself, of made-up beliefs, and of reversals."""

import numpy as np
import pytest

from equivocal.doubt.scores import WorldQuestions, ask_everything, find_reversals
from equivocal.network import Run
from equivocal.network.probing import score_beliefs
from equivocal.truth import PooledBeliefs, compute_psi, pool_particles
from equivocal.world import ImpossibleSentenceError, World
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def asked(garden: World) -> WorldQuestions:
    return ask_everything(garden)


def score(asked: WorldQuestions, p: np.ndarray, aleatoric: float = 0.0) -> dict[str, float]:
    """Score beliefs about questions with an answer; those about reversals are all alike."""
    rest = np.full((len(asked.questions.node) - len(p), p.shape[1]), 0.5)
    p = np.clip(np.concatenate([p, rest]), 1e-300, 1 - 1e-16)[None]
    found = asked.measure(PooledBeliefs(np.log(p), np.log1p(-p), np.full_like(p, aleatoric)))
    return {name: float(values[0]) for name, values in found.items()}


def test_the_truth_is_at_the_floor_and_perfectly_calibrated(asked: WorldQuestions) -> None:
    found = score(asked, asked.targets)
    assert abs(found["nll_excess"]) < 1e-9
    for name in ("brier", "calibration_error", "distance"):
        assert found[name] < 1e-12, name
    assert found["epistemic_share"] == pytest.approx(1)  # no member had any entropy of its own
    assert found["auroc"] == found["auroc_entropy"] == 0.5


def test_scores_of_a_known_error(asked: WorldQuestions) -> None:
    """All beliefs are half the truth, so every error has the same sign."""
    t, w = asked.targets, asked.weight
    found = score(asked, t / 2)
    assert found["brier"] == pytest.approx(float(w @ (t**2 / 4).sum(axis=1)), rel=1e-12)
    no = np.where(t < 1, (1 - t) * np.log((1 - t / 2) / np.maximum(1 - t, 1e-300)), 0)
    excess = float(w @ (t * np.log(2) - no).sum(axis=1))
    assert found["nll_excess"] == pytest.approx(excess, rel=1e-9)
    assert found["calibration_error"] == pytest.approx(found["distance"])
    by_role = []
    for role in np.unique(asked.role):
        here, units = asked.role == role, asked.find_possible_units(role)
        by_role.append((w[here] @ t[here][:, units]).sum() / units.sum() / 2)
    assert found["distance"] == pytest.approx(sum(by_role))


def test_signs_cancel_in_calibration_and_not_in_distance(asked: WorldQuestions) -> None:
    """All beliefs equal the mean of their role and unit, which is calibrated but wrong."""
    p = np.zeros_like(asked.targets)
    for role in np.unique(asked.role):
        here = asked.role == role
        p[here] = asked.weight[here] @ asked.targets[here] / asked.weight[here].sum()
    found = score(asked, p)
    assert found["calibration_error"] < 1e-12
    assert found["distance"] > 0.05


def test_scores_of_a_network_agree_with_those_of_training(
    small_run: Run, asked: WorldQuestions
) -> None:
    """`belief_error` is the same distance over the units that are possible at the moment."""
    network = small_run.networks[0]
    psi = compute_psi(network, asked.questions)
    beliefs = pool_particles(psi, network.last_layer().values[:, None])
    queries = small_run.world.all_derivations.queries
    answers = np.zeros((len(queries), len(small_run.world.units)))
    answers[queries.find_role_probes()] = beliefs.belief[: len(asked.weight)]
    known = small_run.scores["belief_error"].iloc[0]
    assert score_beliefs(answers, queries)["belief_error"] == pytest.approx(known, rel=1e-4)


def test_detection_is_the_share_of_pairs_in_the_right_order(asked: WorldQuestions) -> None:
    n, shape = len(asked.weight), (1, len(asked.questions.node), len(asked.units))
    p = np.full(shape, 0.1)
    half = (shape[1] - n) // 2
    p[0, n + half :] = 0.4  # reversals are more uncertain, in every member
    own = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    assert asked.measure(PooledBeliefs(np.log(p), np.log1p(-p), own))["auroc_entropy"] == 1
    own[0, n : n + half] -= 0.01  # but members differ about congruent sentences
    own[0, :n] -= 0.01
    assert asked.measure(PooledBeliefs(np.log(p), np.log1p(-p), own))["auroc"] == 0


def test_reversals_are_impossible_and_congruent_sentences_possible(garden: World) -> None:
    pairs = find_reversals(garden)
    assert len(pairs.congruent) > 5
    for said, turned in zip(*pairs, strict=True):
        garden.true_beliefs(said, "agent")
        with pytest.raises(ImpossibleSentenceError):
            garden.true_beliefs(turned, "agent")
        assert sorted(said.words) == sorted(turned.words)
    assert len({said.tokens for said in pairs.congruent}) == len(pairs.congruent)


def test_sentences_possible_in_both_directions_are_no_reversals(garden: World) -> None:
    """Where cats chase dogs too, neither "dog chases cat" nor its reverse is odd."""
    text = garden.text.replace('then = "mouse" }', "then = { mouse = 0.5, dog = 0.5 } }", 1)
    said = [
        [str(one) for one in find_reversals(world).congruent]
        for world in (garden, World.from_toml(text, "both.toml"))
    ]
    assert "dog chases cat" in said[0]
    assert "dog chases cat" not in said[1]
    assert "cat chases mouse" in said[1]


def test_a_world_without_patients_has_no_reversals(garden: World) -> None:
    other = World.from_toml(garden.text.replace("patient", "victim"), "victims.toml")
    with pytest.raises(UserError, match="has no role patient"):
        ask_everything(other)
