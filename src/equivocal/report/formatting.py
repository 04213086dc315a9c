"""Cells of a table for readers: few digits, small p-values as bounds, a dash for nothing.

The words and signs of verdicts are listed in `VERDICTS`.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

__all__ = ["format_number"]

SMALLEST_P = 1e-4
NOTHING = "–"
DIGITS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
VERDICTS = {  # kind and sign, so that colour is never alone
    "replicated": ("good", "✓"),
    "direction only": ("partly", "◐"),
    "not replicated": ("bad", "✗"),
    "not testable as printed": ("open", "?"),
    "not run": ("open", "…"),
}


class Cell(NamedTuple):
    """Text and the classes that style it."""

    text: str
    kind: str  # "number", "text", "long" or "verdict …"


class TableRows(NamedTuple):
    """A table ready for the page."""

    header: list[Cell]
    rows: list[list[Cell]]


def format_number(value: float) -> str:
    """Format a number with three or four significant digits, or fewer where it has fewer.

    >>> [format_number(v) for v in (0.012345, 4.68581, -0.5, 12345.6, 3.2e-7, 9.0)]
    ['0.0123', '4.686', '−0.5', '12,346', '3.20 × 10⁻⁷', '9']
    """
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if value == int(value) and size < 1e6:
        text = f"{int(value):,}"
    elif size < 1e-3 or size >= 1e6:
        base, power = f"{value:.2e}".split("e")
        text = f"{base} × 10{str(int(power)).translate(DIGITS)}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    elif float(f"{value:.2g}") == value:  # a setting, as 0.01
        text = f"{value:g}"
    else:
        text = f"{value:#.4g}" if size >= 1 else f"{value:#.3g}"
    return text.replace("-", "−")


def format_p_value(value: float) -> str:
    """Format a p-value with four decimals, or as a bound.

    >>> format_p_value(0.00113), format_p_value(3e-9)
    ('0.0011', '< 0.0001')
    """
    if math.isnan(value):
        return NOTHING
    return f"< {SMALLEST_P:.4f}" if value < SMALLEST_P else f"{value:.4f}"


def style_verdict(verdict: str) -> tuple[str, str]:
    """Return the style and sign of a verdict; an unknown one gets a neutral style."""
    return VERDICTS.get(verdict.strip().lower(), ("open", "•"))


def format_cell(value: Any, column: str) -> Cell:
    """Format one value by its type and the name of its column."""
    if value is None or value is pd.NA or value is pd.NaT:
        return Cell(NOTHING, "text")
    if isinstance(value, bool | np.bool_):
        return Cell("yes" if value else "no", "text")
    if isinstance(value, int | float | np.integer | np.floating):
        return Cell(_format_in_column(float(value), column), "number")
    text = str(value)
    if column.lower().startswith("verdict"):
        kind, sign = style_verdict(text)
        return Cell(f"{sign} {text}", f"verdict {kind}")
    return Cell(text, "long" if len(text) > 45 else "text")


def _format_in_column(value: float, column: str) -> str:
    if _is_p_value(column):
        return format_p_value(value)
    if column.lower().startswith("printed") and math.isfinite(value):
        return f"{value:.10g}".replace("-", "−")  # as it was printed
    return format_number(value)


def format_table(table: pd.DataFrame) -> TableRows:
    """Format a header and rows; an index with a name is shown as the first columns."""
    if any(name is not None for name in table.index.names):
        table = table.reset_index()
    names = [str(name) for name in table.columns]
    rows = [
        [format_cell(value, name) for value, name in zip(row, names, strict=True)]
        for row in table.itertuples(index=False, name=None)
    ]
    numeric = [bool(rows) and all(r[i].kind == "number" for r in rows) for i in range(len(names))]
    header = [
        Cell(name.replace("_", " "), "number" if right else "text")
        for name, right in zip(names, numeric, strict=True)
    ]
    return TableRows(header, rows)


def _is_p_value(column: str) -> bool:
    """Return whether a column's name says p: "p", "p_item", "printed p", "p (Holm)"."""
    words = column.lower().replace("_", " ").replace("-", " ").split()
    return "p" in words or "pvalue" in words
