"""The paradigms of the package, with conditions as they declare.

What conditions differ in is asked of the world itself, whose probabilities are exact.
"""

import numpy as np
import pandas as pd
import pytest

from equivocal.measuring.paradigms import (
    CONSTRUCTIONS,
    DATA,
    EXPLORATORY,
    PARADIGMS,
    Paradigm,
    load_paradigm,
    load_published_means,
)
from equivocal.store import read_toml
from equivocal.world import ImpossibleSentenceError, World
from equivocal.world.items import Item
from needs import SHARED, needs

PUBLISHED = SHARED / "world" / "semantic_update_2018.csv"


@pytest.fixture(scope="module")
def shipped() -> dict[str, Paradigm]:
    return {name: load_paradigm(name) for name in (*PARADIGMS, *CONSTRUCTIONS, *EXPLORATORY)}


def cloze(paradigm: Paradigm, condition: str, item: str) -> float:
    """The exact probability of the critical word as patient, before it is heard."""
    row = paradigm.rows[condition, item]
    before, word = row.utterance.first(row.critical - 1), row.utterance.constituents[-1].word
    return float(paradigm.world.true_beliefs(before, "patient")[word])


def overlap(world: World, first: str, second: str) -> int:
    a, b = (world.lexicon.features[world.lexicon.words.index(word)] for word in (first, second))
    return int((a & b).sum())


def words_of(paradigm: Paradigm, condition: str, item: str) -> tuple[str, ...]:
    return tuple(part.word for part in paradigm.rows[condition, item].utterance)


def test_every_shipped_table_is_listed_with_sources(shipped: dict[str, Paradigm]) -> None:
    files = {path.stem for path in DATA.glob("*.csv")} - {"published_2018"}
    assert files | {*CONSTRUCTIONS} == shipped.keys()
    assert read_toml(DATA / "expectations.toml").keys() == shipped.keys()
    for name in PARADIGMS:
        paradigm = shipped[name]
        assert set(paradigm.published) == set(paradigm.conditions)
        assert set(paradigm.published.values()) <= set(load_published_means())
        assert any("Rabovsky, Hansen & McClelland (2018)" in one for one in paradigm.sources)
        assert len(paradigm.sources) >= 2
        assert len(paradigm.rows) == len(paradigm.conditions) * len(paradigm.items)


def test_incongruent_patients_are_impossible_and_share_nothing_with_expected_ones(
    shipped: dict[str, Paradigm],
) -> None:
    paradigm = shipped["semantic_incongruity"]
    for item in paradigm.items:
        assert cloze(paradigm, "congruent", item) == pytest.approx(0.7)
        assert cloze(paradigm, "incongruent", item) == 0
        expected, other = (words_of(paradigm, c, item)[-1] for c in ("congruent", "incongruent"))
        assert overlap(paradigm.world, expected, other) == 0
    heard = [
        sorted(words_of(paradigm, c, i)[-1] for i in paradigm.items) for c in paradigm.conditions
    ]
    assert heard[0] == heard[1]  # the same words, so that none is easier by itself


def test_cloze_probabilities_are_as_declared(shipped: dict[str, Paradigm]) -> None:
    paradigm = shipped["cloze_probability"]
    for item in paradigm.items:
        assert cloze(paradigm, "probable", item) == pytest.approx(0.7)
        assert cloze(paradigm, "improbable", item) == pytest.approx(0.3)


def test_related_incongruities_share_the_category_of_what_is_expected(
    shipped: dict[str, Paradigm],
) -> None:
    paradigm = shipped["categorical_relatedness"]
    for item in paradigm.items:
        probabilities = [cloze(paradigm, condition, item) for condition in paradigm.conditions]
        assert probabilities == [pytest.approx(0.7), 0, 0]
        expected, related, unrelated = (
            words_of(paradigm, c, item)[-1] for c in paradigm.conditions
        )
        assert overlap(paradigm.world, expected, related) >= 2
        assert overlap(paradigm.world, expected, unrelated) == 0


def test_positions_are_those_of_one_possible_sentence(shipped: dict[str, Paradigm]) -> None:
    paradigm = shipped["sentence_position"]
    for item in paradigm.items:
        rows = [paradigm.rows[condition, item] for condition in paradigm.conditions]
        assert [row.critical for row in rows] == [1, 2, 3, 4]
        assert len({row.utterance for row in rows}) == 1
        paradigm.world.true_beliefs(rows[0].utterance, "agent")  # it can happen


def test_frequent_words_are_more_frequent(shipped: dict[str, Paradigm]) -> None:
    paradigm = shipped["lexical_frequency"]
    said = dict.fromkeys(paradigm.world.lexicon.words, 0.0)
    for event in paradigm.world.events:
        for word in set(event.roles.values()):
            said[word] += event.probability
    for item in paradigm.items:
        (frequent,), (rare,) = (words_of(paradigm, c, item) for c in ("frequent", "rare"))
        assert said[frequent] > 1.5 * said[rare]


@pytest.mark.parametrize("name", ["semantic_priming", "associative_priming", "repetition_priming"])
def test_pairs_are_related_or_not_and_have_the_same_target(
    name: str, shipped: dict[str, Paradigm]
) -> None:
    paradigm = shipped[name]
    related, unrelated = paradigm.conditions
    for item in paradigm.items:
        (prime, target), (other, same) = (words_of(paradigm, c, item) for c in (related, unrelated))
        assert target == same
        assert paradigm.rows[related, item].critical == 2
        together = [
            {"action": prime, "patient": target}.items() <= event.roles.items()
            for event in paradigm.world.events
        ]
        never = [
            {"action": other, "patient": target}.items() <= event.roles.items()
            for event in paradigm.world.events
        ]
        assert any(together) == (name == "associative_priming")
        assert not any(never)
        if name != "associative_priming":
            assert overlap(paradigm.world, prime, target) >= 2
        assert overlap(paradigm.world, other, target) == 0
        assert (prime == target) == (name == "repetition_priming")
    primes = [
        sorted(words_of(paradigm, c, i)[0] for i in paradigm.items) for c in (related, unrelated)
    ]
    assert primes[0] == primes[1]


def test_reversals_are_impossible_and_only_the_incongruent_verb_is_of_another_event(
    shipped: dict[str, Paradigm],
) -> None:
    paradigm = shipped["reversal_anomaly"]
    world = paradigm.world
    for item in paradigm.items:
        good, turned, bad = (paradigm.rows[c, item].utterance for c in paradigm.conditions)
        action = good.constituents[-1].word
        before = world.true_beliefs(good.first(2), "action")
        assert before[action] == 1  # the situation says it
        assert before[bad.constituents[-1].word] == 0
        assert turned.constituents[-1].word == action
        assert turned.constituents[-1].marker is None  # active: it is the patient who acts
        assert world.true_beliefs(good, "patient")[turned.constituents[1].word] > 0.6
        assert overlap(world, action, bad.constituents[-1].word) == 1  # both are actions
        for impossible in (turned, bad):
            with pytest.raises(ImpossibleSentenceError):
                world.true_beliefs(impossible, "agent")


def test_published_means_are_those_of_the_published_items() -> None:
    needs("published items")
    items = pd.read_csv(PUBLISHED)
    items = items[items["model_family"] == "standard"]
    means = items.groupby(["model", "condition"])["semantic_update"].mean().unstack()
    shipped = load_published_means()
    pd.testing.assert_frame_equal(
        means[shipped.columns], shipped, check_names=False, atol=1e-6, rtol=0
    )


def test_reversals_through_noise_exchange_the_nouns(shipped: dict[str, Paradigm]) -> None:
    for name, reversal in zip(EXPLORATORY, ("reversal", "unlikely"), strict=True):
        paradigm = shipped[name]
        for item in paradigm.items:
            first, verb, second = words_of(paradigm, next(iter(paradigm.conditions)), item)
            assert words_of(paradigm, reversal, item) == (second, verb, first)


def exact(construction: Paradigm, condition: str) -> np.ndarray:
    """Return exact beliefs in answer and rival, (items, 2)."""
    own = [row for (name, _), row in construction.rows.items() if name == condition]
    return np.array([ask_first_probe(construction.world, row) for row in own])


def ask_first_probe(world: World, item: Item) -> tuple[float, float]:
    probe = next(iter(item.tracked))
    asked = "role" if probe in world.roles else "filler"
    try:
        truth = world.true_beliefs(item.utterance, **{asked: probe})
    except ImpossibleSentenceError:
        return np.nan, np.nan
    return truth[item.tracked[probe]], truth[item.rivals[probe]]


def test_plausible_sentences_are_true_and_implausible_ones_are_never_said(
    shipped: dict[str, Paradigm],
) -> None:
    passive = shipped["passive"]
    for voice in ("active", "passive"):
        np.testing.assert_array_equal(exact(passive, f"plausible {voice}"), [[1, 0]] * 16)
        assert np.isnan(exact(passive, f"implausible {voice}")).all()
    odd = passive.rows["implausible passive", "eat egg"]
    assert str(odd.utterance) == "man was eaten by egg"
    assert odd.tracked == {"agent": "egg", "patient": "man"}
    assert odd.rivals == {"agent": "man", "patient": "egg"}


def test_word_order_is_certain_open_or_impossible_as_its_conditions_say(
    shipped: dict[str, Paradigm],
) -> None:
    order = shipped["word_order"]
    certain = ("first noun der", "first noun den", "subject first", "object first")
    for condition in (*certain, "object first, told late", "decided by the world"):
        np.testing.assert_array_equal(np.unique(exact(order, condition), axis=0), [[1, 0]])
    for condition in ("first noun die", "undecided"):
        both = exact(order, condition)
        np.testing.assert_allclose(both.sum(axis=1), 1)
        assert ((both > 0) & (both < 1)).all()
    assert np.ptp(exact(order, "undecided")[:, 0]) > 0.8
    for condition in ("impossible, subject first", "impossible, object first"):
        assert np.isnan(exact(order, condition)).all()


def test_attachments_are_open_or_decided_as_their_conditions_say(
    shipped: dict[str, Paradigm],
) -> None:
    attachment = shipped["attachment"]
    undecided = exact(attachment, "undecided")
    np.testing.assert_allclose(undecided.sum(axis=1), 1)
    assert undecided.min() < 0.05
    assert undecided.max() > 0.95
    for condition in ("decided by the world", "instrument by place", "attribute by word"):
        np.testing.assert_array_equal(np.unique(exact(attachment, condition), axis=0), [[1, 0]])
