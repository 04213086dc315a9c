"""The published networks of 2018 beside ours, by ratios of condition means.

`published_2018.csv` holds the mean semantic update of each published network in each condition
(Rabovsky, Hansen & McClelland 2018, standard model). Amounts cannot be compared between networks of
different make; ratios can, of what is predicted to be larger to what is predicted to be smaller:

    Σ_{w>0} w·m / Σ_{w<0} |w|·m        m: condition means, w: the contrast's weights

For a pair this is the ratio of the two means. Over networks it is the geometric mean, with a t
interval of the logarithms.
"""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from equivocal.errors import UserError, did_you_mean, join_names
from equivocal.store import read_table
from equivocal.study.statistics import one_sample
from equivocal.study.word_measures import MEASURES

if TYPE_CHECKING:
    from equivocal.suites.suite import Finding, Suite


PUBLISHED = resources.files("equivocal.suites") / "data" / "published_2018.csv"
PUBLISHED_MEASURE = "semantic_update"


@cache
def load_published_means() -> pd.DataFrame:
    """Load the mean semantic update of the published networks.

    Returns
    -------
    DataFrame
        A row for each network and a column for each condition.
    """
    table = read_table(str(PUBLISHED))
    return table.pivot(index="network", columns="condition", values="semantic_update")


def check_published(name: str, where: str) -> None:
    """Refuse a published condition that does not exist; an empty name stands for none."""
    known = list(map(str, load_published_means()))
    if name and name not in known:
        every = join_names(known, most=len(known))
        hint = did_you_mean(name, known) or f"; give one of {every}, or ''."
        raise UserError(f"{where}: unknown published condition {name!r:.80}{hint}")


def find_published(suite: "Suite", measure: str) -> dict[str, np.ndarray]:
    """Return the published networks' means by our name of the condition, where there are any."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = load_published_means()
    return {
        name: known[published].to_numpy(float)
        for name, published in suite.conditions.items()
        if published in known
    }


def compare_published(suite: "Suite", finding: "Finding", measure: str) -> dict[str, float | str]:
    """Return direction and ratio in the published networks, where they heard these conditions."""
    published, direction = find_published(suite, measure), ""
    means = np.empty((0, len(finding.contrast)))
    if all(name in published for name in finding.contrast):
        means = np.stack([published[name] for name in finding.contrast], axis=1)
    columns = compute_ratio("published_ratio", finding, means, measure)
    if len(means):
        direction = "as predicted" if columns["published_ratio"] > 1 else "the other way"
    return {"published_direction": direction, **columns}


def compute_ratio(
    name: str, finding: "Finding", means: np.ndarray, measure: str
) -> dict[str, float]:
    """Return the ratio of means (network, condition) with its interval; NaN where undefined."""
    above, below = _sum_sides(finding, means)
    defined = not explain_missing_ratio(finding, means, measure)
    test = one_sample(np.log(above / below) if defined else np.full(len(means), np.nan))
    ends = np.exp([test.mean, test.ci_low, test.ci_high])
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))


def explain_missing_ratio(finding: "Finding", means: np.ndarray, measure: str) -> str:
    """Say why means (network, condition) have no ratio; empty where they have one."""
    if not np.isfinite(means).all():
        return "the measure has no value at a critical word"
    if MEASURES[measure].signed:
        return "the measure can be negative"
    if not all((side > 0).all() for side in _sum_sides(finding, means)):
        return "a mean is not above zero"
    return ""


def _sum_sides(finding: "Finding", means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what counts for the finding and what against it, for each network."""
    weights = np.array(list(finding.contrast.values()))
    return means @ np.maximum(weights, 0), means @ np.maximum(-weights, 0)
