"""How claims are judged: one rule for each kind of claim, the same for every run.

With several measures a claim must hold for each of them. α, "high", "margin" and "factor" are the
limits of `record/claims.toml`. Confidence intervals are 95 %, over networks.

- undefined: a number whose meaning is not stated → not testable as printed.
- high: mean activation above "high" → direction only; its interval too → replicated.
- comparable: |Bayesian − MLE| below "margin" → direction only; its interval too → replicated.
- change: Bayesian − MLE has the printed sign on activations and on logits, over networks and over
  items → direction only; and all four tests have p < α → replicated.
- specific: as change, for what one measure gains over what another gains, over networks.
- at_zero: the printed p exceed what non-negative numbers can give → not testable as printed.
- above_zero: p < α against zero in some of the tests, networks and items → direction only; in all →
  replicated.
- no_difference: smaller at this prior than at the central one → direction only; and p ≥ α here
  where the same test has p < α there → replicated.
- difference: larger at these priors than at the smallest → direction only; and p < α on activations
  and logits → replicated.
- like_nuts: the standard deviation of an activation is within "factor" of NUTS's in the median over
  questions → direction only; for nine of ten questions, and their means within one standard
  deviation of NUTS's → replicated.
- faster: fewer seconds than NUTS → direction only; and like_nuts is replicated → replicated.
- calibrated: nearer to the world's exact beliefs over networks → direction only; p < α →
  replicated.

Otherwise: not replicated. What a rule needs and does not find → not run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.study.measures import arrange_grid
from equivocal.study.statistics import TTest

REPLICATED, DIRECTION, NOT = "replicated", "direction only", "not replicated"
NOT_TESTABLE, NOT_RUN = "not testable as printed", "not run"
Entry = dict[str, Any]


class MissingError(Exception):
    """A claim's rule needs what this run does not hold."""


@dataclass(frozen=True)
class Finding:
    """Our numbers as text with an interval, the verdict, and a sentence why."""

    text: str
    verdict: str
    why: str


@dataclass(frozen=True)
class Facts:
    """Everything that claims are judged from."""

    dataset: xr.Dataset
    rows: pd.DataFrame  # `compute_measures` of the dataset
    central: float  # prior variance
    tables: dict[str, pd.DataFrame]
    evidence: dict[str, Any]
    limits: dict[str, float]
    reasons: dict[str, dict[str, str]]  # sentences by rule and verdict

    def explain(self, rule: str, verdict: str, **values: object) -> str:
        """Return the sentence of `record/claims.toml` for a verdict, filled in."""
        return self.reasons[rule][verdict].format(**values)

    def get_grids(self, entry: Entry, measure: str, sampler: str) -> tuple[np.ndarray, np.ndarray]:
        """Get (network, item) activations of the Bayesian model and of the trained network."""
        rows = select_rows(
            self.rows,
            condition=entry["condition"],
            measure=measure,
            sampler=sampler,
            prior=self.central,
        )
        return arrange_grid(rows, "mean"), arrange_grid(rows, "mle")

    def get_test(self, table: str, entry: Entry, measure: str, **where: object) -> dict[str, Any]:
        """Get one row of a table, in plain numbers."""
        if table not in self.tables:
            raise MissingError(f"The table {table} was not made.")
        found = select_rows(
            self.tables[table], condition=entry["condition"], measure=measure, **where
        )
        return {str(name): value for name, value in found.iloc[:1].to_dict("records")[0].items()}


def select_rows(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Select the rows with these values, or raise a `MissingError` where there are none."""
    for column, value in values.items():
        rows = rows[rows[column] == value]
    if rows.empty:
        sought = ", ".join(f"{column} {value}" for column, value in values.items())
        raise MissingError(f"This run holds nothing for {sought}.")
    return rows


def grade(direction: Sequence[bool], reached: Sequence[bool]) -> str:
    """Return "not replicated" without the direction, "replicated" where all is reached."""
    if not all(direction):
        return NOT
    return REPLICATED if all(reached) else DIRECTION


def format_interval(test: TTest, name: str, sign: str = "") -> str:
    """Format a mean with its interval, where there is one."""
    return f"{name} {test.mean:{sign}.3g}{format_span(test.ci_low, test.ci_high)}"


def format_span(low: float, high: float) -> str:
    """Format an interval in brackets; without spread or with one network there is none."""
    return f" [{low:.3g}, {high:.3g}]" if low <= high else " (no interval)"


def format_p(value: float) -> str:
    """Format a p-value.

    >>> format_p(0.00003), format_p(0.04), format_p(float("nan"))
    ('p < 0.0001', 'p = 0.0400', 'p undefined')
    """
    if np.isnan(value):
        return "p undefined"
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.4f}"


def explain_tests(verdict: str, what: str, missed: list[str], alpha: float) -> str:
    """Explain the verdict of a rule made of tests; `missed` are those that failed."""
    some = "; ".join(missed[:4]) + (f"; and {len(missed) - 4} more" if len(missed) > 4 else "")
    start = what[0].upper() + what[1:]
    if verdict == REPLICATED:
        return f"{start}, and every test has p < {alpha:g}."
    if verdict == DIRECTION:
        return f"{start}, but not every test has p < {alpha:g}: {some}."
    return f"It is not so that {what}: {some}."


def join_intervals(tests: dict[str, TTest], sign: str = "") -> str:
    """Format means and intervals, one after the other."""
    return "; ".join(format_interval(test, name, sign) for name, test in tests.items())
