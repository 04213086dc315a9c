"""From readings to tables: shares and beliefs with intervals over networks and over items.

Networks and items are both samples. A mean has one 95 % interval over networks, items averaged, and
one over items, networks averaged; a single network or item gives none. Intervals of beliefs are t
intervals, clipped to [0, 1]. Shares are often exactly 0 or 1 in all n networks (or items), where t
has no variance to use. Their interval is that of Clopper & Pearson (1934, Biometrika 26, 404–413),
with the sum k of the n shares in place of a count,

    from the 0.025 quantile of Beta(k, n − k + 1), 0 if k = 0
      to the 0.975 quantile of Beta(k + 1, n − k), 1 if k = n                            (1)

so that there is one rule for all shares and no jump between nearly all and all. For k = n it goes
from (0.025)^(1/n) to 1. Where every share is 0 or 1 it is the exact binomial interval. In between
it is conservative, since nothing in [0, 1] with mean m varies more than a Bernoulli variable with
probability m (no proof; a test counts how often it covers m for shares of two values). It ignores
how close the shares are to each other, and can be much wider than a t interval.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.study.statistics import LEVEL, one_sample
from equivocal.suites.construction import Construction
from equivocal.suites.particles import VARIANCE
from equivocal.suites.reading import READINGS

__all__ = ["select_usual", "tabulate_all", "tabulate_beliefs", "tabulate_items", "tabulate_shares"]

CELLS = ["construction", "condition", "beliefs", "variance", "heard"]
NAN = float("nan")
Interval = Callable[[np.ndarray], tuple[float, float]]  # of means, over networks or over items


def select_usual(readings: pd.DataFrame) -> pd.DataFrame:
    """Return readings of trained networks, and of particles with the usual prior and corpus."""
    heard_all = readings["heard"] == readings["heard"].max()
    chosen: pd.DataFrame = readings[heard_all & readings["variance"].isin((0.0, VARIANCE))]
    return chosen


def tabulate_all(
    readings: pd.DataFrame, construction: Construction, curve_networks: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of a construction by name: readings, shares, beliefs and perhaps curves.

    The curves are shares along prior variances and sentences heard, of the first networks.
    """
    usual = select_usual(readings)
    tables = {"readings": readings, "shares": tabulate_shares(usual)}
    tables["beliefs"] = tabulate_beliefs(usual)
    if construction.curves:
        chosen = readings["beliefs"].eq("posterior") & readings["network"].lt(curve_networks)
        chosen &= readings["condition"].isin(construction.curves)
        tables["curves"] = tabulate_shares(readings[chosen])
    return tables


def tabulate_shares(readings: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each reading in each condition and kind of comprehender.

    Parameters
    ----------
    readings : DataFrame
        Rows of `Reader`s.

    Returns
    -------
    DataFrame
        With intervals (1) over networks and over items.
    """
    rows = []
    for cell, part in _split_by_condition(readings):
        for reading in READINGS:
            found = _compute_mean(part, part[reading], "share", _compute_share_interval)
            rows.append({**cell, "reading": reading, **found})
    return pd.DataFrame(rows)


def tabulate_beliefs(readings: pd.DataFrame) -> pd.DataFrame:
    """Return how far beliefs are from the exact ones, where the world says the sentences.

    Parameters
    ----------
    readings : DataFrame
        Rows of `Reader`s.

    Returns
    -------
    DataFrame
        `error` is the mean |belief − exact| over the items' answers and rivals; `correlation` is
        that of belief and exact belief over items, networks averaged, with Fisher's interval;
        `exact_low` and `exact_high` are the smallest and the largest exact belief. NaN where the
        world never says these sentences.
    """
    rows = []
    for cell, part in _split_by_condition(readings):
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
                **_compute_mean(part, part["belief"], "belief", _compute_t_interval),
                **_compute_mean(part, error / 2, "error", _compute_t_interval),
                **_correlate(by_item["belief"], by_item["exact"]),
            }
        )
    return pd.DataFrame(rows)


def tabulate_items(readings: pd.DataFrame) -> pd.DataFrame:
    """Return the mean, lowest and highest belief of the networks in each item's reading.

    Parameters
    ----------
    readings : DataFrame
        Rows of `Reader`s.
    """
    items = readings.groupby(["beliefs", "condition", "item"], sort=False)
    spread = {"mean": ("belief", "mean"), "lowest": ("belief", "min"), "highest": ("belief", "max")}
    return items.agg(exact=("exact", "first"), **spread).reset_index()


def _split_by_condition(readings: pd.DataFrame) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    for key, part in readings.groupby(CELLS, sort=False):
        yield dict(zip(CELLS, key, strict=True)), part


def _compute_mean(
    part: pd.DataFrame, values: pd.Series, name: str, interval: Interval
) -> dict[str, float]:
    """Return the mean of something between 0 and 1, with both intervals."""
    found = {name: float(values.mean())}
    for over in ("network", "item"):
        means = values.groupby(part[over], sort=False).mean().to_numpy()
        low, high = interval(means)
        found |= {f"{over}s": len(means), f"{name}_{over}_low": low, f"{name}_{over}_high": high}
    return found


def _compute_share_interval(shares: np.ndarray) -> tuple[float, float]:
    """Return (1), over networks or over items."""
    n = len(shares)
    if n < 2:
        return NAN, NAN
    k, tail = float(np.clip(shares.sum(), 0, n)), (1 - LEVEL) / 2
    low = stats.beta.ppf(tail, k, n - k + 1) if k > 0 else 0.0
    high = stats.beta.isf(tail, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


def _compute_t_interval(means: np.ndarray) -> tuple[float, float]:
    """Return a clipped t interval, NaN where there is no variance."""
    test = one_sample(means)
    low, high = np.clip([test.ci_low, test.ci_high], 0, 1)  # keeps NaN
    return float(low), float(high)


def _correlate(first: pd.Series, second: pd.Series) -> dict[str, float]:
    """Return Pearson's correlation with Fisher's interval; NaN where one of the two is constant."""
    a, b = first.to_numpy(float), second.to_numpy(float)
    names = ("correlation", "correlation_item_low", "correlation_item_high")
    if len(a) < 4 or not (np.ptp(a) > 1e-9 and np.ptp(b) > 1e-9):  # NaN compares as False
        return dict.fromkeys(names, NAN)
    found = stats.pearsonr(a, b)
    low, high = found.confidence_interval(LEVEL)
    return dict(zip(names, map(float, (found.statistic, low, high)), strict=True))
