"""Findings in words: verdict, prediction and source; effect; ratio beside that of 2018."""

from collections.abc import Hashable, Iterator
from math import isnan
from typing import Any

import pandas as pd

from equivocal.study.word_measures import MEASURES

__all__ = ["told"]

INDENT = 16  # as wide as the longest verdict


def told(findings: pd.DataFrame) -> Iterator[tuple[str, str | None]]:
    """Each line with its style; `findings` is `finding_table`."""
    for measure, rows in findings.groupby("measure", sort=False):
        kind = " (exploratory)" if MEASURES[str(measure)].exploratory else ""
        held = int((rows["verdict"] == "held").sum())
        yield f"{measure}{kind}: {held} of {len(rows)} held", "bold"
        for row in rows.to_dict("records"):
            source = f" – {row['source']}" if row["source"] else ""
            yield f"{row['verdict']:<{INDENT}}{row['suite']}: {row['contrast']}{source}", None
            for line in (_effect(row), f"{_ratio(row)}; 2018: {_published(row)}"):
                yield " " * INDENT + line, "dim"
    networks = f"{findings['networks'].iloc[0]} networks"
    yield (
        f"Effect: the contrast of condition means, with 95 % intervals over {networks} and over "
        "items. Ratio: of the means, with its interval over networks, beside that of the networks "
        "published in 2018.",
        None,
    )


def _effect(row: dict[Hashable, Any]) -> str:
    networks = _interval(row["network_low"], row["network_high"])
    items = _interval(row["item_low"], row["item_high"])
    return f"effect {_number(row['effect'])}, networks {networks}, items {items}"


def _ratio(row: dict[Hashable, Any]) -> str:
    if row["no_ratio"]:
        return f"no ratio, since {row['no_ratio']}"
    return f"ratio {_number(row['ratio'])} ({_interval(row['ratio_low'], row['ratio_high'])})"


def _published(row: dict[Hashable, Any]) -> str:
    if not row["published_direction"]:
        return "not published"
    interval = _interval(row["published_ratio_low"], row["published_ratio_high"])
    return f"{_number(row['published_ratio'])} ({interval}), {row['published_direction']}"


def _number(value: float) -> str:
    if isnan(value):
        return "–"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _interval(low: float, high: float) -> str:
    return "no interval" if isnan(low) else f"{_number(low)} to {_number(high)}"
