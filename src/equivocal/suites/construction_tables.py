"""From readings to tables: shares and beliefs with intervals over networks and over items.

Networks and items are both samples. A mean has one 95 % interval over networks, items averaged, and
one over items, networks averaged; of a single one there is none. Those of beliefs are t intervals,
cut at 0 and 1. Shares are often exactly 0 or 1 in all n networks (or items), where there is no
spread for t. Their interval is that of Clopper & Pearson (1934, Biometrika 26, 404–413), with the
sum k of the n shares in the place of a count,

    from the 0.025 quantile of Beta(k, n − k + 1), 0 if k = 0
      to the 0.975 quantile of Beta(k + 1, n − k), 1 if k = n                            (1)

so that there is one rule for all shares and no jump between nearly all and all. For k = n it goes
from (0.025)^(1/n) to 1. Where every share is 0 or 1 it is the exact binomial one. In between it is
conservative, since nothing in [0, 1] with mean m varies more than a yes or no of probability m (no
proof; a test counts how often it holds m for shares of two values). It does not use how near to
each other the shares are, and can be much wider than a t interval.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.study.statistics import LEVEL, one_sample
from equivocal.suites.reading import READINGS

__all__ = ["belief_table", "share_table"]

CELLS = ["construction", "condition", "beliefs", "variance", "heard"]
NAN = float("nan")
Interval = Callable[[np.ndarray], tuple[float, float]]  # of means, over networks or over items


def share_table(readings: pd.DataFrame) -> pd.DataFrame:
    """A row for each condition, kind of comprehender and reading: its share, with intervals (1).

    `readings` are rows of `Reader`s.
    """
    rows = []
    for cell, part in _cells(readings):
        for reading in READINGS:
            found = _mean(part, part[reading], "share", _share_interval)
            rows.append({**cell, "reading": reading, **found})
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
                **_mean(part, part["belief"], "belief", _t_interval),
                **_mean(part, error / 2, "error", _t_interval),
                **_correlation(by_item["belief"], by_item["exact"]),
            }
        )
    return pd.DataFrame(rows)


def _cells(readings: pd.DataFrame) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    for key, part in readings.groupby(CELLS, sort=False):
        yield dict(zip(CELLS, key, strict=True)), part


def _mean(part: pd.DataFrame, values: pd.Series, name: str, interval: Interval) -> dict[str, float]:
    """The mean of something between 0 and 1, with both intervals."""
    found = {name: float(values.mean())}
    for over in ("network", "item"):
        means = values.groupby(part[over], sort=False).mean().to_numpy()
        low, high = interval(means)
        found |= {f"{over}s": len(means), f"{name}_{over}_low": low, f"{name}_{over}_high": high}
    return found


def _share_interval(shares: np.ndarray) -> tuple[float, float]:
    """(1), over networks or over items."""
    n = len(shares)
    if n < 2:
        return NAN, NAN
    k, tail = float(np.clip(shares.sum(), 0, n)), (1 - LEVEL) / 2
    low = stats.beta.ppf(tail, k, n - k + 1) if k > 0 else 0.0
    high = stats.beta.isf(tail, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


def _t_interval(means: np.ndarray) -> tuple[float, float]:
    """NaN where there is no spread."""
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
