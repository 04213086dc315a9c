"""Tables of readings: shares and beliefs with intervals over networks and over items.

Networks and items are both samples. A mean has one 95 % interval over networks, items averaged, and
one over items, networks averaged; a single network or item has no interval. Intervals of beliefs
are t intervals, clipped to [0, 1]. Shares are often exactly 0 or 1 in all n networks (or items),
where a t interval has no variance to use. Their interval is that of Clopper & Pearson (1934,
Biometrika 26, 404–413), with the sum k of the n shares in place of a count,

    from the 0.025 quantile of Beta(k, n − k + 1), 0 if k = 0
      to the 0.975 quantile of Beta(k + 1, n − k), 1 if k = n                            (1)

so that there is one rule for all shares and no jump between nearly all and all. For k = n it goes
from (0.025)^(1/n) to 1. Where every share is 0 or 1 it is the exact binomial interval. In between
it is conservative, since no variable in [0, 1] with mean m has a larger variance than a Bernoulli
variable with probability m (this is no proof; a test counts how often it covers m for shares of two
values). It ignores how close the shares are to each other, and can be much wider than a t interval.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.errors import NOTHING
from equivocal.measuring.measurement import VARIANCE
from equivocal.measuring.reading import READINGS
from equivocal.measuring.suite import Construction
from equivocal.statistics.summaries import LEVEL, compare_with_zero

__all__ = ["select_usual", "tabulate_items"]

CELLS = ["construction", "condition", "beliefs", "variance", "heard"]
NAN = float("nan")
Interval = Callable[[np.ndarray], tuple[float, float]]  # from the means of networks or of items


def select_usual(readings: pd.DataFrame) -> pd.DataFrame:
    """Select the readings of trained networks, and of particles with the usual prior and corpus."""
    heard_all = readings["heard"] == readings["heard"].max()
    chosen: pd.DataFrame = readings[heard_all & readings["variance"].isin((0.0, VARIANCE))]
    return chosen


def tabulate_all(
    readings: pd.DataFrame, construction: Construction, curve_networks: int
) -> dict[str, pd.DataFrame]:
    """Return the tables of a construction by name: readings, shares, beliefs and any curves.

    Curves are the shares of the first networks along prior variances and sentences heard.
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
    """Tabulate the share of each reading, by condition and kind of comprehender.

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
    """Tabulate beliefs and their distance from the exact ones, where these are defined.

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
        sentences are impossible in the world.
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
    """Tabulate the mean, lowest and highest belief of the networks in each item's answer.

    Parameters
    ----------
    readings : DataFrame
        Rows of `Reader`s.
    """
    items = readings.groupby(["beliefs", "condition", "item"], sort=False)
    spread = {"mean": ("belief", "mean"), "lowest": ("belief", "min"), "highest": ("belief", "max")}
    return items.agg(exact=("exact", "first"), **spread).reset_index()


def _split_by_condition(readings: pd.DataFrame) -> Iterator[tuple[dict[str, object], pd.DataFrame]]:
    """Yield the `CELLS` of each group of readings, and its rows."""
    for key, part in readings.groupby(CELLS, sort=False):
        yield dict(zip(CELLS, key, strict=True)), part


def _compute_mean(
    part: pd.DataFrame, values: pd.Series, name: str, interval: Interval
) -> dict[str, float]:
    """Return the mean of values between 0 and 1, with intervals over networks and over items."""
    found = {name: float(values.mean())}
    for over in ("network", "item"):
        means = values.groupby(part[over], sort=False).mean().to_numpy()
        low, high = interval(means)
        found |= {f"{over}s": len(means), f"{name}_{over}_low": low, f"{name}_{over}_high": high}
    return found


def _compute_share_interval(shares: np.ndarray) -> tuple[float, float]:
    """Return the interval (1) from the shares of networks or of items."""
    n = len(shares)
    if n < 2:
        return NAN, NAN
    k, tail = float(np.clip(shares.sum(), 0, n)), (1 - LEVEL) / 2
    low = stats.beta.ppf(tail, k, n - k + 1) if k > 0 else 0.0
    high = stats.beta.isf(tail, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)


def _compute_t_interval(means: np.ndarray) -> tuple[float, float]:
    """Return a clipped t interval, NaN where there is no variance."""
    test = compare_with_zero(means)
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


def summarise_construction(
    construction: Construction, tables: dict[str, pd.DataFrame]
) -> Iterator[str]:
    """Yield beliefs, readings and curves of a construction, as tables in text.

    Parameters
    ----------
    construction : Construction
        The construction whose sentences were read.
    tables : dict of str to DataFrame
        `readings`, `shares`, `beliefs` and, where there are curves, `curves`.
    """
    yield construction.title
    own = tables["beliefs"].query("beliefs == 'trained'").set_index("condition")
    numbers = own.loc[list(construction.conditions), ["items", "exact", "belief", "error"]]
    numbers = numbers.rename_axis(index=None, columns="condition")
    yield numbers.to_string(float_format="{:.3f}".format, na_rep=NOTHING) + "\n"
    yield _tabulate_readings(construction, tables["shares"]).to_string() + "\n"
    for condition, share in construction.people.items():
        yield f"people, {condition}: about {100 * share:.0f} % ({construction.sources[0]})"
    networks = tables["shares"]["networks"].iloc[0]
    yield (
        f"Exact: the exact belief in the answer ({NOTHING}: the world never says this). Belief: "
        f"that of {networks} trained networks; error: its mean distance from the exact one. Rival: "
        "the share of trained networks, and of particles, with the other reading, with "
        "conservative 95 % intervals over networks and over items. Neither: the share of particles "
        "whose answers fit neither reading."
    )
    if not (converged := tables["readings"]["converged"]).all():
        some = f"{1 - converged.mean():.0%} of the readings"
        yield f"{some} are of posteriors that did not converge; see the column `converged`."
    if construction.curves:
        yield from _tabulate_curves(tables["curves"])


def _tabulate_readings(construction: Construction, shares: pd.DataFrame) -> pd.DataFrame:
    """Return the formatted shares, one row for each condition."""
    by_cell = shares.set_index(["beliefs", "reading", "condition"])["share"]
    cells = by_cell.map(_format_percent).unstack("condition").T
    rival = shares.query("beliefs == 'posterior' and reading == 'rival'").set_index("condition")
    trained, neither = cells["trained", "rival"], cells["posterior", "neither"]
    table = pd.DataFrame({"trained": trained, **_format_shares(rival), "neither": neither})
    return table.loc[list(construction.conditions)].rename_axis(index=None, columns="rival %")


def _tabulate_curves(shares: pd.DataFrame) -> Iterator[str]:
    """Yield the share of the rival reading along prior variances, then along sentences heard."""
    rival = shares[shares["reading"] == "rival"]
    yield f"Curves, of {shares['networks'].iloc[0]} networks:"
    for column, title, rows in (
        ("variance", "prior variance", rival[rival["heard"] == rival["heard"].max()]),
        ("heard", "sentences heard", rival[rival["variance"] == VARIANCE]),
    ):
        ordered = rows.sort_values(["condition", column]).set_index("condition")
        along = {title: ordered[column].map("{:,g}".format)}
        table = pd.DataFrame(along | _format_shares(ordered)).rename_axis(
            index=None, columns="rival %"
        )
        yield table.to_string() + "\n"


def _format_percent(share: float) -> str:
    """Format a share in per cent, without decimals where it is exactly 0 or 1.

    This distinguishes exact values from those that round to 0 or 1.
    """
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}"


def _format_shares(rows: pd.DataFrame) -> dict[str, "pd.Series[str]"]:
    """Format the shares of particles with their intervals over networks and over items."""
    columns = {"particles": rows["share"].map(_format_percent)}
    for over in ("network", "item"):
        low, high = (rows[f"share_{over}_{end}"].map(_format_percent) for end in ("low", "high"))
        known = rows[f"share_{over}_low"].notna()
        columns[f"over {over}s"] = (low + " to " + high).where(known, NOTHING)
    return columns
