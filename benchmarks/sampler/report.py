"""The report of all sections: a table for people and plain values for a file."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from benchmarks.sampler.lines import Findings, Line
from benchmarks.sampler.settings import BenchSettings

__all__ = ["Report"]

FORMAT = "equivocal-bench-1"
# each unit with its smaller ones, a factor of a thousand apart
FINER = {"s": ("s", "ms", "µs", "ns"), "MiB": ("MiB",), "": ("",)}


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of the benchmark."""

    settings: BenchSettings
    source: str  # the origin of the rows
    machine: dict[str, Any]
    sections: dict[str, Findings]
    seconds: float

    def table(self) -> Table:
        """Return a table with a row per line, sections separated."""
        caption = None if self.settings.judged else "small sizes: goals of speed are not judged"
        # Text, not str: square brackets belong to extras and folders here, not to markup
        title = Text(f"Speed on {self.source}")
        table = Table(title=title, title_justify="left", caption=caption)
        for name in ("what", "ours", "theirs", "ratio", "goal", ""):
            sideways = name in {"ours", "theirs", "ratio", "goal"}
            table.add_column(name, justify="right" if sideways else "left", no_wrap=sideways)
        for findings in self.sections.values():
            for line in findings.lines:
                table.add_row(*map(Text, self._cells(line)))
            table.add_section()
        return table

    def _cells(self, line: Line) -> tuple[str, ...]:
        what = f"{line.what}: {line.note}" if line.note else line.what
        return (
            what,
            format_value(line.ours, line.unit),
            format_value(line.theirs, line.unit),
            "" if line.ratio is None else f"{format_digits(line.ratio)}×",
            "" if line.goal is None else str(line.goal),
            line.verdict(judged=self.settings.judged),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        judged = self.settings.judged
        return simplify(
            {
                "format": FORMAT,
                "machine": self.machine,
                "settings": asdict(self.settings),
                "source": self.source,
                "seconds": round(self.seconds, 3),
                "sections": {
                    name: {
                        "lines": [line.to_dict(judged=judged) for line in findings.lines],
                        "details": findings.details,
                    }
                    for name, findings in self.sections.items()
                },
            }
        )

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def format_value(value: float | None, unit: str) -> str:
    """Format a number with three digits and a unit that suits its size.

    >>> [format_value(*given) for given in ((0.00123, "s"), (1234.5, "MiB"), (1e-12, ""))]
    ['1.23 ms', '1,234 MiB', '1e-12']
    >>> format_value(None, "s")
    ''
    """
    if value is None:
        return ""
    names = FINER[unit]
    if not math.isfinite(value):
        return f"{value} {unit}".rstrip()
    step = 0
    while abs(value) * 1000**step < 1 and step < len(names) - 1 and value != 0:
        step += 1
    return f"{format_digits(value * 1000**step)} {names[step]}".rstrip()


def format_digits(value: float) -> str:
    """Format a number with three significant digits, or as a whole number from 100 on.

    >>> format_digits(1234.5), format_digits(0.012345)
    ('1,234', '0.0123')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def simplify(value: Any) -> Any:
    """Convert to JSON types: NumPy's numbers become Python's, NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): simplify(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [simplify(item) for item in value]
    if hasattr(value, "tolist"):
        return simplify(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
