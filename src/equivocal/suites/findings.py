"""From words to findings: means at the critical words, effects with intervals, verdicts.

A finding's effect is its contrast of condition means (for a pair, larger − smaller). Networks and
items are both samples: the effect has one t interval over networks, items averaged, and one over
items, networks averaged. The verdict:

    held            the effect and all of both intervals have the predicted sign
    direction only  the predicted sign, but an interval includes zero (or is undefined)
    missed          not the predicted sign
    reversed        the effect and all of both intervals have the opposite sign
    not defined     the measure has no value at a critical word

The published networks are compared by ratios: see `equivocal.suites.published`.

The interval over items treats them as independent. Where a suite is made by rotation (see
`scripts.make_paradigm_items`: incongruity, relatedness, priming, reversals) they are not: item
i takes its unrelated word from item i + s, so that its effect is δ_i + π_{i+s} − π_i, where π is
what a word contributes in either condition. Every word is heard in both conditions, so all π cancel
in the mean, but they remain in the variance between items. As far as these contributions are
additive, the interval is conservative: wider than it need be.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from equivocal.study.statistics import TTest, one_sample
from equivocal.study.word_measures import MEASURES
from equivocal.suites.published import (
    compare_published,
    compute_ratio,
    explain_missing_ratio,
    find_published,
)
from equivocal.suites.suite import Finding, Suite

TABLES = ("words", "words_summary", "networks", "conditions", "findings")
VERDICTS = ("held", "direction only", "missed", "reversed", "not defined")


def tabulate_all(words: pd.DataFrame, suites: Sequence[Suite]) -> dict[str, pd.DataFrame]:
    """Return all `TABLES` of words that `measure_words` gave, by name."""
    made = (
        tabulate(words, suites)
        for tabulate in (tabulate_networks, tabulate_conditions, tabulate_findings)
    )
    return dict(zip(TABLES, (words, tabulate_words(words), *made), strict=True))


def tabulate_words(words: pd.DataFrame) -> pd.DataFrame:
    """Return each word's mean in each measure, with a 95 % t interval over networks.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    """
    keys = ["suite", "condition", "item", "position", "word", "critical", "measure"]
    return pd.DataFrame(
        dict(zip(keys, key, strict=True)) | _compute_mean(values)
        for key, values in words.groupby(keys, sort=False)["value"]
    )


def tabulate_conditions(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Return each condition's mean at the critical word, with an interval over networks.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    suites : sequence of Suite
        Those that were measured.
    """
    rows = []
    for suite, measure, values in _split_by_suite(words, suites):
        published = find_published(suite, measure)
        for c, (condition, published_as) in enumerate(suite.conditions.items()):
            rows.append(
                {
                    "suite": suite.name,
                    "measure": measure,
                    "condition": condition,
                    **_compute_mean(values[:, c].mean(axis=1)),
                    "items": len(suite.items),
                    "published_as": published_as,
                    "published_mean": float(np.mean(published.get(condition, np.nan))),
                }
            )
    return pd.DataFrame(rows)


def tabulate_networks(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Return each network's mean in each condition, ours and (`published`) those of 2018.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    suites : sequence of Suite
        Those that were measured.
    """
    rows = []
    for suite, measure, values in _split_by_suite(words, suites):
        ours = dict(zip(suite.conditions, values.mean(axis=2).T, strict=True))
        for published, means in ((False, ours), (True, find_published(suite, measure))):
            about = {"suite": suite.name, "measure": measure, "published": published}
            rows += [
                about | {"condition": condition, "network": network, "mean": float(mean)}
                for condition, by_network in means.items()
                for network, mean in enumerate(by_network)
            ]
    return pd.DataFrame(rows)


def tabulate_findings(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Return effect, intervals, verdict and ratio of each finding in each measure.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    suites : sequence of Suite
        Those that were measured.
    """
    return pd.DataFrame(
        _judge_finding(suite, finding, measure, values)
        for suite, measure, values in _split_by_suite(words, suites)
        for finding in suite.findings
    )


def _judge_finding(
    suite: Suite, finding: Finding, measure: str, values: np.ndarray
) -> dict[str, object]:
    """Return one row of `tabulate_findings`, from values (network, condition, item)."""
    conditions = list(suite.conditions)
    chosen = values[:, [conditions.index(name) for name in finding.contrast]]
    effect = np.einsum("c,nci->ni", list(finding.contrast.values()), chosen)
    by_network, by_item = one_sample(effect.mean(axis=1)), one_sample(effect.mean(axis=0))
    means = chosen.mean(axis=2)
    return {
        "suite": suite.name,
        "source": finding.source,
        "measure": measure,
        "exploratory": MEASURES[measure].exploratory,
        "finding": finding.says,
        "contrast": _spell_contrast(finding),
        "effect": by_network.mean,
        "network_low": by_network.ci_low,
        "network_high": by_network.ci_high,
        "item_low": by_item.ci_low,
        "item_high": by_item.ci_high,
        "networks": by_network.n,
        "items": by_item.n,
        "d_networks": by_network.effect,
        "d_items": by_item.effect,
        "verdict": judge_effect(by_network, by_item),
        **compute_ratio("ratio", finding, means, measure),
        "no_ratio": explain_missing_ratio(finding, means, measure),
        **compare_published(suite, finding, measure),
    }


def judge_effect(by_network: TTest, by_item: TTest) -> str:
    """Return which of `VERDICTS` the two tests of one effect give."""
    effect = by_network.mean
    if not np.isfinite(effect):
        return "not defined"
    if effect > 0:
        lows = (by_network.ci_low, by_item.ci_low)
        return "held" if all(low > 0 for low in lows) else "direction only"
    highs = (by_network.ci_high, by_item.ci_high)
    return "reversed" if all(high < 0 for high in highs) else "missed"


def _compute_mean(values: np.ndarray | pd.Series) -> dict[str, float]:
    """Return the mean over networks with its interval."""
    test = one_sample(values)
    return {
        "mean": test.mean,
        "ci_low": test.ci_low,
        "ci_high": test.ci_high,
        "networks": test.n,
    }


def _split_by_suite(
    words: pd.DataFrame, suites: Sequence[Suite]
) -> Iterator[tuple[Suite, str, np.ndarray]]:
    """Yield the critical words of each suite and measure, (network, condition, item)."""
    critical = words[words["critical"]]
    for suite in suites:
        own = critical[critical["suite"] == suite.name]
        for measure in own["measure"].unique():
            if measure not in MEASURES:
                continue  # the surprise about one role is measured at each word; none predicts it
            cells = own[own["measure"] == measure].set_index(["network", "condition", "item"])
            axes = (cells.index.unique("network"), list(suite.conditions), suite.items)
            values = cells["value"].reindex(pd.MultiIndex.from_product(axes)).to_numpy(float)
            yield suite, str(measure), values.reshape([len(axis) for axis in axes])


def _spell_contrast(finding: Finding) -> str:
    larger = [(name, weight) for name, weight in finding.contrast.items() if weight > 0]
    smaller = [(name, -weight) for name, weight in finding.contrast.items() if weight < 0]
    return " > ".join(
        " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in side)
        for side in (larger, smaller)
    )
