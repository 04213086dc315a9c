"""From words to findings: what each condition's critical words measure, and which findings held.

A finding's effect is its contrast of condition means (for a pair, larger − smaller). Networks and
items are both samples: the effect has one t interval over networks, items averaged, and one over
items, networks averaged. The verdict:

    held            the effect has the predicted sign, and so has all of both intervals
    direction only  the predicted sign, but an interval reaches zero (or cannot be had)
    missed          not the predicted sign
    reversed        the other sign, and so has all of both intervals
    not defined     the measure has no value at a critical word

Beside it the published model: the same contrast of `published_2018.csv`, semantic update per
condition and network (Rabovsky, Hansen & McClelland 2018, their standard model). Amounts cannot be
compared between networks of another make, ratios can: of what is predicted larger to what is
predicted smaller, Σ_{w>0} w·m / Σ_{w<0} |w|·m, for a pair the ratio of the two means.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from equivocal.reading import read_table
from equivocal.study.statistics import TTest, one_sample
from equivocal.study.word_measures import MEASURES
from equivocal.suites.suite import DATA, Finding, Suite

__all__ = [
    "VERDICTS",
    "condition_table",
    "finding_table",
    "network_means",
    "published_means",
    "verdict",
]

PUBLISHED = "published_2018.csv"
PUBLISHED_MEASURE = "semantic_update"
VERDICTS = ("held", "direction only", "missed", "reversed", "not defined")
NAN = float("nan")


@cache
def published_means() -> pd.DataFrame:
    """Mean semantic update of the published networks: a row per network, a column per condition."""
    table = read_table(str(DATA / PUBLISHED))
    return table.pivot(index="network", columns="condition", values="semantic_update")


def condition_table(words: pd.DataFrame, suites: Sequence[Suite]) -> pd.DataFrame:
    """Each condition's mean at the critical word, with an interval over networks."""
    rows = []
    for suite, measure, values in _by_suite(words, suites):
        for c, (condition, known_as) in enumerate(suite.conditions.items()):
            test = one_sample(values[:, c].mean(axis=1))
            means = _published_of(suite, measure).get(condition)
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
        known = _published_of(suite, measure)
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
        published = _published_of(suite, measure)
        for finding in suite.findings:
            conditions = list(suite.conditions)
            chosen = values[:, [conditions.index(name) for name in finding.contrast]]
            weights = np.array(list(finding.contrast.values()))
            effect = np.einsum("c,nci->ni", weights, chosen)
            by_network, by_item = one_sample(effect.mean(axis=1)), one_sample(effect.mean(axis=0))
            ratio = one_sample(_log_ratio(weights, chosen.mean(axis=2), measure))
            rows.append(
                {
                    "suite": suite.name,
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
                    **_ratio_columns("ratio", ratio),
                    **_beside(finding, published, measure),
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
            cells = own[own["measure"] == measure].set_index(["network", "condition", "item"])
            networks = cells.index.unique("network")
            order = pd.MultiIndex.from_product([networks, suite.conditions, suite.items])
            shape = (len(networks), len(suite.conditions), len(suite.items))
            values = cells["value"].reindex(order).to_numpy(float).reshape(shape)
            found.append((suite, str(measure), values))
    return found


def _published_of(suite: Suite, measure: str) -> dict[str, np.ndarray]:
    """Means of the published networks by our name of the condition; empty where there are none."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = published_means()
    return {
        name: known[known_as].to_numpy(float)
        for name, known_as in suite.conditions.items()
        if known_as in known
    }


def _beside(
    finding: Finding, published: dict[str, np.ndarray], measure: str
) -> dict[str, float | str]:
    """Direction and ratio of the published networks, where they heard these conditions."""
    ratio, direction = one_sample([]), ""
    if all(name in published for name in finding.contrast):
        means = np.stack([published[name] for name in finding.contrast], axis=1)
        weights = np.array(list(finding.contrast.values()))
        ratio = one_sample(_log_ratio(weights, means, measure))
        direction = "as predicted" if ratio.mean > 0 else "the other way"
    return {"published_direction": direction, **_ratio_columns("published_ratio", ratio)}


def _log_ratio(weights: np.ndarray, means: np.ndarray, measure: str) -> np.ndarray:
    """One per network; NaN where the measure can be negative, or is nothing."""
    above, below = means @ np.maximum(weights, 0), means @ np.maximum(-weights, 0)
    if MEASURES[measure].signed or not (np.all(above > 0) and np.all(below > 0)):
        return np.full(len(means), np.nan)
    return np.asarray(np.log(above / below))


def _ratio_columns(name: str, test: TTest) -> dict[str, float]:
    """The geometric mean over networks, with its interval."""
    ends = np.exp([test.mean, test.ci_low, test.ci_high])
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))


def _spelled(finding: Finding) -> str:
    larger = [(name, weight) for name, weight in finding.contrast.items() if weight > 0]
    smaller = [(name, -weight) for name, weight in finding.contrast.items() if weight < 0]
    return " > ".join(
        " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in side)
        for side in (larger, smaller)
    )
