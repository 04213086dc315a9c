"""Findings from measured words: means at the critical words, effects with intervals, verdicts.

A finding's effect is its contrast of condition means (for a pair, larger − smaller). Networks and
items are both samples: the effect has one t interval over networks, items averaged, and one over
items, networks averaged. The verdict:

    held            the effect and all of both intervals have the predicted sign
    direction only  the predicted sign, but an interval includes zero (or is undefined)
    missed          not the predicted sign
    reversed        the effect and all of both intervals have the opposite sign
    not defined     the measure has no value at a critical word

Effects cannot be compared between networks of different design, such as ours and the published ones
of 2018. Ratios can, of what is predicted to be larger to what is predicted to be smaller:

    Σ_{w>0} w·m / Σ_{w<0} |w|·m        m: condition means, w: the contrast's weights

For a pair this is the ratio of the two means. Over networks it is the geometric mean, with a t
interval of the logarithms.

The interval over items treats them as independent. Where a suite is made by rotation (see
`scripts.make_paradigm_items`: incongruity, relatedness, priming, reversals) they are not: item
i takes its unrelated word from item i + s, so that its effect is δ_i + π_{i+s} − π_i, where π is
what a word contributes in either condition. Every word is heard in both conditions, so all π cancel
in the mean, but they remain in the variance between items. As far as these contributions are
additive, the interval is conservative, that is, wider than necessary.

The rule for verdicts is `judge_effect`; a new verdict is added to `VERDICTS` here and to
`LOOK` in `equivocal.measuring.figures`.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from equivocal.measuring.suite import Finding, Suite, find_published
from equivocal.measuring.word_measures import MEASURES
from equivocal.statistics.summaries import TTest, compare_with_zero

TABLES = ("words", "words_summary", "networks", "conditions", "findings")
INDENT = 16  # wide enough for the longest verdict
Row = dict[Hashable, Any]
VERDICTS = ("held", "direction only", "missed", "reversed", "not defined")


def tabulate_all(words: pd.DataFrame, suites: Sequence[Suite]) -> dict[str, pd.DataFrame]:
    """Return all `TABLES` by name, from the words that `measure_words` returned."""
    makers = (tabulate_networks, tabulate_conditions, tabulate_findings)
    tables = [words, tabulate_words(words), *(make(words, suites) for make in makers)]
    return dict(zip(TABLES, tables, strict=True))


def tabulate_words(words: pd.DataFrame) -> pd.DataFrame:
    """Tabulate each word's mean in each measure, with a 95 % t interval over networks.

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
    """Tabulate each condition's mean at the critical word, with an interval over networks.

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
    """Tabulate each network's mean in each condition, of our networks and those published in 2018.

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
    """Tabulate effect, intervals, verdict and ratio of each finding in each measure.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    suites : sequence of Suite
        Those that were measured.

    Returns
    -------
    DataFrame
        A row for each suite, finding and measure.
    """
    return pd.DataFrame(
        _judge_finding(suite, finding, measure, values)
        for suite, measure, values in _split_by_suite(words, suites)
        for finding in suite.findings
        if finding.signal == "N400"  # no measure of networks is linked with the P600
    )


def _judge_finding(
    suite: Suite, finding: Finding, measure: str, values: np.ndarray
) -> dict[str, object]:
    """Return one row of `tabulate_findings`, from values (network, condition, item)."""
    conditions = list(suite.conditions)
    chosen = values[:, [conditions.index(name) for name in finding.contrast]]
    effect = np.einsum("c,nci->ni", list(finding.contrast.values()), chosen)
    by_network, by_item = (compare_with_zero(effect.mean(axis=axis)) for axis in (1, 0))
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
    """Return the verdict, one of `VERDICTS`, of an effect tested over networks and over items."""
    ends = [[test.ci_low, test.ci_high] for test in (by_network, by_item)]
    return judge_sign(by_network.mean, float(np.min(ends)), float(np.max(ends)))


def judge_sign(effect: float, low: float, high: float) -> str:
    """Return the verdict, one of `VERDICTS`, of an effect and the ends of its range."""
    if not np.isfinite(effect):
        return "not defined"
    if effect > 0:
        return "held" if low > 0 else "direction only"
    return "reversed" if high < 0 else "missed"


def _compute_mean(values: np.ndarray | pd.Series) -> dict[str, float]:
    """Return the mean over networks with its interval."""
    t = compare_with_zero(values)
    return {"mean": t.mean, "ci_low": t.ci_low, "ci_high": t.ci_high, "networks": t.n}


def _split_by_suite(
    words: pd.DataFrame, suites: Sequence[Suite]
) -> Iterator[tuple[Suite, str, np.ndarray]]:
    """Yield the critical words of each suite and measure, (network, condition, item)."""
    critical = words[words["critical"]]
    for suite in suites:
        own = critical[critical["suite"] == suite.name]
        for measure in own["measure"].unique():
            if measure not in MEASURES:
                continue  # no finding is about the surprise by role, which is shown word by word
            cells = own[own["measure"] == measure].set_index(["network", "condition", "item"])
            axes = (cells.index.unique("network"), list(suite.conditions), suite.items)
            values = cells["value"].reindex(pd.MultiIndex.from_product(axes)).to_numpy(float)
            yield suite, str(measure), values.reshape([len(axis) for axis in axes])


def _spell_contrast(finding: Finding) -> str:
    """Write a contrast as text, such as "incongruent > congruent"."""
    larger = [(name, weight) for name, weight in finding.contrast.items() if weight > 0]
    smaller = [(name, -weight) for name, weight in finding.contrast.items() if weight < 0]
    return " > ".join(
        " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in side)
        for side in (larger, smaller)
    )


def compare_published(suite: Suite, finding: Finding, measure: str) -> dict[str, float | str]:
    """Return the direction and ratio of the published networks, if they heard these conditions."""
    published, direction = find_published(suite, measure), ""
    means = np.empty((0, len(finding.contrast)))
    if finding.contrast.keys() <= published.keys():
        means = np.stack([published[name] for name in finding.contrast], axis=1)
    columns = compute_ratio("published_ratio", finding, means, measure)
    if len(means):
        direction = "as predicted" if columns["published_ratio"] > 1 else "the other way"
    return {"published_direction": direction, **columns}


def compute_ratio(name: str, finding: Finding, means: np.ndarray, measure: str) -> dict[str, float]:
    """Return the ratio of means (network, condition) with its interval; NaN where undefined."""
    above, below = _sum_sides(finding, means)
    defined = not explain_missing_ratio(finding, means, measure)
    test = compare_with_zero(np.log(above / below) if defined else np.full(len(means), np.nan))
    ends = np.exp([test.mean, test.ci_low, test.ci_high])
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))


def explain_missing_ratio(finding: Finding, means: np.ndarray, measure: str) -> str:
    """Say why means (network, condition) have no ratio; return "" if they have one."""
    if not np.isfinite(means).all():
        return "the measure has no value at a critical word"
    if MEASURES[measure].signed:
        return "the measure can be negative"
    if not all((side > 0).all() for side in _sum_sides(finding, means)):
        return "a mean is not above zero"
    return ""


def _sum_sides(finding: Finding, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted sums of the larger and the smaller side of a contrast, per network."""
    weights = np.array(list(finding.contrast.values()))
    return means @ np.maximum(weights, 0), means @ np.maximum(-weights, 0)


def summarise_findings(findings: pd.DataFrame) -> Iterator[str]:
    """Yield lines on each finding: verdict, contrast and source; effect; ratios, ours and of 2018.

    Parameters
    ----------
    findings : DataFrame
        As returned by `tabulate_findings`.
    """
    for measure, rows in findings.groupby("measure", sort=False):
        kind = " (exploratory)" if MEASURES[str(measure)].exploratory else ""
        held = int((rows["verdict"] == "held").sum())
        yield f"{measure}{kind}: {held} of {len(rows)} held"
        for row in rows.to_dict("records"):
            source = f" – {row['source']}" if row["source"] else ""
            yield f"{row['verdict']:<{INDENT}}{row['suite']}: {row['contrast']}{source}"
            yield " " * INDENT + _describe_effect(row)
            yield " " * INDENT + f"{_describe_ratio(row)}; 2018: {_describe_published(row)}"
    yield (
        "Effect: the contrast of condition means, with 95 % intervals over "
        f"{findings['networks'].iloc[0]} networks and over items. Ratio: of the means, with its "
        "interval over networks, and that of the networks published in 2018."
    )


def _describe_effect(row: Row) -> str:
    """Describe the effect with its intervals over networks and over items."""
    networks = _format_interval(row["network_low"], row["network_high"])
    items = _format_interval(row["item_low"], row["item_high"])
    return f"effect {_format_number(row['effect'])}, networks {networks}, items {items}"


def _describe_ratio(row: Row) -> str:
    """Describe the ratio of means, or say why there is none."""
    if row["no_ratio"]:
        return f"no ratio, since {row['no_ratio']}"
    return f"ratio {_format_estimate(row, 'ratio')}"


def _describe_published(row: Row) -> str:
    """Describe the ratio and the direction of the published networks."""
    if not row["published_direction"]:
        return "not published"
    return f"{_format_estimate(row, 'published_ratio')}, {row['published_direction']}"


def _format_estimate(row: Row, name: str) -> str:
    """Format a number with its interval in brackets."""
    interval = _format_interval(row[f"{name}_low"], row[f"{name}_high"])
    return f"{_format_number(row[name])} ({interval})"


def _format_number(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _format_interval(low: float, high: float) -> str:
    return "no interval" if np.isnan(low) else f"{_format_number(low)} to {_format_number(high)}"
