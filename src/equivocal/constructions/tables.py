"""From readings to tables: shares and beliefs with intervals over networks and over items.

Networks and items are both samples. A mean has one 95 % t interval over networks, items averaged,
and one over items, networks averaged; intervals of shares are cut at 0 and 1. Where all n networks
(or items) agree on a share of exactly 0 or 1, a t interval does not exist. There the interval is
the exact binomial one (Clopper & Pearson 1934, Biometrika 26, 404–413), which for n of n is

    from (0.025)^(1/n) to 1

It holds for mean shares, too: of shares X in [0, 1] with mean m, all n are 1 with a probability of
P(X = 1)^n ≤ m^n. There is no interval where n = 1, or where all agree on something in between.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.constructions.reading import READINGS
from equivocal.study.statistics import LEVEL, one_sample

__all__ = ["belief_table", "share_table"]

CELLS = ["construction", "condition", "beliefs", "variance", "heard"]
NAN = float("nan")


def share_table(readings: pd.DataFrame) -> pd.DataFrame:
    """A row for each condition, kind of comprehender and reading: its share, with intervals.

    `readings` are rows of `Reader`s. Intervals are t intervals, but exact binomial ones where a
    share is 0 or 1; see above.
    """
    rows = []
    for cell, part in _cells(readings):
        for reading in READINGS:
            rows.append({**cell, "reading": reading, **_mean(part, part[reading], "share")})
    return pd.DataFrame(rows)


def belief_table(readings: pd.DataFrame) -> pd.DataFrame:
    """How far beliefs are from the exact ones, where the world says the sentences.

    `error` is the mean |belief − exact| over the items' answers and rivals; `correlation` is that
    of belief and exact belief over items, networks averaged, with Fisher's interval; `exact_low`
    and `exact_high` are the least and the largest exact belief. NaN where the world never says
    these sentences.
    """
    rows = []
    for cell, part in _cells(readings):
        error = (part["belief"] - part["exact"]).abs() + (
            part["rival_belief"] - part["rival_exact"]
        ).abs()
        by_item = part.groupby("item", sort=False)[["belief", "exact"]].mean()
        rows.append(
            {
                **cell,
                "exact": part["exact"].mean(),
                "exact_low": part["exact"].min(),
                "exact_high": part["exact"].max(),
                **_mean(part, part["belief"], "belief"),
                **_mean(part, error / 2, "error"),
                **_correlation(by_item["belief"], by_item["exact"]),
            }
        )
    return pd.DataFrame(rows)


def _cells(readings: pd.DataFrame) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    for key, part in readings.groupby(CELLS, sort=False):
        yield dict(zip(CELLS, key, strict=True)), part


def _mean(part: pd.DataFrame, values: pd.Series, name: str) -> dict[str, float]:
    """The mean of something between 0 and 1, with both intervals."""
    found = {name: float(values.mean())}
    for over in ("network", "item"):
        means = values.groupby(part[over], sort=False).mean().to_numpy()
        low, high = _interval(means)
        found |= {f"{over}s": len(means), f"{name}_{over}_low": low, f"{name}_{over}_high": high}
    return found


def _interval(means: np.ndarray) -> tuple[float, float]:
    """95 %, over networks or over items; NaN where there is none."""
    n = len(means)
    if n > 1 and (np.all(means == 0) or np.all(means == 1)):
        exact = stats.binomtest(n if means[0] else 0, n).proportion_ci(LEVEL, "exact")
        return float(exact.low), float(exact.high)
    test = one_sample(means)
    low, high = np.clip([test.ci_low, test.ci_high], 0, 1)  # keeps NaN
    return float(low), float(high)


def _correlation(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Pearson's, with Fisher's interval; NaN where one of the two does not vary."""
    a, b = first.to_numpy(float), second.to_numpy(float)
    names = ("correlation", "correlation_item_low", "correlation_item_high")
    if len(a) < 4 or not (np.ptp(a) > 1e-9 and np.ptp(b) > 1e-9):  # NaN compares as False
        return dict.fromkeys(names, NAN)
    found = stats.pearsonr(a, b)
    low, high = found.confidence_interval(LEVEL)
    return dict(zip(names, map(float, (found.statistic, low, high)), strict=True))
