"""Measures against values worked out by hand, and against their definitions with probabilities."""

import numpy as np
import pytest
from scipy.special import expit, logit

from equivocal.measuring.exact import (
    compute_literal_divergence,
    compute_meaning_surprise,
    compute_surprisal,
    measure_exactly,
)
from equivocal.measuring.measures import (
    KEYS,
    MEASURES,
    compute_bayesian_surprise,
    compute_semantic_update,
    compute_uncertainty,
    compute_unit_divergence,
    describe_columns,
)
from equivocal.world import World, read_example
from equivocal.world.corpus import compute_meaning_beliefs


@pytest.fixture(scope="module")
def world() -> World:
    return World.load("both_ways")


def test_the_update_counts_from_silence_and_adds_up_both_directions() -> None:
    gestalts = np.array([[0.5, 0.25], [0.75, 0.0], [0.75, 0.0]])
    # |0.5| + |0.25|, then |+0.25| + |−0.25|, then nothing
    np.testing.assert_allclose(compute_semantic_update(gestalts), [0.75, 0.5, 0.0])


def test_surprise_is_the_divergence_from_old_to_new_beliefs() -> None:
    """One unit from 0.5 to 0.75: 0.75 ln 1.5 + 0.25 ln 0.5 = 0.1308; the other way 0.1438."""
    surprise = compute_bayesian_surprise(logit(np.array([0.5, 0.75]))[:, None, None])
    assert surprise[1] == pytest.approx(0.130812, abs=1e-6)
    assert np.isnan(surprise[0])  # nobody asked before the first word


def test_surprise_adds_up_over_units_and_roles() -> None:
    p = np.random.default_rng(0).uniform(0.05, 0.95, (4, 3, 5))  # words, roles, units
    new, old = p[1:], p[:-1]
    by_unit = new * np.log(new / old) + (1 - new) * np.log((1 - new) / (1 - old))
    surprise = compute_bayesian_surprise(logit(p))
    np.testing.assert_allclose(surprise[1:], by_unit.sum(axis=(-2, -1)))


def test_surprise_of_certainty_is_large_but_finite() -> None:
    """From logit 80 to −80: 80 nats. As a probability σ(80) is 1, and this would be infinite."""
    certain = np.array([80.0, -80.0])[:, None, None]
    assert compute_bayesian_surprise(certain)[1] == pytest.approx(80)


def test_uncertainty_is_the_sum_of_the_units_entropies() -> None:
    """An even chance has ln 2, a quarter 0.5623, certainty nothing."""
    beliefs = np.array([[[0.0, np.log(1 / 3)]], [[90.0, -90.0]]])
    np.testing.assert_allclose(compute_uncertainty(beliefs), [np.log(2) + 0.562335, 0], atol=1e-6)


def test_divergence_of_networks_is_that_of_their_units() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 3, 2, 4))  # words, roles, units
    entropy = lambda y: -(y * np.log(y) + (1 - y) * np.log(1 - y)).sum(axis=(1, 2))  # noqa: E731
    p, q = expit(a), expit(b)
    by_hand = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    np.testing.assert_allclose(compute_unit_divergence(a, b), by_hand)
    assert (compute_unit_divergence(a, a) == 0).all()


def test_meanings_of_impossible_words_are_nan(world: World) -> None:
    beliefs = compute_meaning_beliefs(world, "the pizza ate the door")
    assert np.isfinite(beliefs[:3]).all()
    assert np.isnan(beliefs[3]).all()
    literal = compute_meaning_beliefs(world, "the pizza ate the door", literal=True)
    assert np.isnan(literal[2:]).all()
    assert np.isfinite(literal[:2]).all()


@pytest.mark.parametrize(("thing", "chance"), [("pizza", 0.95), ("radio", 0.05)])
def test_exact_surprise_and_surprisal_by_hand(thing: str, chance: float, world: World) -> None:
    """After "the man ate" no noise can change who ate: the last word is worth −log P(thing)."""
    sentence = world.parse(f"the man ate the {thing}")
    surprise = compute_meaning_surprise(compute_meaning_beliefs(world, sentence))
    assert surprise[-1] == pytest.approx(-np.log(chance))


def test_surprisal_sums_to_that_of_the_sentence_and_ends_where_words_are_impossible(
    world: World, sg2018: World
) -> None:
    sentence = world.sentences[5]
    total = compute_surprisal(world, world.parse(sentence.text)).sum()
    # a sentence may go on after it, so it is at least as probable as a beginning
    assert np.exp(-total) >= sentence.probability * (1 - 1e-9)
    cloze = measure_exactly(sg2018, sg2018.parse("the man plays chess"), {})["cloze"]
    assert cloze[2] == pytest.approx(0.7)
    impossible = measure_exactly(sg2018, sg2018.parse("the egg plays chess"), {})
    assert impossible["cloze"][1] == 0
    assert impossible["surprisal"][1] == np.inf
    assert np.isnan(impossible["cloze"][2])


def test_exact_beliefs_in_fillers_entropy_and_frequency_by_hand() -> None:
    """After "the dog chases" in the garden the cat is chased with 0.8, the ball with 0.2."""
    garden = World.from_toml(read_example())
    roles = {"agent": "dog", "patient": "cat"}
    found = measure_exactly(garden, garden.parse("the dog chases the cat"), roles)
    assert found["exact_belief_agent"] == pytest.approx(1)
    assert found["exact_belief_patient"][1:] == pytest.approx([0.8, 1])
    assert found["exact_belief_reading"][1:] == pytest.approx([0.8, 1])
    assert found["entropy"][0] > found["entropy"][1] > found["entropy"][2] >= 0
    beliefs = compute_meaning_beliefs(garden, "the dog chases")[2]
    left = beliefs[beliefs > 0]
    assert found["entropy"][1] == pytest.approx(-(left * np.log(left)).sum())
    assert found["entropy_reduction"][2] == pytest.approx(found["entropy"][1] - found["entropy"][2])
    spoken = [(s.probability, garden.parse(s.text)) for s in garden.sentences]
    cats = sum(p * sum(part.word == "cat" for part in said) for p, said in spoken)
    assert found["frequency"][2] == pytest.approx(cats / sum(p * len(said) for p, said in spoken))


def test_every_column_is_described_once() -> None:
    names = [*KEYS, *MEASURES, "belief_agent", "exact_belief_reading", "p600_low", "p600_network_3"]
    names += ["warranted_belief_agent", "warranted_high_agent"]
    about = {row["column"]: row for row in describe_columns(names)}
    assert about["belief_agent"]["meaning"].startswith("belief in the agent")
    assert about["exact_belief_reading"]["from"] == "exact"
    assert about["warranted_belief_agent"]["from"] == "counting learner"
    assert about["warranted_high_agent"]["from"] == "counting learner"
    assert "of warranted_belief_agent" in about["warranted_high_agent"]["meaning"]
    assert about["p600_low"]["meaning"].startswith("end of the 95 % interval")
    assert about["p600_network_3"]["meaning"].startswith("of network 3: ")
    assert about["p600_network_3"]["linked_with"] == "P600"
    assert about["surprisal"]["meaning"].endswith("(nats)")
    assert "(nats)" not in about["cloze"]["meaning"]


def test_divergence_by_hand() -> None:
    """Of (3/4, 1/4) and (1, 0), whose mean is (7/8, 1/8)."""
    inferred, literal = np.array([[0.75, 0.25]]), np.array([[1.0, 0.0]])
    first = 0.75 * np.log(0.75 / 0.875) + 0.25 * np.log(0.25 / 0.125)
    second = np.log(1 / 0.875)
    assert compute_literal_divergence(inferred, literal) == pytest.approx((first + second) / 2)
    assert compute_literal_divergence(literal, literal) == 0
    nothing = np.full((1, 2), np.nan)
    assert compute_literal_divergence(literal[:, ::-1], literal) == pytest.approx(np.log(2))
    assert compute_literal_divergence(inferred, nothing) == pytest.approx(np.log(2))
    assert np.isnan(compute_literal_divergence(nothing, nothing))


def test_without_noise_there_is_no_literal_divergence(sg2018: World) -> None:
    silent = World.load("both_ways", exchange=0, deletion=0, insertion=0, case=0)
    for text in ("the man bit the dog", "den dog bit der man"):
        both = (compute_meaning_beliefs(silent, text, literal=plain) for plain in (False, True))
        assert (compute_literal_divergence(*both) == 0).all()
    assert np.isnan(measure_exactly(sg2018, sg2018.parse("man plays"), {})["exact_p600"]).all()
