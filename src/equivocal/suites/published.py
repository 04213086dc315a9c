"""The model of 2018 beside ours, by ratios, which alone can be compared.

Amounts cannot be, between networks of another make; ratios can: of what is predicted larger to what
is predicted smaller,

    Σ_{w>0} w·m / Σ_{w<0} |w|·m        m: condition means, w: the contrast's weights

for a pair the ratio of the two means. Over networks it is their geometric mean, with a t interval
of the logarithms.
"""

import numpy as np

from equivocal.study.statistics import one_sample
from equivocal.study.word_measures import MEASURES
from equivocal.suites.reference import published_means
from equivocal.suites.suite import Finding, Suite

__all__ = ["beside", "no_ratio", "published_of", "ratio_columns"]

PUBLISHED_MEASURE = "semantic_update"


def published_of(suite: Suite, measure: str) -> dict[str, np.ndarray]:
    """Means of the published networks by our name of the condition; empty where there are none."""
    if measure != PUBLISHED_MEASURE:
        return {}
    known = published_means()
    return {
        name: known[known_as].to_numpy(float)
        for name, known_as in suite.conditions.items()
        if known_as in known
    }


def beside(suite: Suite, finding: Finding, measure: str) -> dict[str, float | str]:
    """Direction and ratio of the published networks, where they heard these conditions."""
    published, direction = published_of(suite, measure), ""
    means = np.empty((0, len(finding.contrast)))
    if all(name in published for name in finding.contrast):
        means = np.stack([published[name] for name in finding.contrast], axis=1)
    columns = ratio_columns("published_ratio", finding, means, measure)
    if len(means):
        direction = "as predicted" if columns["published_ratio"] > 1 else "the other way"
    return {"published_direction": direction, **columns}


def ratio_columns(name: str, finding: Finding, means: np.ndarray, measure: str) -> dict[str, float]:
    """The ratio with its interval, of means (network, condition); NaN where there is none."""
    above, below = _sides(finding, means)
    defined = not no_ratio(finding, means, measure)
    test = one_sample(np.log(above / below) if defined else np.full(len(means), np.nan))
    ends = np.exp([test.mean, test.ci_low, test.ci_high])
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(float, ends), strict=True))


def no_ratio(finding: Finding, means: np.ndarray, measure: str) -> str:
    """Why means (network, condition) have no ratio; empty where they have."""
    if not np.isfinite(means).all():
        return "the measure has no value at a critical word"
    if MEASURES[measure].signed:
        return "the measure can be negative"
    if not all((side > 0).all() for side in _sides(finding, means)):
        return "a mean is not above zero"
    return ""


def _sides(finding: Finding, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What counts for the finding and what against it, one of each per network."""
    weights = np.array(list(finding.contrast.values()))
    return means @ np.maximum(weights, 0), means @ np.maximum(-weights, 0)
