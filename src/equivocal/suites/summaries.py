"""Results in words: findings of paradigms, beliefs and readings of constructions.

Each function takes tables of this room and yields lines of text.
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
    yield from _tabulate_beliefs(construction, tables["beliefs"])
    yield from _tabulate_readings(construction, tables["shares"])
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


def _tabulate_beliefs(construction: Construction, beliefs: pd.DataFrame) -> Iterator[str]:
    own = beliefs[beliefs["beliefs"] == "trained"].set_index("condition")
    numbers = own.loc[list(construction.conditions), ["exact", "belief", "error"]]
    rows = [
        (str(condition), str(own.loc[condition, "items"]), *map(_format_belief, row))
        for condition, row in zip(numbers.index, numbers.to_numpy(), strict=True)
    ]
    return _format_table(("condition", "items", "exact", "belief", "error"), *rows)


def _tabulate_readings(construction: Construction, shares: pd.DataFrame) -> Iterator[str]:
    cells = {(r["beliefs"], r["reading"], r["condition"]): r for r in shares.to_dict("records")}
    rows = [
        (
            condition,
            _format_percent(cells["trained", "rival", condition]["share"]),
            *_format_share(cells["posterior", "rival", condition]),
            _format_percent(cells["posterior", "neither", condition]["share"]),
        )
        for condition in construction.conditions
    ]
    header = ("rival %", "trained", "particles", "over networks", "over items", "neither")
    return _format_table(header, *rows)


def _tabulate_curves(shares: pd.DataFrame) -> Iterator[str]:
    """Yield the share of the rival reading along prior variances, then along sentences heard."""
    rival = shares[shares["reading"] == "rival"]
    all_heard = rival[rival["heard"] == rival["heard"].max()]
    usual = rival[rival["variance"] == VARIANCE]
    yield f"Curves, of {shares['networks'].iloc[0]} networks:"
    for column, title, table in (
        ("variance", "prior variance", all_heard),
        ("heard", "sentences heard", usual),
    ):
        rows = [
            (row["condition"], f"{row[column]:,g}", *_format_share(row))
            for row in table.sort_values(["condition", column]).to_dict("records")
        ]
        yield from _format_table(
            ("rival %", title, "particles", "over networks", "over items"), *rows
        )


def _format_table(*rows: tuple[str, ...]) -> Iterator[str]:
    """Yield lines with words on the left and numbers on the right, between empty lines."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    yield ""
    for label, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, others, strict=True))
        yield "   ".join(("  " + label.ljust(first), *numbers))
    yield ""


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


def _format_belief(value: float) -> str:
    return NOTHING if isnan(value) else f"{value:.3f}"


def _format_percent(share: float) -> str:
    """Format a share, without decimals where it is exactly 0 or 1, to tell these from nearly so."""
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}"


def _format_share(row: Row) -> tuple[str, str, str]:
    """Format a share with its intervals over networks and over items."""
    ends = ((row[f"share_{over}_low"], row[f"share_{over}_high"]) for over in ("network", "item"))
    networks, items = (
        NOTHING if isnan(low) else f"{_format_percent(low)} to {_format_percent(high)}"
        for low, high in ends
    )
    return _format_percent(row["share"]), networks, items
