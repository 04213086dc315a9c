"""From made-up words to findings: every number can be worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from equivocal.measuring.figures import draw_overview
from equivocal.measuring.findings import (
    judge_effect,
    summarise_findings,
    tabulate_findings,
)
from equivocal.measuring.measures import MEASURES
from equivocal.measuring.paradigms import PARADIGMS, Paradigm, load_paradigm
from equivocal.statistics.summaries import compare_with_zero


def make_words(
    paradigm: Paradigm, values: np.ndarray, measure: str = "semantic_update"
) -> pd.DataFrame:
    """Make critical words with values (network, condition, item), and others not to be counted."""
    rows = [
        {
            "paradigm": paradigm.name,
            "condition": condition,
            "item": item,
            "network": n,
            **dict.fromkeys(MEASURES, np.nan),
            "critical": critical,
            measure: values[n, c, i] if critical else 1e6,
        }
        for n in range(len(values))
        for c, condition in enumerate(paradigm.conditions)
        for i, item in enumerate(paradigm.items)
        for critical in (False, True)
    ]
    return pd.DataFrame(rows).sample(frac=1, random_state=0)  # order must not matter


def test_effect_intervals_and_ratio_by_hand(chase: Paradigm) -> None:
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


def test_a_contrast_of_three_conditions_by_hand() -> None:
    """Congruent 2, reversal 3, incongruent 7: 7 + 2 − 2·3 = 3, and the ratio is 9/6."""
    paradigm = load_paradigm("reversal_anomaly")
    rng = np.random.default_rng(0)
    values = np.array([2.0, 3.0, 7.0])[None, :, None] + rng.normal(0, 1e-3, (4, 3, 8))
    table = tabulate_findings(make_words(paradigm, values), [paradigm]).set_index("contrast")
    nearer = table.loc["incongruent + congruent > 2 reversal"]
    assert nearer["effect"] == pytest.approx(3, abs=0.01)
    assert nearer["ratio"] == pytest.approx(1.5, abs=0.01)
    assert table["verdict"].tolist() == ["held"] * 4
    assert (table["published_ratio"] > 1).all()


def test_the_published_ratio_is_that_of_the_published_means() -> None:
    paradigm = load_paradigm("cloze_probability")
    table = tabulate_findings(make_words(paradigm, np.ones((2, 2, 12))), [paradigm])
    # means over ten networks in `semantic_update_2018.csv`: 1.2074 and 0.9694, so about 1.245
    assert table["published_ratio"].item() == pytest.approx(1.2409, abs=1e-4)
    assert table["published_ratio_low"].item() < 1.2409 < table["published_ratio_high"].item()


def test_a_measure_without_values_is_not_defined_and_others_are_kept() -> None:
    """Beliefs have no predecessor at the first word, but have one at all later words."""
    paradigm = load_paradigm("sentence_position")
    values = np.random.default_rng(0).uniform(21, 22, (3, 4, 8)) - 4 * np.arange(4)[:, None]
    values[:, 0] = np.nan
    table = tabulate_findings(make_words(paradigm, values, "bayesian_surprise"), [paradigm])
    assert table["verdict"].tolist() == ["not defined", "held", "held"]
    assert table["ratio"].isna().tolist() == [True, False, False]
    assert table["exploratory"].all()


def test_items_that_miss_a_condition_do_not_count(chase: Paradigm) -> None:
    """Designs may be nested: only the first item has both conditions."""
    rows = {place: row for place, row in chase.rows.items() if place != ("odd", "cat")}
    values = np.array([[[1.0, 50.0], [4.0, 0.0]], [[1.0, 60.0], [5.0, 0.0]]])
    words = make_words(chase, values).query("condition != 'odd' or item != 'cat'")
    (row,) = tabulate_findings(words, [replace(chase, rows=rows)]).to_dict("records")
    assert (row["effect"], row["items"]) == (3.5, 1)


def test_findings_are_judged_by_the_measures_that_they_name() -> None:
    paradigm = load_paradigm("impossible_reversals")
    values = np.ones((2, 3, 8)) * np.array([1.0, 2.0, 5.0])[:, None]  # reversal, then incongruent
    for measure, held in (("exact_surprise", [True] * 3), ("exact_p600", [True, False])):
        table = tabulate_findings(make_words(paradigm, values, measure), [paradigm])
        assert (table["verdict"] == "held").tolist() == held
        turned = tabulate_findings(make_words(paradigm, -values, measure), [paradigm])
        assert (turned["verdict"] == "reversed").tolist() == held
        values[0, 0, 0] = np.nan  # the world has no truth about an item
        table = tabulate_findings(make_words(paradigm, values, measure), [paradigm])
        assert len(table) == 1  # the finding without that condition
        values[0, 0, 0] = 1
    assert tabulate_findings(make_words(paradigm, values, "uncertainty"), [paradigm]).empty


def test_overview_and_summary_show_every_finding_and_2018() -> None:
    rng, parts = np.random.default_rng(0), []
    paradigms = [load_paradigm(name) for name in PARADIGMS]
    for paradigm in paradigms:
        shape = (3, len(paradigm.conditions), len(paradigm.items))
        values = 2 + np.arange(shape[1])[:, None] + rng.normal(0, 0.1, shape)
        parts.append(make_words(paradigm, values))
    words = pd.concat(parts)
    findings = tabulate_findings(words, paradigms)
    printed = list(summarise_findings(findings))
    at = printed.index(
        "held            reversal_anomaly: reversal > congruent – "
        "Rabovsky, Hansen & McClelland (2018)"
    )
    assert printed[at + 1].endswith("; 2018 1.14 (0.975 to 1.34)")
    ratios, verdicts = draw_overview(findings, {one.name: one.title for one in paradigms}).axes
    labels = [text.get_text() for text in ratios.get_yticklabels()]
    assert len(labels) == len(findings) == 15
    assert sum(len(line.get_xdata()) for line in verdicts.lines) == 15


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
