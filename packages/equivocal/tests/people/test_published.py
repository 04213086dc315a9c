"""Published numbers about people compared with comprehenders that have made-up beliefs."""

import numpy as np
import pytest

from equivocal.people.comprehenders import AskedItems, ask_about_items, believe_ideal
from equivocal.people.published import (
    compare_with_people,
    load_people,
    summarise_scores,
    tabulate_readings,
)
from equivocal.world import World

RATES = 2 * [0.1] + 3 * [0.05] + 3 * [0.18]  # of unusual directions in `both_ways`, by pair


@pytest.fixture(scope="module")
def asked() -> AskedItems:
    return ask_about_items(World.load("both_ways"))


@pytest.fixture(scope="module")
def ideal(asked: AskedItems) -> np.ndarray:
    return believe_ideal(asked)


def test_every_human_number_has_a_source_and_a_status() -> None:
    people = load_people()
    texts = ["source", "measure", "construction", "plausibility", "status", "comparable", "note"]
    assert people[texts].notna().all(axis=None)
    assert set(people["comparable"]) == {"yes", "assumption", "no"}
    value = people.set_index(["measure", "construction", "plausibility"])["value"]
    known = {
        ("not literal", "active", "any"): 0.04,
        ("not literal", "passive", "any"): 0.15,
        ("reversed", "passive", "unlikely"): 0.25,
        ("w", "any", "any"): 0.085,
        ("b", "any", "any"): 0.176,
        ("w/b", "any", "any"): 0.48,
    }
    assert {key: value[key] for key in known} == known


def test_the_ideal_comprehender_has_the_exact_beliefs(asked: AskedItems, ideal: np.ndarray) -> None:
    literal = [asked.items[number].literal for number in asked.number]
    np.testing.assert_allclose(ideal[0, :, 0], literal, atol=1e-12)
    np.testing.assert_allclose(ideal.sum(axis=-1), 1)
    # half of the sentences of any pair are unlikely
    pairs = asked.select("passive", "any")
    assert len(pairs) == 2 * len(asked.select("passive", "unlikely"))


def test_impossible_sentences_have_no_beliefs() -> None:
    never = ask_about_items(World.load("sg2018"))
    beliefs = believe_ideal(never)
    assert np.isnan(beliefs[0, never.select("passive", "impossible")]).all()
    table = tabulate_readings(never, {"ideal": beliefs})
    assert set(table["plausibility"]) == {"plausible"}


def test_readings_and_differences_by_hand(asked: AskedItems) -> None:
    """Two participants who read every unlikely sentence reversed with 0.2 and 0.6."""
    beliefs = np.tile([1.0, 0.0, 0.0], (2, len(asked.questions), 1))
    unlikely = asked.select("any", "unlikely")
    beliefs[0, unlikely], beliefs[1, unlikely] = [0.7, 0.2, 0.1], [0.3, 0.6, 0.1]
    table = tabulate_readings(asked, {"made up": beliefs})
    found = table.set_index(["construction", "plausibility", "measure"])["value"].sort_index()
    for construction in ("any", "active"):
        own = found[construction, "unlikely"]
        assert own["not literal"] == pytest.approx(0.5)
        assert own["reversed"] == pytest.approx(0.4)
        assert own["w"] == pytest.approx(1 - (0.7**2 + 0.2**2 + 0.3**2 + 0.6**2 + 2 * 0.1**2) / 2)
        assert own["b"] == pytest.approx(1 - 0.7 * 0.3 - 0.2 * 0.6 - 0.1**2)
        assert found[construction, "any", "not literal"] == pytest.approx(0.25)
        assert found[construction, "plausible", "w"] == pytest.approx(0)


def test_comparable_numbers_are_scored(asked: AskedItems, ideal: np.ndarray) -> None:
    people = load_people()
    beliefs = {"ideal": ideal, "sure": np.tile([1.0, 0.0, 0.0], (2, len(asked.questions), 1))}
    table = compare_with_people(people, tabulate_readings(asked, beliefs))
    assert len(table) == 2 * len(people)
    of = table.set_index(["comprehender", "measure", "construction"])
    # of unlikely passives: exchanged, or an active with "was" and "by" added (`both_ways.toml`)
    meant, other = 0.2 * (1 - 0.01 - 2 * 0.02 * 0.98 - 0.02**2), 0.2 * 0.01 + 0.5 * 0.01**2
    p = np.mean([(1 - r) * other / ((1 - r) * other + r * meant) for r in RATES])
    row = of.loc[("ideal", "reversed", "passive")]
    assert row["found"] == pytest.approx(p, abs=1e-6)
    by_hand = 2 * 48 * (0.25 * np.log(0.25 / p) + 0.75 * np.log(0.75 / (1 - p)))
    assert row["deviance"] == pytest.approx(by_hand, rel=1e-5)
    assert row["floor"] == 1
    # sure of what the syntax says, nobody ever misreads
    sure = table[table["comprehender"] == "sure"]
    assert np.isinf(sure.loc[sure["measure"] == "reversed", "deviance"]).all()
    assert table.loc[table["comparable"] == "no", "found"].isna().all()
    scores = summarise_scores(table).set_index("comprehender")
    assert scores.loc["ideal", "shares"] == scores.loc["ideal", "floor"] == 3
    assert scores.loc["sure", "p"] == 0


def test_intervals_are_over_networks_and_items_or_over_items_alone(asked: AskedItems) -> None:
    rng = np.random.default_rng(0)
    beliefs = {"it": rng.dirichlet([8, 1, 1], size=(4, len(asked.questions)))}

    def width(networks: dict[str, np.ndarray]) -> float:
        rows = tabulate_readings(asked, beliefs, networks).query("measure == 'literal'")
        assert (rows["low"].isna() | (rows["low"] <= rows["value"])).all()
        return float((rows["high"] - rows["low"]).mean())

    assert np.isnan(width({"it": np.zeros(4)}))  # particles of one network
    assert 0 < width({}) < width({"it": np.arange(4)})
