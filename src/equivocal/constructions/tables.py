"""From readings to tables: shares and beliefs with intervals over networks and over items.

Networks and items are both samples. A mean has one 95 % t interval over networks, items averaged,
and one over items, networks averaged; intervals of shares are cut at 0 and 1, and there is none
where nothing varies.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from equivocal.constructions.reading import READINGS
from equivocal.study.statistics import one_sample

__all__ = ["belief_table", "share_table"]

CELLS = ["construction", "condition", "beliefs", "variance", "heard"]
NAN = float("nan")


def share_table(readings: pd.DataFrame) -> pd.DataFrame:
    """A row for each condition, kind of comprehender and reading: its share, with intervals.

    `readings` are rows of `Reader`s.
    """
    rows = []
    for cell, part in _cells(readings):
        for reading in READINGS:
            rows.append({**cell, "reading": reading, **_mean(part, part[reading], "share")})
    return pd.DataFrame(rows)


def belief_table(readings: pd.DataFrame) -> pd.DataFrame:
    """How far beliefs are from the exact ones, where the world says the sentences.

    `error` is the mean |belief − exact| over the items' answers and rivals; `correlation` is that
    of belief and exact belief over items, networks averaged; `exact_low` and `exact_high` are the
    least and the largest exact belief. NaN where the world never says these sentences.
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
                "correlation": _correlation(by_item["belief"], by_item["exact"]),
            }
        )
    return pd.DataFrame(rows)


def _cells(readings: pd.DataFrame) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    for key, part in readings.groupby(CELLS, sort=False):
        yield dict(zip(CELLS, key, strict=True)), part


def _mean(part: pd.DataFrame, values: pd.Series, name: str) -> dict[str, float]:
    """The mean of something between 0 and 1, with both intervals."""
    found = {name: float(values.mean())}
    for over, prefix in (("network", "network"), ("item", "item")):
        test = one_sample(values.groupby(part[over], sort=False).mean())
        found[f"{prefix}s"] = test.n
        # where all agree there is no spread and no interval; np.clip keeps NaN
        low, high = np.clip([test.ci_low, test.ci_high], 0, 1)
        found |= {f"{name}_{prefix}_low": float(low), f"{name}_{prefix}_high": float(high)}
    return found


def _correlation(first: pd.Series, second: pd.Series) -> float:
    """Pearson's; NaN where one of the two does not vary."""
    a, b = first.to_numpy(float), second.to_numpy(float)
    if len(a) < 3 or not (np.ptp(a) > 1e-9 and np.ptp(b) > 1e-9):  # NaN compares as False
        return NAN
    return float(np.corrcoef(a, b)[0, 1])
