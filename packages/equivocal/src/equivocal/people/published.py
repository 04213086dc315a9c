"""Published numbers on people's uncertainty about who did what, compared with comprehenders.

`data/people.csv` contains the numbers, each with its source and its certainty (`status`). The
column `comparable` says whether comprehenders can be compared with a number: "yes"; "assumption",
under one that `note` names; "order", if only a direction is known; "no". A share y of n people has
the deviance

    D = 2 n [ y log(y / p) + (1 − y) log((1 − y) / (1 − p)) ]                                    (1)

from a comprehender that predicts p. The number of answers behind a share is not known, so n is the
number of people, a lower bound. A comprehender that predicts the true p has D = 1 on average: the
floor.
"""

from collections.abc import Hashable, Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import rel_entr
from scipy.stats import chi2

from equivocal.world import World
from lastlayer.errors import join_names

__all__ = ["compare_with_people", "describe_people", "load_people", "summarise_scores"]

SHARES = ("not literal", "reversed")


def load_people() -> pd.DataFrame:
    """Load the published numbers about people, one row each, with source and status."""
    with resources.as_file(resources.files("equivocal.people") / "data" / "people.csv") as path:
        return pd.read_csv(path)


def compare_with_people(
    people: pd.DataFrame, readings: pd.DataFrame, areas: pd.DataFrame
) -> pd.DataFrame:
    """Compare every comprehender with every human number.

    Parameters
    ----------
    people : DataFrame
        The table of `load_people`.
    readings, areas : DataFrame
        The tables of `tabulate_readings` and `tabulate_areas`.

    Returns
    -------
    DataFrame
        The rows of `people` for each comprehender, with `found`, `found_low` and `found_high`,
        `agrees` if only a direction is known (True, False or missing), `deviance` and `floor` of
        shares. `found` is missing if a comprehender has no counterpart.
    """
    rows = [
        human | {"comprehender": name} | _find_counterpart(human, name, readings, areas)
        for human in people.to_dict("records")
        for name in readings["comprehender"].unique()
    ]
    return pd.DataFrame(rows)


def _find_counterpart(
    human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame, areas: pd.DataFrame
) -> dict[str, Any]:
    """Find the number of a comprehender that is compared with one human number."""
    numbers = dict.fromkeys(("found", "found_low", "found_high", "deviance", "floor"), np.nan)
    counterpart: dict[str, Any] = numbers | {"agrees": None}
    measure = human["measure"]
    if human["comparable"] == "no":
        return counterpart
    if measure == "order of not literal":
        return counterpart | _find_order(human, name, readings)
    if measure == "area":
        return counterpart | _find_value(human, name, areas, "area")
    if measure in (*SHARES, "w", "b", "w/b"):
        return counterpart | _find_value(human, name, readings, "value", measure=measure)
    return counterpart


def _find_order(human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame) -> dict[str, Any]:
    """Compute by how much one construction is read less literally than another."""
    about = {"plausibility": human["plausibility"], "measure": "not literal"}
    more, less = (
        _pick(readings, comprehender=name, construction=construction, **about)
        for construction in human["construction"].split(" > ")
    )
    if more is None or less is None:
        return {}
    difference = more["value"] - less["value"]
    return {"found": difference, "agrees": bool(difference > 0)}


def _find_value(
    human: Mapping[Hashable, Any], name: str, table: pd.DataFrame, column: str, **more: str
) -> dict[str, Any]:
    """Find a number in a table with its interval and, for a share of readings, its deviance."""
    about = {key: human[key] for key in ("construction", "plausibility")}
    row = _pick(table, comprehender=name, **about, **more)
    if row is None:
        return {}
    value = {"found": row[column], "found_low": row["low"], "found_high": row["high"]}
    if human["measure"] in SHARES:
        y, p = human["value"], float(row[column])
        deviance = 2 * human["participants"] * (rel_entr(y, p) + rel_entr(1 - y, 1 - p))
        value |= {"deviance": float(deviance), "floor": 1.0}  # expected under the true p, see (1)
    return value


def _pick(table: pd.DataFrame, **wanted: str) -> Any:
    """Return the first row that has these values, or None."""
    rows = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    return rows.iloc[0] if len(rows) else None


def summarise_scores(people: pd.DataFrame) -> pd.DataFrame:
    """Sum deviances and floors, and count the directions that agree, for each comprehender.

    Returns
    -------
    DataFrame
        comprehender, deviance and floor (summed over `shares` of readings), p (probability of one
        deviance as large as the largest under the true shares, by Bonferroni's bound, however they
        depend on each other), agree and orders (how many of the known directions agree, and how
        many there are). The sum is not tested: the same people gave all shares, and those of
        unlikely passives are among those of any passives, so that deviances are not independent.
    """
    rows = []
    for name, group in people.groupby("comprehender", sort=False):
        scored, ordered = group[group["deviance"].notna()], group[group["agrees"].notna()]
        bound = min(1.0, len(scored) * float(chi2.sf(scored["deviance"].max(), 1)))
        rows.append(
            {
                "comprehender": name,
                "deviance": float(scored["deviance"].sum(min_count=1)),
                "floor": float(scored["floor"].sum(min_count=1)),
                "p": bound if len(scored) else np.nan,
                "shares": len(scored),
                "agree": int(ordered["agrees"].astype(bool).sum()),
                "orders": len(ordered),
            }
        )
    return pd.DataFrame(rows)


def describe_people(tables: Mapping[str, pd.DataFrame], world: World) -> tuple[str, ...]:
    """Describe the tables of `compare_people` in sentences, the main result first."""
    people = tables["people"]
    return (
        *_describe_readings(people, tables["scores"], world),
        *_describe_differences(people),
        *_describe_orders(people),
    )


def _select_known(people: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Select the rows of a measure for which comprehenders have a counterpart."""
    return people[(people["measure"] == measure) & people["found"].notna()]


def _describe_readings(people: pd.DataFrame, scores: pd.DataFrame, world: World) -> Iterator[str]:
    """Say how often unlikely passives are misread, and which comprehenders agree with people."""
    known = _select_known(people, "reversed")
    if known.empty:
        yield (
            f"World {world.name!r} has no unlikely passives, so no comprehender can be compared "
            "with people's share of readings the other way round."
        )
        return
    best, near = scores.sort_values("deviance").iloc[0], scores[scores["p"] > 0.05]["comprehender"]
    shares = zip(known["comprehender"], known["found"], strict=True)
    yield (
        f"People read about {100 * known['value'].iloc[0]:.0f} % of unlikely passives the other "
        "way round; comprehenders: "
        f"{join_names((f'{name} {100 * p:.1f} %' for name, p in shares), most=20)}. Least deviance "
        f"in all {best['shares']} shares: {best['comprehender']}, {best['deviance']:.1f}, where "
        f"the true shares would have {best['floor']:.0f} on average. Not excluded by people's "
        f"shares (5 % level): {join_names(near)}."
    )


def _describe_differences(people: pd.DataFrame) -> Iterator[str]:
    """Say which share of disagreement is between answers of the same participant."""
    known = _select_known(people, "w/b")
    if len(known):
        ratios = zip(known["comprehender"], known["found"], strict=True)
        yield (
            "About half of people's disagreement is between answers of the same person (w/b "
            f"{known['value'].iloc[0]}); {', '.join(f'{name} {x:.2f}' for name, x in ratios)}. "
            "Identical comprehenders would have 1."
        )


def _describe_orders(people: pd.DataFrame) -> Iterator[str]:
    """Say for which comprehenders constructions have the same order as for people."""
    ordered = people[(people["measure"] == "order of not literal") & people["agrees"].notna()]
    for order, rows in ordered.groupby("construction", sort=False):
        agree = rows[rows["agrees"].astype(bool)]["comprehender"]
        said = "all" if len(agree) == len(rows) > 1 else ", ".join(agree) or "none"
        yield f"More non-literal readings of {order}, as for people: {said}."
