"""Findings from measured words: means at the critical words, effects with intervals, verdicts.

A finding's effect is its contrast of condition means (for a pair, larger − smaller). Networks and
items are both samples: the effect has one t interval over networks, items averaged, and one over
items, networks averaged. The verdict:

    held            the effect and all of both intervals have the predicted sign
    direction only  the predicted sign, but an interval includes zero (or is undefined)
    missed          not the predicted sign
    reversed        the effect and all of both intervals have the opposite sign
    not defined     the measure has no value at a critical word

Exact measures are the same for every network, so their verdict is about items alone: held or
reversed where the effects of all items have the same sign. A finding is judged by the measures that
it names, in the items that have all of its conditions; by an exact measure only where all of their
sentences are possible.

Effects cannot be compared between networks of different design, such as ours and the published ones
of 2018. Ratios can, of what is predicted to be larger to what is predicted to be smaller:

    Σ_{w>0} w·m / Σ_{w<0} |w|·m        m: condition means, w: the contrast's weights

For a pair this is the ratio of the two means. Over networks it is the geometric mean, with a t
interval of the logarithms.

The interval over items treats them as independent. Where items are made by rotation (incongruity,
relatedness, priming, reversals) they are not: item i takes its unrelated word from item i + s, so
that its effect is δ_i + π_{i+s} − π_i, where π is what a word contributes in either condition.
Every word is heard in both conditions, so all π cancel in the mean, but they remain in the variance
between items. As far as these contributions are additive, the interval is conservative, that is,
wider than necessary.

The rule for verdicts is `judge_effect`; a new verdict is added to `VERDICTS` here and to
`LOOK` in `equivocal.measuring.figures`.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from equivocal.measuring.measures import MEASURES
from equivocal.measuring.paradigms import (
    Expectation,
    Paradigm,
    find_published,
)
from equivocal.statistics.summaries import TTest, compare_with_zero

__all__ = ["VERDICTS"]

INDENT = 16  # wide enough for the longest verdict
Row = dict[Hashable, Any]
VERDICTS = ("held", "direction only", "missed", "reversed", "not defined")


def _collect_critical(
    words: pd.DataFrame, paradigm: Paradigm, measure: str, conditions: list[str]
) -> np.ndarray:
    """Return a measure at the critical words of items in all these conditions.

    An array (network, condition, item); NaN where a word has no value.
    """
    own = words[words["critical"] & (words["paradigm"] == paradigm.name)]
    cells = own.set_index(["network", "condition", "item"])[measure]
    whole = [i for i in paradigm.items if all((c, i) in paradigm.rows for c in conditions)]
    axes = (cells.index.unique("network"), conditions, whole)
    values = cells.reindex(pd.MultiIndex.from_product(axes)).to_numpy(float)
    return np.asarray(values.reshape([len(axis) for axis in axes]))


def tabulate_findings(words: pd.DataFrame, paradigms: Sequence[Paradigm]) -> pd.DataFrame:
    """Tabulate effect, intervals, verdict and ratio of each finding in each measure of its signal.

    Parameters
    ----------
    words : DataFrame
        As returned by `measure_words`.
    paradigms : sequence of Paradigm
        Those that were measured.

    Returns
    -------
    DataFrame
        A row for each measure, paradigm and finding.
    """
    rows = []
    for name, measure in MEASURES.items():
        if words[name].isna().all():
            continue
        for paradigm in paradigms:
            for finding in paradigm.expected:
                if name not in finding.measures:
                    continue
                chosen = _collect_critical(words, paradigm, name, list(finding.weights))
                if not measure.exact or bool(np.isfinite(chosen).all()):
                    rows.append(_judge_finding(paradigm, finding, name, chosen))
    return pd.DataFrame(rows)


def _judge_finding(
    paradigm: Paradigm, finding: Expectation, name: str, values: np.ndarray
) -> dict[str, object]:
    """Return one row of `tabulate_findings`, from values (network, condition, item)."""
    effect = np.einsum("c,nci->ni", list(finding.weights.values()), values)
    by_network, by_item = (compare_with_zero(effect.mean(axis=axis)) for axis in (1, 0))
    means, measure = values.mean(axis=2), MEASURES[name]
    ends = (float(effect.min()), float(effect.max()))
    return {
        "paradigm": paradigm.name,
        "source": paradigm.cite(finding),
        "measure": name,
        "exploratory": measure.exploratory,
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
        "verdict": judge_sign(by_network.mean, *ends)
        if measure.exact
        else judge_effect(by_network, by_item),
        **_compute_ratio("ratio", finding, means),
        **_compute_ratio("published_ratio", finding, _stack_published(paradigm, finding, name)),
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


def _spell_contrast(finding: Expectation) -> str:
    """Write a contrast as text, such as "incongruent > congruent"."""
    larger = [(name, weight) for name, weight in finding.weights.items() if weight > 0]
    smaller = [(name, -weight) for name, weight in finding.weights.items() if weight < 0]
    return " > ".join(
        " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in side)
        for side in (larger, smaller)
    )


def _stack_published(paradigm: Paradigm, finding: Expectation, measure: str) -> np.ndarray:
    """Return the published means (network, condition); none if they lack one of the conditions."""
    published = find_published(paradigm, measure)
    if not finding.weights.keys() <= published.keys():
        return np.empty((0, len(finding.weights)))
    return np.stack([published[name] for name in finding.weights], axis=1)


def _compute_ratio(name: str, finding: Expectation, means: np.ndarray) -> dict[str, float]:
    """Return the ratio of means (network, condition) with its interval; NaN unless all are > 0."""
    weights = np.array(list(finding.weights.values()))
    above, below = means @ np.maximum(weights, 0), means @ np.maximum(-weights, 0)
    defined = bool((above > 0).all() and (below > 0).all())
    test = compare_with_zero(np.log(above / below) if defined else np.full(len(means), np.nan))
    ends = np.exp([test.mean, test.ci_low, test.ci_high])
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))


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
            yield f"{row['verdict']:<{INDENT}}{row['paradigm']}: {row['contrast']}{source}"
            yield " " * INDENT + "; ".join(_describe_numbers(row))
    yield (
        "Effect: the contrast of condition means, with 95 % intervals over "
        f"{findings['networks'].iloc[0]} networks and over items. Ratio: of the means, with its "
        "interval over networks, and that of the networks published in 2018."
    )


def _describe_numbers(row: Row) -> Iterator[str]:
    """Describe the effect and, where there are any, our ratio and the published one."""
    over = (_format_interval(row[f"{one}_low"], row[f"{one}_high"]) for one in ("network", "item"))
    networks, items = over
    yield f"effect {_format_number(row['effect'])}, networks {networks}, items {items}"
    for name, title in (("ratio", "ratio"), ("published_ratio", "2018")):
        if not np.isnan(row[name]):
            interval = _format_interval(row[f"{name}_low"], row[f"{name}_high"])
            yield f"{title} {_format_number(row[name])} ({interval})"


def _format_number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _format_interval(low: float, high: float) -> str:
    return "no interval" if np.isnan(low) else f"{_format_number(low)} to {_format_number(high)}"
