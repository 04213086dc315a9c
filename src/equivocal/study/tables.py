"""The paper's five tables, completed, a crossed mixed model, and the tests at every word.

Each row is one measure in one condition other than the baseline. The model analysis averages
activations over items, so n counts networks; the item analysis averages over networks. Tests on the
logit scale average logits instead. Holm's correction is over the tests of one table and estimate.

A new table is a line of `makers` in `compute_tables`, with a function that returns its rows.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.study.measures import arrange_grid, compute_measures, find_central_prior
from equivocal.study.settings import read_record
from equivocal.study.statistics import (
    compare_logit_pairs,
    compare_pairs,
    compare_with_zero,
    correct_holm,
    fit_mixed_model,
)

__all__ = ["PRINTED_STUDIES", "compute_tables", "load_printed_values"]

PRINTED_STUDIES = ("paper", "paper_fast")  # whose results are compared with printed values
PRINTED_CONDITION = "reversal"
AXES = {"network": 0, "item": 1}  # of `arrange_grid`
IN_TABLES = ("indicated ", "non-relevant ")  # the measures of the paper's rows
LOGIT = ("mean", "t", "p", "ci_low", "ci_high", "effect")
Rows = list[dict[str, Any]]


def load_printed_values() -> dict[str, Any]:
    """Load what the paper prints: `[table][measure][column]` with texts `p` and `t`."""
    return read_record("printed")


def compute_tables(dataset: xr.Dataset, without: Container[str] = ()) -> dict[str, pd.DataFrame]:
    """Compute the tables of a study.

    Parameters
    ----------
    dataset : Dataset
        As `activations.nc` holds it.
    without : container of str
        Tables to leave out; the mixed model alone takes seconds.

    Returns
    -------
    dict of str to DataFrame
        The tables by name.
    """
    rows, prior = compute_measures(dataset), find_central_prior(dataset)
    central = rows[rows["prior"] == prior]
    makers: dict[str, Callable[[], Rows]] = {
        "means": lambda: _average_measures(central),
        "against_zero_models": lambda: _test_against_zero(central, over="item"),
        "against_zero_items": lambda: _test_against_zero(central, over="network"),
        "paired_models": lambda: _sort_by_estimate(_test_pairs(central, over="item")),
        "paired_items": lambda: _sort_by_estimate(_test_pairs(central, over="network")),
        "priors_models": lambda: _sort_by_estimate(_test_pairs(rows, over="item")),
        "mixed_model": lambda: _fit_mixed_models(rows),
        "every_word_models": lambda: _test_every_word(dataset, prior),
    }
    printed = load_printed_values() if dataset.attrs["study"] in PRINTED_STUDIES else {}
    return {
        name: _complete(name, make(), printed)
        for name, make in makers.items()
        if name not in without
    }


def _group_tests(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield what names a test, and its rows: one for each network and item."""
    baseline = rows["condition"].iloc[0]
    kept = rows[(rows["condition"] != baseline) & rows["measure"].str.startswith(IN_TABLES)]
    names = ["condition", "measure", "probe", "sampler", "prior"]
    for key, part in kept.groupby(names, sort=False):
        head = dict(zip(names, key, strict=True))
        head["estimate"] = head.pop("sampler")
        yield head, part


def _average_measures(rows: pd.DataFrame) -> Rows:
    """Average every measure of every condition, the baseline too, with intervals over networks."""
    found: Rows = []
    names = ["condition", "measure", "probe"]
    for key, part in rows.groupby(names, sort=False):
        grids = {"mle": part[part["sampler"] == part["sampler"].iloc[0]]}
        grids |= {str(name): own for name, own in part.groupby("sampler", sort=False)}
        for estimate, own in grids.items():
            column = "mle" if estimate == "mle" else "mean"
            test = compare_with_zero(arrange_grid(own, column).mean(axis=1))
            numbers = {name: getattr(test, name) for name in ("n", "mean", "ci_low", "ci_high")}
            found.append(dict(zip(names, key, strict=True)) | {"estimate": estimate} | numbers)
    return found


def _test_against_zero(rows: pd.DataFrame, over: str) -> Rows:
    """Test means over items, or over networks, against zero."""
    found: Rows = []
    axis, first = AXES[over], rows["sampler"].iloc[0]
    for head, part in _group_tests(rows):
        if head["estimate"] == first:  # the trained network is the same beside every sampler
            trained = head | {"estimate": "mle", "prior": float("nan")}
            found.append(
                trained | asdict(compare_with_zero(arrange_grid(part, "mle").mean(axis=axis)))
            )
        found.append(head | asdict(compare_with_zero(arrange_grid(part, "mean").mean(axis=axis))))
    return _sort_by_estimate(found)


def _test_pairs(rows: pd.DataFrame, over: str, **place: int) -> Rows:
    """Test Bayesian − trained, averaged over items or over networks."""
    found: Rows = []
    for head, part in _group_tests(rows):
        grids = (arrange_grid(part, name) for name in ("mean", "mle"))
        bayes, mle = (np.moveaxis(grid, AXES[over], 1) for grid in grids)
        means = {"mean_mle": mle.mean(), "mean_bayes": bayes.mean()} if place else {}
        test = compare_pairs(bayes.mean(axis=1), mle.mean(axis=1))
        logits = compare_logit_pairs(bayes, mle)
        on_logits = {f"logit_{name}": getattr(logits, name) for name in LOGIT}
        found.append(head | place | means | asdict(test) | on_logits)
    return found


def _sort_by_estimate(rows: Rows) -> Rows:
    order = list(dict.fromkeys(row["estimate"] for row in rows))
    return sorted(rows, key=lambda row: order.index(row["estimate"]))


def _test_every_word(dataset: xr.Dataset, prior: float) -> Rows:
    """Repeat the paired tests as if each word were the critical one, which is our choice."""
    found: Rows = []
    for position in (int(p) for p in dataset["position"].values):
        moved = dataset.assign(critical=xr.full_like(dataset["critical"], position))
        rows = compute_measures(moved)
        found += _test_pairs(rows[rows["prior"] == prior], over="item", position=position)
    return found


def _fit_mixed_models(rows: pd.DataFrame) -> Rows:
    found: Rows = []
    for head, part in _group_tests(rows):
        model = asdict(fit_mixed_model(part))
        found.append(head | {"scale": "logit", "difference": model.pop("estimate")} | model)
    return found


def _complete(name: str, rows: Rows, printed: dict[str, Any]) -> pd.DataFrame:
    """Add labels, corrected p-values and, where there are any, the printed values."""
    table = pd.DataFrame(rows)
    labels = [printed.get("labels", {}).get(row["measure"], row["measure"]) for row in rows]
    table.insert(3, "label", labels)
    table.insert(4, "estimate", table.pop("estimate"))
    for column in ("p", "logit_p"):
        if column in table:
            by_estimate = table.groupby("estimate", sort=False)[column]
            table[f"{column}_holm"] = by_estimate.transform(lambda p: correct_holm(p.to_numpy()))
    if name in printed:
        cells = [_find_printed(printed[name], row, name == "priors_models") for row in rows]
        table["printed_p"] = [cell.get("p", "") for cell in cells]
        if name.startswith("paired"):
            table["printed_t"] = [cell.get("t", "") for cell in cells]
    return table


def _find_printed(table: dict[str, Any], row: dict[str, Any], by_prior: bool) -> dict[str, str]:
    if row["condition"] != PRINTED_CONDITION or (by_prior and row["estimate"] != "paper"):
        return {}
    column = f"{row['prior']:g}" if by_prior else row["estimate"]
    cell: dict[str, str] = table.get(row["measure"], {}).get(column, {})
    return cell
