"""Published numbers on people's uncertainty about who did what, compared with comprehenders.

`data/people.csv` has the numbers, each with its source and its certainty (`status`). `comparable`
says what can be done with a number: "yes"; "assumption", which `note` names; "order", where only a
direction is known; "no". A share y of n people has the deviance

    D = 2 n [ y log(y / p) + (1 − y) log((1 − y) / (1 − p)) ]                                    (1)

from a comprehender who predicts p. How many answers are behind a share is not known, so n counts
people, the smallest number it can be. Whoever predicts the true p has D = 1 on average: the floor.
"""

from collections.abc import Hashable, Mapping
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import rel_entr

__all__ = [
    "SHARES",
    "compare_with_people",
    "compute_deviance",
    "load_people",
    "select_shares",
]

SHARES = ("not literal", "reversed")
DIFFERENCES = ("w", "b", "w/b")
FLOOR = 1.0  # of each share, see (1)


def load_people() -> pd.DataFrame:
    """Load the published numbers about people, one row each, with source and status."""
    with resources.as_file(resources.files("equivocal.human_data") / "data" / "people.csv") as path:
        return pd.read_csv(path, keep_default_na=True)


def select_shares(people: pd.DataFrame) -> pd.DataFrame:
    """Select the shares of readings that a comprehender can be scored by."""
    known = people["measure"].isin(SHARES) & people["value"].notna()
    return people[known & people["comparable"].isin(["yes", "assumption"])]


def compute_deviance(
    share: np.ndarray | float, predicted: np.ndarray | float, people: np.ndarray | float
) -> np.ndarray:
    """Compute the deviance (1); it is infinite where an observed answer has probability zero.

    >>> compute_deviance(0.25, np.array([0.25, 0.1]), 48).round(3).tolist()
    [0.0, 8.864]
    """
    share, predicted = np.asarray(share, float), np.asarray(predicted, float)
    both = rel_entr(share, predicted) + rel_entr(1 - share, 1 - predicted)
    return np.asarray(2 * people * both)


def compare_with_people(
    people: pd.DataFrame, readings: pd.DataFrame, areas: pd.DataFrame, listed: pd.DataFrame
) -> pd.DataFrame:
    """Compare every comprehender with every human number.

    Parameters
    ----------
    people : DataFrame
        As `load_people` returns it.
    readings, areas : DataFrame
        As `tabulate_readings` and `tabulate_areas` return them.
    listed : DataFrame
        As `adapt_to_list` returns it; only the ideal comprehender learns from a list.

    Returns
    -------
    DataFrame
        The rows of `people` for each comprehender, with `found`, `found_low` and `found_high`,
        `agrees` where only a direction is known (True, False or missing), `deviance` and `floor` of
        shares. `found` is missing where a comprehender has no counterpart.
    """
    comprehenders = list(dict.fromkeys(readings["comprehender"])) if len(readings) else []
    rows = [
        human | {"comprehender": name} | _find_counterpart(human, name, readings, areas, listed)
        for human in people.to_dict("records")
        for name in comprehenders
    ]
    return pd.DataFrame(rows)


def _find_counterpart(
    human: Mapping[Hashable, Any],
    name: str,
    readings: pd.DataFrame,
    areas: pd.DataFrame,
    listed: pd.DataFrame,
) -> dict[str, Any]:
    """Find what a comprehender says to one human number."""
    numbers = dict.fromkeys(("found", "found_low", "found_high", "deviance", "floor"), np.nan)
    nothing: dict[str, Any] = numbers | {"agrees": None}
    measure = human["measure"]
    if human["comparable"] == "no":
        return nothing
    if measure == "order of not literal":
        return nothing | _find_order(human, name, readings)
    if measure == "list effect":
        return nothing | _find_list_effect(name, listed)
    if measure == "area":
        return nothing | _find_area(human, name, areas)
    if measure in (*SHARES, *DIFFERENCES):
        return nothing | _find_reading(human, name, readings)
    return nothing


def _find_order(human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame) -> dict[str, Any]:
    """Find by how much one construction is read less literally than another."""
    values = [
        _pick(readings, name, construction, human["plausibility"], "not literal")
        for construction in human["construction"].split(" > ")
    ]
    if any(value is None for value in values):
        return {}
    more, less = values
    found = more["value"] - less["value"]
    return {"found": found, "agrees": bool(found > 0)}


def _find_list_effect(name: str, listed: pd.DataFrame) -> dict[str, Any]:
    """Find by how much readings are less literal where more of the list is implausible."""
    own = listed[listed["comprehender"] == name] if len(listed) else listed
    if own.empty:
        return {}
    found = float(own["not_literal"].iloc[-1] - own["not_literal"].iloc[0])
    return {"found": found, "agrees": bool(found < 0)}


def _find_area(human: Mapping[Hashable, Any], name: str, areas: pd.DataFrame) -> dict[str, Any]:
    """Find how well plausible sentences are told from their reversals."""
    own = areas[
        (areas["comprehender"] == name)
        & (areas["construction"] == human["construction"])
        & (areas["plausibility"] == human["plausibility"])
    ]
    if own.empty:
        return {}
    row = own.iloc[0]
    return {"found": row["area"], "found_low": row["low"], "found_high": row["high"]}


def _find_reading(
    human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame
) -> dict[str, Any]:
    """Find a share of readings with its deviance, or how often answers differ."""
    measure = human["measure"]
    row = _pick(readings, name, human["construction"], human["plausibility"], measure)
    if row is None:
        return {}
    found = {"found": row["value"], "found_low": row["low"], "found_high": row["high"]}
    if measure in SHARES:
        deviance = compute_deviance(human["value"], row["value"], human["participants"])
        found |= {"deviance": float(deviance), "floor": FLOOR}
    return found


def _pick(
    readings: pd.DataFrame, name: str, construction: str, plausibility: str, measure: str
) -> Any:
    """Pick one row of readings; None where there is none."""
    own = readings[
        (readings["comprehender"] == name)
        & (readings["construction"] == construction)
        & (readings["plausibility"] == plausibility)
        & (readings["measure"] == measure)
    ]
    return own.iloc[0] if len(own) else None
