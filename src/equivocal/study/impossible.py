"""Printed numbers that cannot be, found by arithmetic from what the paper prints."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from scipy import stats

from equivocal.study.statistics import largest_p_against_zero
from equivocal.study.tables import printed_values

__all__ = ["impossible_numbers"]


def impossible_numbers() -> pd.DataFrame:
    """One row per number: where, printed, why (in two sentences), arithmetic."""
    content = printed_values()
    rows = [*_above_bound(content), *_p_of_t(content)]
    return pd.DataFrame(rows, columns=["where", "printed", "why", "arithmetic"])


def _above_bound(content: dict[str, Any]) -> Iterator[dict[str, str]]:
    """p-values against zero that no non-negative numbers can give."""
    for name in ("against_zero_models", "against_zero_items"):
        n = content["where"][name]["n"]
        bound = largest_p_against_zero(n)
        for measure, column, cell in _cells(content[name]):
            if cell["p"].startswith("<") or float(cell["p"]) <= bound:
                continue
            facts = {"n": n, "df": n - 1, "bound": bound, "printed": cell["p"]}
            who = "trained network" if column == "mle" else "sampler"
            row = f"{content['labels'][measure]}, {who}"
            yield _row(content, name, row, f"p = {cell['p']}", "above_bound", facts)


def _p_of_t(content: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Upper limits on p that the t printed for the same test does not meet."""
    networks = content["where"]["paired_models"]["n"]
    items = content["where"]["paired_items"]["n"]
    many = networks * items - 1
    for name in ("paired_models", "paired_items", "priors_models"):
        n = content["where"][name]["n"]
        for measure, column, cell in _cells(content[name]):
            printed_at = content[cell["t_in"]][measure]["paper"] if "t_in" in cell else cell
            t = printed_at.get("t")
            if t is None or not cell["p"].startswith("<"):
                continue
            size = abs(float(t))
            p = float(2 * stats.t.sf(size, n - 1))
            if p < float(cell["p"].removeprefix("<")):
                continue
            p_many = float(2 * stats.t.sf(size, many))
            facts = {"n": n, "df": n - 1, "p": p, "p_many": p_many, "many": many, "size": size}
            facts |= {"t": t, "printed": cell["p"], "networks": networks, "items": items}
            row = content["labels"][measure] + (
                f", prior {column} I" if name == "priors_models" else ""
            )
            yield _row(content, name, row, f"t = {t}, p {cell['p']}", "p_of_t", facts)


def _cells(table: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    for measure, columns in table.items():
        for column, cell in columns.items():
            yield measure, column, cell


def _row(
    content: dict[str, Any], table: str, row: str, printed: str, kind: str, facts: dict[str, Any]
) -> dict[str, str]:
    texts = content["impossible"][kind]
    return {
        "where": f"{content['where'][table]['place']}: {row}",
        "printed": printed,
        "why": texts["why"].format(**facts),
        "arithmetic": texts["arithmetic"].format(**facts),
    }
