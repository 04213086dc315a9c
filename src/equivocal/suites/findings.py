"""From words to findings: what each condition's critical words measure, and which findings held.

A finding's effect is its contrast of condition means (for a pair, larger − smaller). Networks and
items are both samples: the effect has one t interval over networks, items averaged, and one over
items, networks averaged. The verdict:

    held            the effect has the predicted sign, and so has all of both intervals
    direction only  the predicted sign, but an interval reaches zero (or cannot be had)
    missed          not the predicted sign
    reversed        the other sign, and so has all of both intervals
    not defined     the measure has no value at a critical word

Beside it the published model, by ratios: see `equivocal.suites.published`.

The interval over items takes them as independent. Where a suite is made by rotation (see
`equivocal.suites.making`: incongruity, relatedness, priming, reversals) they are not: item i takes
its unrelated word from item i + s, so that its effect is δ_i + π_{i+s} − π_i, π being what a word
gives wherever it stands. Every word is heard in both conditions, so that all π cancel in the mean;
but they stay in the spread between items. As far as what words give adds up in this way, the
interval is wider than it need be: it is conservative.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from equivocal.study.statistics import TTest, one_sample
from equivocal.study.word_measures import MEASURES
from equivocal.suites.published import beside, no_ratio, published_of, ratio_columns
from equivocal.suites.suite import Finding, Suite

__all__ = [
    "VERDICTS",
    "condition_table",
    "finding_table",
    "network_means",
    "verdict",
    "word_table",
]

VERDICTS = ("held", "direction only", "missed", "reversed", "not defined")
NAN = float("nan")


def word_table(words: pd.DataFrame) -> pd.DataFrame:
    """Each word's mean in each measure, with a 95 % t interval over networks."""
    keys = ["suite", "condition", "item", "position", "word", "critical", "measure"]
    rows = []
    for key, values in words.groupby(keys, sort=False)["value"]:
        test = one_sample(values)
        ends = {"mean": test.mean, "ci_low": test.ci_low, "ci_high": test.ci_high}
        rows.append(dict(zip(keys, key, strict=True)) | ends | {"networks": test.n})
    return pd.DataFrame(rows)


def condition_table(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Each condition's mean at the critical word, with an interval over networks."""
    rows = []
    for suite, measure, values in _by_suite(words, suites):
        for c, (condition, known_as) in enumerate(suite.conditions.items()):
            test = one_sample(values[:, c].mean(axis=1))
            means = published_of(suite, measure).get(condition)
            rows.append(
                {
                    "suite": suite.name,
                    "measure": measure,
                    "condition": condition,
                    "mean": test.mean,
                    "ci_low": test.ci_low,
                    "ci_high": test.ci_high,
                    "networks": test.n,
                    "items": len(suite.items),
                    "published_as": known_as,
                    "published_mean": NAN if means is None else float(means.mean()),
                }
            )
    return pd.DataFrame(rows)


def network_means(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Each network's mean in each condition, ours and (`published`) those of 2018."""
    rows = []
    for suite, measure, values in _by_suite(words, suites):
        known = published_of(suite, measure)
        ours = dict(zip(suite.conditions, values.mean(axis=2).T, strict=True))
        for published, means in ((False, ours), (True, known)):
            for condition, by_network in means.items():
                rows += [
                    {
                        "suite": suite.name,
                        "measure": measure,
                        "published": published,
                        "condition": condition,
                        "network": network,
                        "mean": float(mean),
                    }
                    for network, mean in enumerate(by_network)
                ]
    return pd.DataFrame(rows)


def finding_table(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """A row for each finding and measure; see above."""
    rows = []
    for suite, measure, values in _by_suite(words, suites):
        for finding in suite.findings:
            conditions = list(suite.conditions)
            chosen = values[:, [conditions.index(name) for name in finding.contrast]]
            effect = np.einsum("c,nci->ni", list(finding.contrast.values()), chosen)
            by_network, by_item = one_sample(effect.mean(axis=1)), one_sample(effect.mean(axis=0))
            means = chosen.mean(axis=2)
            rows.append(
                {
                    "suite": suite.name,
                    "source": finding.source,
                    "measure": measure,
                    "exploratory": MEASURES[measure].exploratory,
                    "finding": finding.says,
                    "contrast": _spelled(finding),
                    "effect": by_network.mean,
                    "network_low": by_network.ci_low,
                    "network_high": by_network.ci_high,
                    "item_low": by_item.ci_low,
                    "item_high": by_item.ci_high,
                    "networks": by_network.n,
                    "items": by_item.n,
                    "d_networks": by_network.effect,
                    "d_items": by_item.effect,
                    "verdict": verdict(by_network, by_item),
                    **ratio_columns("ratio", finding, means, measure),
                    "no_ratio": no_ratio(finding, means, measure),
                    **beside(suite, finding, measure),
                }
            )
    return pd.DataFrame(rows)


def verdict(by_network: TTest, by_item: TTest) -> str:
    """Which of `VERDICTS` the two tests of one effect give."""
    effect = by_network.mean
    if not np.isfinite(effect):
        return "not defined"
    lows, highs = (by_network.ci_low, by_item.ci_low), (by_network.ci_high, by_item.ci_high)
    if effect > 0:
        return "held" if all(low > 0 for low in lows) else "direction only"
    return "reversed" if all(high < 0 for high in highs) else "missed"


def _by_suite(words: pd.DataFrame, suites: Sequence[Suite]) -> list[tuple[Suite, str, np.ndarray]]:
    """For each suite and measure the critical words, (network, condition, item)."""
    critical = words[words["critical"]]
    found = []
    for suite in suites:
        own = critical[critical["suite"] == suite.name]
        for measure in own["measure"].unique():
            if measure not in MEASURES:
                continue  # about one role: told for each word, but no finding is of it
            cells = own[own["measure"] == measure].set_index(["network", "condition", "item"])
            networks = cells.index.unique("network")
            order = pd.MultiIndex.from_product([networks, suite.conditions, suite.items])
            shape = (len(networks), len(suite.conditions), len(suite.items))
            values = cells["value"].reindex(order).to_numpy(float).reshape(shape)
            found.append((suite, str(measure), values))
    return found


def _spelled(finding: Finding) -> str:
    larger = [(name, weight) for name, weight in finding.contrast.items() if weight > 0]
    smaller = [(name, -weight) for name, weight in finding.contrast.items() if weight < 0]
    return " > ".join(
        " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in side)
        for side in (larger, smaller)
    )
