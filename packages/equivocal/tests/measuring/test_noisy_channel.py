"""Signals of the noisy-channel account: by hand, at the limits, and the suites that use them."""

import numpy as np
import pytest

from equivocal.measuring.findings import tabulate_findings
from equivocal.measuring.noisy_channel import (
    DATA,
    compute_literal_divergence,
    compute_meaning_surprise,
    judge_signals,
    load_reversals,
    measure_divergence,
    measure_ideal,
)
from equivocal.measuring.run import measure
from equivocal.network import TrainingSettings, train
from equivocal.world import World
from equivocal.world.corpus import compute_meaning_beliefs
from lastlayer.errors import UserError


@pytest.fixture(scope="module")
def world() -> World:
    return World.load("both_ways")


def test_meanings_are_the_events_of_the_world(world: World) -> None:
    beliefs = compute_meaning_beliefs(world, "the man bit the dog")
    assert beliefs.shape == (4, len(world.events))
    assert beliefs.sum(axis=1) == pytest.approx(1)
    assert beliefs[0] == pytest.approx([event.probability for event in world.events])
    acts = np.array([event.roles["agent"] == "man" for event in world.events])
    for size in (1, 2, 3):
        heard = world.parse("the man bit the dog").first(size)
        assert beliefs[size, acts].sum() == pytest.approx(world.true_beliefs(heard, "agent")["man"])
    literal = compute_meaning_beliefs(world, "the man bit the dog", literal=True)
    assert literal[3].max() == 1
    assert literal[3].argmax() == beliefs[3].argmax()


def test_meanings_of_impossible_words_are_nan(world: World) -> None:
    beliefs = compute_meaning_beliefs(world, "the pizza ate the door")
    assert np.isfinite(beliefs[:3]).all()
    assert np.isnan(beliefs[3]).all()
    literal = compute_meaning_beliefs(world, "the pizza ate the door", literal=True)
    assert np.isnan(literal[2:]).all()
    assert np.isfinite(literal[:2]).all()


def test_surprise_by_hand(world: World) -> None:
    """After "the man ate" the thing is a pizza with 0.95 and a radio with 0.05, and no noise can
    change who ate: so the last word is worth −log 0.95 or −log 0.05.
    """
    for thing, chance in (("pizza", 0.95), ("radio", 0.05)):
        beliefs = compute_meaning_beliefs(world, f"the man ate the {thing}")
        assert compute_meaning_surprise(beliefs)[-1] == pytest.approx(-np.log(chance))


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


def test_without_noise_the_literal_divergence_is_zero() -> None:
    silent = World.load("both_ways", exchange=0, deletion=0, insertion=0, case=0)
    for text in ("the man bit the dog", "den dog bit der man"):
        both = (compute_meaning_beliefs(silent, text, literal=plain) for plain in (False, True))
        assert (compute_literal_divergence(*both) == 0).all()


def test_suites_of_reversals_are_about_the_items_of_their_world(world: World) -> None:
    impossible, unlikely = load_reversals()
    for suite, reversal in ((impossible, "reversal"), (unlikely, "unlikely")):
        assert suite.world.fingerprint == world.fingerprint
        assert len(suite.items) == 8
        assert "Exploratory" in suite.note
        for item in suite.items:
            plain = suite.rows[next(iter(suite.conditions)), item].utterance
            turned = suite.rows[reversal, item].utterance
            first, verb, second = (part.word for part in plain)
            assert [part.word for part in turned] == [second, verb, first]
            assert item == f"{first} {verb} {second}"
    assert [f.signal for f in impossible.findings] == ["N400"] * 3 + ["P600"] * 2


def test_table_and_verdicts(world: World) -> None:
    suites = load_reversals()
    words = measure_ideal(suites)
    assert len(words) == (3 * 8 + 2 * 8) * 3 * 2  # sentences × words × measures
    assert words["critical"].sum() == (3 * 8 + 2 * 8) * 2
    judged = judge_signals(words, suites)
    assert list(judged["signal"]) == ["N400"] * 3 + ["P600"] * 3
    critical = words[words["critical"] & (words["measure"] == "literal_divergence")]
    mean = critical.groupby("condition")["value"].mean()
    effects = dict(zip(judged["finding"], judged["effect"], strict=True))
    (present,) = (v for k, v in effects.items() if k.startswith("P600 present: the noun"))
    assert present == pytest.approx(mean["reversal"] - mean["congruent"])
    # turned around, every verdict is turned around
    words["value"] = -words["value"]
    turned = judge_signals(words, suites)["verdict"]
    opposite = {"held": "reversed", "reversed": "held"}
    assert [opposite[verdict] for verdict in judged["verdict"]] == list(turned)
    # a word that is never heard has no value, and a finding about it no verdict
    words.loc[words["position"] == 3, "value"] = np.nan
    assert set(judge_signals(words, suites)["verdict"]) == {"not defined"}


def test_networks_diverge_from_those_trained_without_noise(world: World) -> None:
    """Two untrained networks: the divergence from itself is 0, from the other Σ JS."""
    settings = TrainingSettings(networks=2, sentences=20, epochs=1)
    one, other = train(world, settings).networks
    _, unlikely = load_reversals()
    assert (measure_divergence([one], [one], [unlikely])["value"] == 0).all()
    words = measure_divergence([one, one], [other, one], [unlikely])
    assert len(words) == 2 * 16 * 3
    row = unlikely.rows["unlikely", "dog bite man"]
    p, q = (
        n.comprehend(row.utterance, list(world.roles)).values[-1].astype(float)
        for n in (one, other)
    )
    m = (p + q) / 2
    entropy = lambda y: -(y * np.log(y) + (1 - y) * np.log(1 - y)).sum()  # noqa: E731
    by_hand = entropy(m) - (entropy(p) + entropy(q)) / 2
    found = words.query("network == 0 and critical and item == 'dog bite man'")
    found = found.query("condition == 'unlikely'")["value"]
    assert found.item() == pytest.approx(by_hand, rel=1e-6)
    assert len(judge_signals(words, [unlikely])) == 1
    with pytest.raises(UserError, match="got 2 with noise and 1 without; give as many of each"):
        measure_divergence([one, other], [one], [unlikely])


def test_networks_are_judged_by_the_n400_alone() -> None:
    impossible, _ = load_reversals()
    words = measure_ideal([impossible])
    words = words[words["measure"] == "meaning_surprise"].assign(
        measure="bayesian_surprise", network=0
    )
    assert len(tabulate_findings(words, [impossible])) == 3
    with pytest.raises(UserError, match="'unlikely_reversals' has no finding about the N400"):
        measure([str(DATA / "unlikely_reversals.toml")], "never")
