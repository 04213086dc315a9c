"""Results in words: findings of paradigms, beliefs and readings of constructions.

Each function takes tables of this room and yields lines, or whole tables, of text.
"""

from collections.abc import Hashable, Iterator
from math import isnan
from typing import Any

import pandas as pd

from equivocal.study.word_measures import MEASURES
from equivocal.suites.construction import Construction
from equivocal.suites.particles import VARIANCE

__all__ = ["summarise_construction", "summarise_findings"]

INDENT = 16  # as wide as the longest verdict
NOTHING = "–"
Row = dict[Hashable, Any]


def summarise_findings(findings: pd.DataFrame) -> Iterator[str]:
    """Yield verdict, prediction and source of each finding; its effect; its ratio beside 2018.

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
        "interval over networks, beside that of the networks published in 2018."
    )


def summarise_construction(
    construction: Construction, tables: dict[str, pd.DataFrame]
) -> Iterator[str]:
    """Yield beliefs, readings and curves of a construction, as tables in text.

    Parameters
    ----------
    construction : Construction
        What was read.
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
    """Return the shares of each condition, formatted, one row each."""
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


def _describe_effect(row: Row) -> str:
    networks = _format_interval(row["network_low"], row["network_high"])
    items = _format_interval(row["item_low"], row["item_high"])
    return f"effect {_format_number(row['effect'])}, networks {networks}, items {items}"


def _describe_ratio(row: Row) -> str:
    if row["no_ratio"]:
        return f"no ratio, since {row['no_ratio']}"
    interval = _format_interval(row["ratio_low"], row["ratio_high"])
    return f"ratio {_format_number(row['ratio'])} ({interval})"


def _describe_published(row: Row) -> str:
    if not row["published_direction"]:
        return "not published"
    interval = _format_interval(row["published_ratio_low"], row["published_ratio_high"])
    return f"{_format_number(row['published_ratio'])} ({interval}), {row['published_direction']}"


def _format_number(value: float) -> str:
    if isnan(value):
        return NOTHING
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _format_interval(low: float, high: float) -> str:
    return "no interval" if isnan(low) else f"{_format_number(low)} to {_format_number(high)}"


def _format_percent(share: float) -> str:
    """Format a share, without decimals where it is exactly 0 or 1, to tell these from nearly so."""
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}"


def _format_shares(rows: pd.DataFrame) -> dict[str, "pd.Series[str]"]:
    """Format the shares of particles with their intervals over networks and over items."""
    columns = {"particles": rows["share"].map(_format_percent)}
    for over in ("network", "item"):
        low, high = (rows[f"share_{over}_{end}"].map(_format_percent) for end in ("low", "high"))
        known = rows[f"share_{over}_low"].notna()
        columns[f"over {over}s"] = (low + " to " + high).where(known, NOTHING)
    return columns
