"""A line of a report: a quantity, our value, theirs, the ratio, and the goal."""

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Findings", "Goal", "Line"]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A bound on a line's ratio, or on our number itself (`of="ours"`)."""

    least: float | None = None
    most: float | None = None
    of: str = "ratio"
    at_any_size: bool = False  # whether small runs are judged by it, too

    def is_met_by(self, value: float) -> bool:
        """Return whether `value` is within the bounds; NaN never is.

        >>> Goal(least=500).is_met_by(612.0), Goal(most=0.02).is_met_by(float("nan"))
        (True, False)
        """
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        bounds = (("≥", self.least), ("≤", self.most))
        unit = "×" if self.of == "ratio" else ""
        shown = (f"{sign} {bound:,g}{unit}" for sign, bound in bounds if bound is not None)
        return ", ".join(shown)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A comparison. If nothing could be measured, `note` says why in one sentence."""

    what: str
    ours: float | None = None
    theirs: float | None = None
    unit: str = "s"  # of both
    ratio: float | None = None
    goal: Goal | None = None
    note: str = ""

    @property
    def is_skipped(self) -> bool:
        """Whether nothing was measured."""
        return self.ours is None and self.theirs is None

    def verdict(self, *, judged: bool) -> str:
        """Return "met", "missed", "skipped" or "not judged"; "" if there is no goal."""
        if self.is_skipped:
            return "skipped"
        if self.goal is None:
            return ""
        if not (judged or self.goal.at_any_size):
            return "not judged"
        value = self.ratio if self.goal.of == "ratio" else self.ours
        return "met" if value is not None and self.goal.is_met_by(value) else "missed"

    def to_dict(self, *, judged: bool) -> dict[str, Any]:
        """Return the line as plain values for a JSON file."""
        goal = None if self.goal is None else asdict(self.goal) | {"text": str(self.goal)}
        return asdict(self) | {"goal": goal, "verdict": self.verdict(judged=judged)}


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The results of a section: lines for the table, and the numbers behind them."""

    lines: list[Line]
    details: dict[str, Any] = field(default_factory=dict)
