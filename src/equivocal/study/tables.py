"""The paper's five tables, with what they leave out; a crossed mixed model; every word.

Each row is one measure in one condition other than the baseline. The model analysis averages
activations over items, so n counts networks; the item analysis averages over networks. Tests on the
logit scale average logits instead. Holm's correction is over the tests of one table and estimate.
"""

import tomllib
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.study.measures import central_prior, grid, measures
from equivocal.study.statistics import (
    TTest,
    crossed_mixed_model,
    holm,
    one_sample,
    paired,
    paired_logit,
)

__all__ = ["PRINTED_STUDY", "printed_values", "tables"]

PRINTED_STUDY = "paper"  # the study whose values are printed
PRINTED_CONDITION = "reversal"
IN_TABLES = ("indicated ", "non-relevant ")  # the measures of the paper's rows
LOGIT = ("mean", "t", "p", "ci_low", "ci_high", "effect")
Rows = list[dict[str, Any]]


def printed_values() -> dict[str, Any]:
    """What the paper prints: `[table][measure][column]` with texts `p` and `t`."""
    path = resources.files("equivocal.study") / "record" / "printed.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def tables(dataset: xr.Dataset, without: Container[str] = ()) -> dict[str, pd.DataFrame]:
    """All tables of a study by name, or all but some; the mixed model alone takes seconds."""
    rows, prior = measures(dataset), central_prior(dataset)
    central = rows[rows["prior"] == prior]
    makers: dict[str, Callable[[], Rows]] = {
        "against_zero_models": lambda: _against_zero(central, _over_items),
        "against_zero_items": lambda: _against_zero(central, _over_networks),
        "paired_models": lambda: _paired(central, np.asarray),
        "paired_items": lambda: _paired(central, np.transpose),
        "priors_models": lambda: _paired(rows, np.asarray),
        "mixed_model": lambda: _mixed(rows),
        "every_word_models": lambda: _every_word(dataset, prior),
    }
    is_paper = dataset.attrs["study"] == PRINTED_STUDY
    printed = printed_values() if is_paper else {}
    return {
        name: _finished(name, make(), printed)
        for name, make in makers.items()
        if name not in without
    }


def _over_items(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.mean(axis=1))


def _over_networks(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.mean(axis=0))


def _tested(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What names a test, and its rows of `measures`: a row for each network and item."""
    baseline = rows["condition"].iloc[0]
    kept = rows[(rows["condition"] != baseline) & rows["measure"].str.startswith(IN_TABLES)]
    names = ["condition", "measure", "probe", "sampler", "prior"]
    for key, part in kept.groupby(names, sort=False):
        head = dict(zip(names, key, strict=True))
        head["estimate"] = head.pop("sampler")
        yield head, part


def _against_zero(rows: pd.DataFrame, average: Callable[[np.ndarray], np.ndarray]) -> Rows:
    found: Rows = []
    first = rows["sampler"].iloc[0]
    for head, part in _tested(rows):
        if head["estimate"] == first:  # the trained network is the same beside every sampler
            trained = head | {"estimate": "mle", "prior": float("nan")}
            found.append(trained | asdict(one_sample(average(grid(part, "mle")))))
        found.append(head | asdict(one_sample(average(grid(part, "mean")))))
    order = list(dict.fromkeys(row["estimate"] for row in found))
    return sorted(found, key=lambda row: order.index(row["estimate"]))


def _paired(rows: pd.DataFrame, turned: Callable[[np.ndarray], np.ndarray]) -> Rows:
    """`turned` brings the sample (networks or items) to the front."""
    found: Rows = []
    for head, part in _tested(rows):
        bayes, mle = turned(grid(part, "mean")), turned(grid(part, "mle"))
        test = paired(bayes.mean(axis=1), mle.mean(axis=1))
        found.append(head | asdict(test) | _named_logit(paired_logit(bayes, mle)))
    order = list(dict.fromkeys(row["estimate"] for row in found))
    return sorted(found, key=lambda row: order.index(row["estimate"]))


def _every_word(dataset: xr.Dataset, prior: float) -> Rows:
    """The paired tests as if each word in turn were the critical one; it is a choice of ours."""
    found: Rows = []
    for position in (int(p) for p in dataset["position"].values):
        moved = dataset.assign(critical=xr.full_like(dataset["critical"], position))
        rows = measures(moved)
        for head, part in _tested(rows[rows["prior"] == prior]):
            bayes, mle = grid(part, "mean"), grid(part, "mle")
            place = {"position": position, "mean_mle": mle.mean(), "mean_bayes": bayes.mean()}
            test = asdict(paired(bayes.mean(axis=1), mle.mean(axis=1)))
            found.append(head | place | test | _named_logit(paired_logit(bayes, mle)))
    return found


def _named_logit(test: TTest) -> dict[str, float]:
    return {f"logit_{name}": getattr(test, name) for name in LOGIT}


def _mixed(rows: pd.DataFrame) -> Rows:
    return [
        head | {"scale": "logit"} | _renamed(asdict(crossed_mixed_model(part)))
        for head, part in _tested(rows)
    ]


def _renamed(model: dict[str, Any]) -> dict[str, Any]:
    return {("difference" if key == "estimate" else key): value for key, value in model.items()}


def _finished(name: str, rows: Rows, printed: dict[str, Any]) -> pd.DataFrame:
    """With labels, corrected p-values and, where there are any, the printed ones."""
    table = pd.DataFrame(rows)
    labels = [printed.get("labels", {}).get(row["measure"], row["measure"]) for row in rows]
    table.insert(3, "label", labels)
    table.insert(4, "estimate", table.pop("estimate"))
    for column in ("p", "logit_p"):
        if column in table:
            by_estimate = table.groupby("estimate", sort=False)[column]
            table[f"{column}_holm"] = by_estimate.transform(lambda p: holm(p.to_numpy()))
    if name in printed:
        cells = [_printed_cell(printed[name], row, name == "priors_models") for row in rows]
        table["printed_p"] = [cell.get("p", "") for cell in cells]
        if name.startswith("paired"):
            table["printed_t"] = [cell.get("t", "") for cell in cells]
    return table


def _printed_cell(table: dict[str, Any], row: dict[str, Any], by_prior: bool) -> dict[str, str]:
    if row["condition"] != PRINTED_CONDITION or (by_prior and row["estimate"] != "paper"):
        return {}
    column = f"{row['prior']:g}" if by_prior else row["estimate"]
    cell: dict[str, str] = table.get(row["measure"], {}).get(column, {})
    return cell
