"""From made-up words to findings: every number can be worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from equivocal.measuring.findings import (
    judge_effect,
    tabulate_conditions,
    tabulate_findings,
    tabulate_networks,
    tabulate_words,
)
from equivocal.measuring.suite import Suite, load_suite
from equivocal.statistics.summaries import compare_with_zero


def make_words(suite: Suite, values: np.ndarray, measure: str = "semantic_update") -> pd.DataFrame:
    """Make critical words with values (network, condition, item), and others not to be counted."""
    rows = [
        {
            "suite": suite.name,
            "condition": condition,
            "item": item,
            "network": n,
            "measure": measure,
            "critical": critical,
            "value": values[n, c, i] if critical else 1e6,
        }
        for n in range(len(values))
        for c, condition in enumerate(suite.conditions)
        for i, item in enumerate(suite.items)
        for critical in (False, True)
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)  # order must not matter


def test_effect_intervals_and_ratio_by_hand(chase: Suite) -> None:
    """Three networks, two items: effects 1, 2, 3 over networks and 1, 3 over items."""
    likely = np.array([[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]])
    odd = likely + np.array([[0.0, 2.0], [1.0, 3.0], [2.0, 4.0]])
    (row,) = tabulate_findings(make_words(chase, np.stack([likely, odd], axis=1)), [chase]).to_dict(
        "records"
    )
    assert row["effect"] == pytest.approx(2)
    half = 4.302653 * 1 / np.sqrt(3)  # t₀.₉₇₅ with 2 df
    assert [row["network_low"], row["network_high"]] == pytest.approx([2 - half, 2 + half])
    half = 12.706205 * np.sqrt(2) / np.sqrt(2)  # t₀.₉₇₅ with 1 df
    assert [row["item_low"], row["item_high"]] == pytest.approx([2 - half, 2 + half])
    assert row["ratio"] == pytest.approx((1.5 * 2 * 2.5) ** (1 / 3))
    assert row["verdict"] == "direction only"
    assert row["contrast"] == "odd > likely"
    assert row["source"] == "Ferreira (2003)"
    assert np.isnan(row["published_ratio"])
    assert row["published_direction"] == ""


def test_a_contrast_of_three_conditions_by_hand() -> None:
    """Congruent 2, reversal 3, incongruent 7: 7 + 2 − 2·3 = 3, and the ratio is 9/6."""
    suite = load_suite("reversal_anomaly")
    rng = np.random.default_rng(0)
    values = np.array([2.0, 3.0, 7.0])[None, :, None] + rng.normal(0, 1e-3, (4, 3, 8))
    table = tabulate_findings(make_words(suite, values), [suite]).set_index("contrast")
    nearer = table.loc["incongruent + congruent > 2 reversal"]
    assert nearer["effect"] == pytest.approx(3, abs=0.01)
    assert nearer["ratio"] == pytest.approx(1.5, abs=0.01)
    assert table["verdict"].tolist() == ["held"] * 4
    assert table["published_direction"].tolist() == ["as predicted"] * 4


def test_a_reversal_below_the_congruent_verb_is_reported() -> None:
    """In 2018 reversals were above, so being below counts as reversed."""
    suite = load_suite("reversal_anomaly")
    rng = np.random.default_rng(0)
    values = np.array([3.0, 2.0, 7.0])[None, :, None] + rng.normal(0, 1e-3, (4, 3, 8))
    table = tabulate_findings(make_words(suite, values), [suite]).set_index("contrast")
    missed = table.loc["reversal > congruent"]
    assert missed["verdict"] == "reversed"
    assert missed["source"] == "Rabovsky, Hansen & McClelland (2018)"  # people show no difference
    assert missed["effect"] == pytest.approx(-1, abs=0.01)
    assert missed["published_ratio"] == pytest.approx(1.14, abs=0.005)
    assert len(table) == 4


def test_rotated_primes_cancel_in_the_effect_but_widen_its_interval() -> None:
    """Whatever primes give by themselves, the effect is δ = 1; the interval over items widens."""
    suite, rng = load_suite("semantic_priming"), np.random.default_rng(0)
    primes = {
        c: [suite.rows[c, i].utterance.words[0] for i in suite.items] for c in suite.conditions
    }
    noise = rng.normal(0, 0.01, (3, 2, 12))
    halves = []
    for spread in (0.0, 3.0):
        gives = {word: spread * rng.normal() for word in primes["related"]}
        by_prime = np.array([[gives[word] for word in row] for row in primes.values()])
        values = 20 + np.array([0.0, 1.0])[:, None] + by_prime + noise
        (row,) = tabulate_findings(make_words(suite, values), [suite]).to_dict("records")
        assert row["effect"] == pytest.approx(1, abs=0.02)
        halves.append((row["item_high"] - row["item_low"]) / 2)
    assert halves[0] < 0.02
    assert halves[1] > 0.5


def test_each_word_has_its_mean_and_an_interval_over_networks(chase: Suite) -> None:
    values = np.arange(12.0).reshape(3, 2, 2)  # a word's values are v, v + 4, v + 8
    words = make_words(chase, values).assign(position=3, word="bone")
    table = tabulate_words(words)
    critical = table[table["critical"]].set_index(["condition", "item"])
    assert len(table) == 8
    row = critical.loc[("odd", "cat")]
    half = 4.302653 * 4 / np.sqrt(3)  # t₀.₉₇₅ with 2 df
    assert [row["mean"], row["networks"]] == [7, 3]
    assert [row["ci_low"], row["ci_high"]] == pytest.approx([7 - half, 7 + half])
    assert row[["suite", "position", "word", "measure"]].tolist() == [
        "chase",
        3,
        "bone",
        "semantic_update",
    ]


def test_the_published_ratio_is_that_of_the_published_means() -> None:
    suite = load_suite("cloze_probability")
    table = tabulate_findings(make_words(suite, np.ones((2, 2, 12))), [suite])
    # means over ten networks in `semantic_update_2018.csv`: 1.2074 and 0.9694, so about 1.245
    assert table["published_ratio"].item() == pytest.approx(1.2409, abs=1e-4)
    assert table["published_ratio_low"].item() < 1.2409 < table["published_ratio_high"].item()
    conditions = tabulate_conditions(make_words(suite, np.ones((2, 2, 12))), [suite])
    assert conditions["published_mean"].tolist() == pytest.approx([0.969413, 1.207424], abs=1e-5)
    means = tabulate_networks(make_words(suite, np.ones((2, 2, 12))), [suite])
    assert means.groupby("published").size().to_dict() == {False: 4, True: 20}


def test_a_measure_without_values_is_not_defined_and_others_are_kept() -> None:
    """Beliefs have no predecessor at the first word, but have one at all later words."""
    suite = load_suite("sentence_position")
    values = np.random.default_rng(0).uniform(21, 22, (3, 4, 8)) - 4 * np.arange(4)[:, None]
    values[:, 0] = np.nan
    table = tabulate_findings(make_words(suite, values, "entropy_reduction"), [suite])
    assert table["verdict"].tolist() == ["not defined", "held", "held"]
    assert table["ratio"].isna().all()  # positive here, but the measure has a sign
    reasons = ["the measure has no value at a critical word", *["the measure can be negative"] * 2]
    assert table["no_ratio"].tolist() == reasons
    assert table["exploratory"].all()


@pytest.mark.parametrize(
    ("networks", "items", "wanted"),
    [
        ([1.0, 1.1], [1.0, 1.1], "held"),
        ([1.0, 1.1], [-1.0, 3.1], "direction only"),
        ([-1.0, 3.1], [1.0, 1.1], "direction only"),
        ([1.0], [1.0, 1.1], "direction only"),  # one network has no interval
        ([-1.0, -1.1], [-1.0, -1.1], "reversed"),
        ([-1.0, -1.1], [1.0, -3.1], "missed"),
        ([0.0, 0.0], [0.0, 0.0], "missed"),
        ([np.nan, 1.0], [np.nan, 1.0], "not defined"),
    ],
)
def test_verdicts(networks: list[float], items: list[float], wanted: str) -> None:
    assert judge_effect(compare_with_zero(networks), compare_with_zero(items)) == wanted
