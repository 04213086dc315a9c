"""The nine suites: generated as shipped, known to their world, with conditions as they declare.

What conditions differ in is asked of the world itself, whose probabilities are exact.
"""

from pathlib import Path

import pandas as pd
import pytest
from scripts.make_paradigm_items import MAKERS, make_csv

from equivocal.measuring.suite import DATA, PARADIGMS, Suite, load_published_means, load_suite
from equivocal.world import ImpossibleSentenceError, World
from needs import SHARED, needs

PUBLISHED = SHARED / "world" / "semantic_update_2018.csv"


@pytest.fixture(scope="module")
def suites() -> dict[str, Suite]:
    return {name: load_suite(name) for name in PARADIGMS}


def cloze(suite: Suite, condition: str, item: str) -> float:
    """The exact probability of the critical word as patient, before it is heard."""
    row = suite.rows[condition, item]
    before, word = row.utterance.first(row.critical - 1), row.utterance.constituents[-1].word
    return float(suite.world.true_beliefs(before, "patient")[word])


def overlap(world: World, first: str, second: str) -> int:
    a, b = (world.lexicon.features[world.lexicon.words.index(word)] for word in (first, second))
    return int((a & b).sum())


def words_of(suite: Suite, condition: str, item: str) -> tuple[str, ...]:
    return tuple(part.word for part in suite.rows[condition, item].utterance)


def test_every_shipped_file_is_listed_and_generated(suites: dict[str, Suite]) -> None:
    files = {Path(entry.name).stem for entry in DATA.iterdir() if entry.name.endswith(".toml")}
    assert files == set(PARADIGMS) == set(MAKERS)
    assert len(PARADIGMS) == 9


@pytest.mark.parametrize("name", PARADIGMS)
def test_items_are_those_generated_from_the_world(name: str, sg2018: World) -> None:
    assert (DATA / f"{name}.csv").read_text(encoding="utf-8") == make_csv(name, sg2018)


@pytest.mark.parametrize("name", PARADIGMS)
def test_every_condition_was_published_and_every_suite_has_sources(
    name: str, suites: dict[str, Suite]
) -> None:
    suite = suites[name]
    assert set(suite.conditions.values()) <= set(load_published_means())
    assert any("Rabovsky, Hansen & McClelland (2018)" in source for source in suite.sources)
    assert len(suite.sources) >= 2
    assert suite.note
    assert suite.measure == "semantic_update"


def test_incongruent_patients_are_impossible_and_share_nothing_with_expected_ones(
    suites: dict[str, Suite],
) -> None:
    suite = suites["semantic_incongruity"]
    for item in suite.items:
        assert cloze(suite, "congruent", item) == pytest.approx(0.7)
        assert cloze(suite, "incongruent", item) == 0
        expected, other = (words_of(suite, c, item)[-1] for c in ("congruent", "incongruent"))
        assert overlap(suite.world, expected, other) == 0
    heard = [sorted(words_of(suite, c, i)[-1] for i in suite.items) for c in suite.conditions]
    assert heard[0] == heard[1]  # the same words, so that none is easier by itself


def test_cloze_probabilities_are_as_declared(suites: dict[str, Suite]) -> None:
    suite = suites["cloze_probability"]
    for item in suite.items:
        assert cloze(suite, "probable", item) == pytest.approx(0.7)
        assert cloze(suite, "improbable", item) == pytest.approx(0.3)


def test_related_incongruities_share_the_category_of_what_is_expected(
    suites: dict[str, Suite],
) -> None:
    suite = suites["categorical_relatedness"]
    for item in suite.items:
        probabilities = [cloze(suite, condition, item) for condition in suite.conditions]
        assert probabilities == [pytest.approx(0.7), 0, 0]
        expected, related, unrelated = (words_of(suite, c, item)[-1] for c in suite.conditions)
        assert overlap(suite.world, expected, related) >= 2
        assert overlap(suite.world, expected, unrelated) == 0


def test_positions_are_those_of_one_possible_sentence(suites: dict[str, Suite]) -> None:
    suite = suites["sentence_position"]
    for item in suite.items:
        rows = [suite.rows[condition, item] for condition in suite.conditions]
        assert [row.critical for row in rows] == [1, 2, 3, 4]
        assert len({row.utterance for row in rows}) == 1
        suite.world.true_beliefs(rows[0].utterance, "agent")  # it can happen


def test_frequent_words_are_more_frequent(suites: dict[str, Suite]) -> None:
    suite = suites["lexical_frequency"]
    said = dict.fromkeys(suite.world.lexicon.words, 0.0)
    for event in suite.world.events:
        for word in set(event.roles.values()):
            said[word] += event.probability
    for item in suite.items:
        (frequent,), (rare,) = (words_of(suite, c, item) for c in ("frequent", "rare"))
        assert said[frequent] > 1.5 * said[rare]


@pytest.mark.parametrize("name", ["semantic_priming", "associative_priming", "repetition_priming"])
def test_pairs_are_related_or_not_and_have_the_same_target(
    name: str, suites: dict[str, Suite]
) -> None:
    suite = suites[name]
    related, unrelated = suite.conditions
    for item in suite.items:
        (prime, target), (other, same) = (words_of(suite, c, item) for c in (related, unrelated))
        assert target == same
        assert suite.rows[related, item].critical == 2
        together = [
            {"action": prime, "patient": target}.items() <= event.roles.items()
            for event in suite.world.events
        ]
        never = [
            {"action": other, "patient": target}.items() <= event.roles.items()
            for event in suite.world.events
        ]
        assert any(together) == (name == "associative_priming")
        assert not any(never)
        if name != "associative_priming":
            assert overlap(suite.world, prime, target) >= 2
        assert overlap(suite.world, other, target) == 0
        assert (prime == target) == (name == "repetition_priming")
    primes = [sorted(words_of(suite, c, i)[0] for i in suite.items) for c in (related, unrelated)]
    assert primes[0] == primes[1]


def test_reversals_are_impossible_and_only_the_incongruent_verb_is_of_another_event(
    suites: dict[str, Suite],
) -> None:
    suite = suites["reversal_anomaly"]
    world = suite.world
    for item in suite.items:
        good, turned, bad = (suite.rows[c, item].utterance for c in suite.conditions)
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
