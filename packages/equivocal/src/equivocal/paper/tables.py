"""The paper's measures and its five tables with every cell, a mixed model, and tests at every word.

Measures are activations of a few units at the critical word of each sentence.

- "indicated ROLE": what the sentence's syntax makes the ROLE (reversal: pizza as agent)
- "plausible ROLE": the ROLE in the baseline condition, where it is another unit (woman as agent)
- "non-relevant agent": average over the units that no version of the item has (chess, … as agent)

Each row is one measure in one condition other than the baseline. The model analysis averages
activations over items, so n counts networks; the item analysis averages over networks. Tests on the
logit scale average logits instead. Holm's correction is over the tests of one table and estimate.

A new measure is another `yield` in `list_measures`; a new table is a function that returns its rows
and a line of `makers` in `tabulate`.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from equivocal.paper.inference import Beliefs
from equivocal.paper.settings import read_record
from equivocal.statistics.summaries import (
    compare_logit_pairs,
    compare_pairs,
    compare_with_zero,
    correct_holm,
    fit_mixed_model,
)
from equivocal.world.items import Item

__all__ = ["load_printed_values", "tabulate"]

PRINTED_CONDITION = "reversal"
AXES = {"network": 0, "item": 1}  # axes of `arrange_grid`
IN_TABLES = ("indicated ", "non-relevant ")  # how the measures of the paper's tables begin
LOGIT = ("mean", "t", "p", "ci_low", "ci_high", "effect")
Rows = list[dict[str, Any]]
Tracked = dict[str, dict[str, dict[str, str]]]  # units by condition, item and role
KEYS = ["sampler", "prior", "network", "condition", "item", "measure", "probe"]


def load_printed_values() -> dict[str, Any]:
    """Load the numbers that the paper prints: `[table][measure][column]` with texts `p` and `t`."""
    return read_record("printed")


def tabulate(
    dataset: xr.Dataset, *, printed: bool = False, without: Container[str] = ()
) -> dict[str, pd.DataFrame]:
    """Compute the tables of a study.

    Parameters
    ----------
    dataset : Dataset
        The answers of a study (`activations`).
    printed : bool
        Whether to set the numbers that the paper prints beside ours.
    without : container of str
        Tables to leave out, to save time; the mixed model takes seconds.

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
    values = load_printed_values() if printed else {}
    return {
        name: _complete(name, make(), values)
        for name, make in makers.items()
        if name not in without
    }


def _group_tests(rows: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the identifying columns of each test, and its rows: one for each network and item."""
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
        if head["estimate"] == first:  # the trained network is the same for every sampler
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
    """Sort rows by estimate, in the order of first appearance."""
    order = list(dict.fromkeys(row["estimate"] for row in rows))
    return sorted(rows, key=lambda row: order.index(row["estimate"]))


def _test_every_word(dataset: xr.Dataset, prior: float) -> Rows:
    """Repeat the paired tests as if each word were the critical one; the paper does not do this."""
    found: Rows = []
    for position in (int(p) for p in dataset["position"].values):
        moved = dataset.assign(critical=xr.full_like(dataset["critical"], position))
        rows = compute_measures(moved)
        found += _test_pairs(rows[rows["prior"] == prior], over="item", position=position)
    return found


def _fit_mixed_models(rows: pd.DataFrame) -> Rows:
    """Fit the mixed model of each test."""
    found: Rows = []
    for head, part in _group_tests(rows):
        model = asdict(fit_mixed_model(part))
        found.append(head | {"scale": "logit", "difference": model.pop("estimate")} | model)
    return found


def _complete(name: str, rows: Rows, printed: dict[str, Any]) -> pd.DataFrame:
    """Make a table of rows, with labels, corrected p-values and any printed values."""
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
    """Find the printed cell of a row; empty where the paper prints none."""
    if row["condition"] != PRINTED_CONDITION or (by_prior and row["estimate"] != "paper"):
        return {}
    column = f"{row['prior']:g}" if by_prior else row["estimate"]
    cell: dict[str, str] = table.get(row["measure"], {}).get(column, {})
    return cell


def compute_measures(dataset: xr.Dataset) -> pd.DataFrame:
    """Compute the measures of every sentence, in double precision.

    Parameters
    ----------
    dataset : Dataset
        The answers of a study (`activations`).

    Returns
    -------
    DataFrame
        A row per sampler, prior, network, condition, item and measure; `mle`, `mean` and `truth`.
    """
    listed = list_measures(get_tracked(dataset), list_non_relevant(dataset))
    parts = []
    for condition, item, measure, probe, units in listed:
        position = int(dataset["critical"].sel(condition=condition, item=item))
        here = dataset[["mle", "mean", "truth"]].sel(
            condition=condition, item=item, position=position, probe=probe, unit=units
        )
        found = here.astype(float).mean("unit", skipna=False)
        rows = found.to_dataframe(dim_order=list(KEYS[:3])).reset_index()
        parts.append(rows.assign(measure=measure))
    return pd.concat(parts, ignore_index=True)[[*KEYS, "mle", "mean", "truth"]]


def arrange_grid(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Arrange one column, for one measure, sampler and prior, as (network, item)."""
    table = rows.pivot(index="network", columns="item", values=column)
    return np.asarray(table[list(dict.fromkeys(rows["item"]))].values, float)


def find_central_prior(dataset: xr.Dataset) -> float:
    """Find the prior variance of the main analysis."""
    return float(dataset.attrs["central_prior"])


def list_measures(
    tracked: Tracked, non_relevant: Sequence[str]
) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield condition, item, name, probe and units of each measure.

    Parameters
    ----------
    tracked : dict
        Units by condition, item and role; the first condition is the baseline.
    non_relevant : sequence of str
        Units that should stay off; for each item its own units are left out.
    """
    baseline = next(iter(tracked.values()))
    for condition, items in tracked.items():
        for item, indicated in items.items():
            for role, unit in indicated.items():
                yield condition, item, f"indicated {role}", role, [unit]
            for role, unit in baseline[item].items():
                if indicated.get(role, unit) != unit:
                    yield condition, item, f"plausible {role}", role, [unit]
            own = {unit for rows in tracked.values() for unit in rows[item].values()}
            others = [unit for unit in non_relevant if unit not in own]
            if indicated and others:
                role = "agent" if "agent" in indicated else next(iter(indicated))
                yield condition, item, f"non-relevant {role}", role, others


def get_tracked(dataset: xr.Dataset) -> Tracked:
    """Return the tracked units of a dataset by condition, item and role."""
    tracked: Tracked = {}
    listed = dataset["tracked"].to_series()
    for (condition, item, role), unit in zip(listed.index.to_list(), listed, strict=True):
        units = tracked.setdefault(condition, {}).setdefault(item, {})
        if unit:
            units[role] = unit
    return tracked


def list_own_units(dataset: xr.Dataset, item: str) -> set[str]:
    """Return the units that an item tracks in any condition."""
    return {unit for rows in get_tracked(dataset).values() for unit in rows[item].values()}


def list_non_relevant(dataset: xr.Dataset, item: str | None = None) -> list[str]:
    """Return the units that should stay off, without the own units of `item` if it is given."""
    own = list_own_units(dataset, item) if item is not None else set()
    return [unit for unit in map(str, dataset["non_relevant"].values) if unit not in own]


def find_stop_time(dataset: xr.Dataset) -> float:
    """Find the τ at which the paper's sampler stopped: the median over units and networks."""
    times = dataset["time"].sel(sampler="paper", prior=find_central_prior(dataset))
    return float(np.nanmedian(times))


def tabulate_steps(readings: Mapping[str, Beliefs]) -> pd.DataFrame:
    """Tabulate the paper's sampler with other J, Δτ and ρ under each reading of N (`steps`)."""
    steps = {name: one.steps for name, one in readings.items() if one.steps is not None}
    return pd.concat(steps, names=["reading"]).reset_index(0) if steps else pd.DataFrame()


def tabulate_effects(readings: Mapping[str, Beliefs]) -> pd.DataFrame:
    """Tabulate each network's activation of the indicated units of the last condition (`effects`).

    Returns
    -------
    DataFrame
        Columns reading ("" for the trained networks), estimate, measure, network and activation at
        the critical word, the mean over items.
    """
    parts: list[pd.DataFrame] = []
    for reading, beliefs in readings.items():
        rows = compute_measures(beliefs.answers)
        rows = rows[rows["prior"] == find_central_prior(beliefs.answers)]
        rows = rows[rows["condition"] == rows["condition"].iloc[-1]]
        rows = rows[rows["measure"].str.startswith("indicated")]
        rows = rows.rename(columns={"sampler": "estimate"}).assign(reading=reading)
        if not parts:
            first = rows[rows["estimate"] == rows["estimate"].iloc[0]]
            parts.append(first.assign(reading="", estimate="mle", mean=first["mle"]))
        parts.append(rows)
    keys = ["reading", "estimate", "measure", "network"]
    named = pd.concat(parts).rename(columns={"mean": "activation"})
    return named.groupby(keys, sort=False)[["activation"]].mean().reset_index()


def find_rational_levels(example: Item, readings: Mapping[str, Beliefs]) -> pd.DataFrame:
    """Find how strongly networks and posteriors believe the literal reading of an example.

    Parameters
    ----------
    example : Item
        The sentence.
    readings : mapping of str to Beliefs
        By reading of N.

    Returns
    -------
    DataFrame
        Columns reading ("" for the trained networks), estimate and belief, the mean over networks.
    """
    role, unit = next(iter(example.tracked.items()))
    place: dict[str, Any] = {"condition": example.condition, "item": example.name, "unit": unit}
    place |= {"position": example.critical, "probe": role}
    rows: list[tuple[str, str, float]] = []
    for reading, beliefs in readings.items():
        answers = beliefs.answers
        here = answers[["mle", "mean"]].sel(place).astype(float).mean("network")
        rows += [("", "mle", float(here["mle"]))] if not rows else []
        means = here["mean"].sel(prior=find_central_prior(answers))
        samplers = map(str, means["sampler"].values)
        rows += [(reading, name, float(means.sel(sampler=name))) for name in samplers]
    return pd.DataFrame(rows, columns=["reading", "estimate", "belief"])
