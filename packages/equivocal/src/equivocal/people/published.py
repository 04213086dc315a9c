"""Published numbers on people's uncertainty about who did what, compared with comprehenders.

`data/people.csv` contains the numbers, each with its source and its certainty (`status`). The
column `comparable` says whether comprehenders can be compared with a number: "yes"; "assumption",
under one that `note` names; "order", if only a direction is known; "no". A share y of n people has
the deviance

    D = 2 n [ y log(y / p) + (1 − y) log((1 − y) / (1 − p)) ]                                    (1)

from a comprehender that predicts p. The number of answers behind a share is not known, so n is the
number of people, a lower bound. A comprehender that predicts the true p has D = 1 on average: the
floor.

`describe_people` reports a comparison in sentences.
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

__all__ = [
    "compare_with_people",
    "describe_people",
    "load_people",
    "select_shares",
    "summarise_scores",
]

SHARES = ("not literal", "reversed")
DIFFERENCES = ("w", "b", "w/b")
FLOOR = 1.0  # expected deviance of each share under the true p, see (1)


def load_people() -> pd.DataFrame:
    """Load the published numbers about people, one row each, with source and status."""
    with resources.as_file(resources.files("equivocal.people") / "data" / "people.csv") as path:
        return pd.read_csv(path)


def select_shares(people: pd.DataFrame) -> pd.DataFrame:
    """Select the shares of readings by which comprehenders can be scored."""
    known = people["measure"].isin(SHARES) & people["value"].notna()
    return people[known & people["comparable"].isin(["yes", "assumption"])]


def compute_deviance(
    share: np.ndarray | float, predicted: np.ndarray | float, people: np.ndarray | float
) -> np.ndarray:
    """Compute the deviance (1); it is infinite if an observed answer has probability zero.

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
        The table of `load_people`.
    readings, areas : DataFrame
        The tables of `tabulate_readings` and `tabulate_areas`.
    listed : DataFrame
        The table of `select_learner`; only the ideal comprehender learns from a list.

    Returns
    -------
    DataFrame
        The rows of `people` for each comprehender, with `found`, `found_low` and `found_high`,
        `agrees` if only a direction is known (True, False or missing), `deviance` and `floor` of
        shares. `found` is missing if a comprehender has no counterpart.
    """
    rows = [
        human | {"comprehender": name} | _find_counterpart(human, name, readings, areas, listed)
        for human in people.to_dict("records")
        for name in readings["comprehender"].unique()
    ]
    return pd.DataFrame(rows)


def _find_counterpart(
    human: Mapping[Hashable, Any],
    name: str,
    readings: pd.DataFrame,
    areas: pd.DataFrame,
    listed: pd.DataFrame,
) -> dict[str, Any]:
    """Find the number of a comprehender that is compared with one human number."""
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
        return nothing | _find_value(human, name, areas, "area")
    if measure in (*SHARES, *DIFFERENCES):
        return nothing | _find_value(human, name, readings, "value", measure=measure)
    return nothing


def _find_order(human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame) -> dict[str, Any]:
    """Compute by how much one construction is read less literally than another."""
    about = {"plausibility": human["plausibility"], "measure": "not literal"}
    more, less = (
        _pick(readings, comprehender=name, construction=construction, **about)
        for construction in human["construction"].split(" > ")
    )
    if more is None or less is None:
        return {}
    found = more["value"] - less["value"]
    return {"found": found, "agrees": bool(found > 0)}


def _find_list_effect(name: str, listed: pd.DataFrame) -> dict[str, Any]:
    """Compute by how much readings become less literal if more of a list is implausible."""
    own = listed[listed["comprehender"] == name] if len(listed) else listed
    if own.empty:
        return {}
    found = float(own["not_literal"].iloc[-1] - own["not_literal"].iloc[0])
    return {"found": found, "agrees": bool(found < 0)}


def _find_value(
    human: Mapping[Hashable, Any], name: str, table: pd.DataFrame, column: str, **more: str
) -> dict[str, Any]:
    """Find a number in a table with its interval and, for a share of readings, its deviance."""
    about = {key: human[key] for key in ("construction", "plausibility")}
    row = _pick(table, comprehender=name, **about, **more)
    if row is None:
        return {}
    found = {"found": row[column], "found_low": row["low"], "found_high": row["high"]}
    if human["measure"] in SHARES:
        deviance = compute_deviance(human["value"], row[column], human["participants"])
        found |= {"deviance": float(deviance), "floor": FLOOR}
    return found


def _pick(table: pd.DataFrame, **wanted: str) -> Any:
    """Return the first row that has these values, or None."""
    own = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    return own.iloc[0] if len(own) else None


def summarise_scores(people: pd.DataFrame) -> pd.DataFrame:
    """Sum deviances and floors, and count the directions that agree, for each comprehender.

    Returns
    -------
    DataFrame
        comprehender, deviance and floor (summed over `shares` of readings; the floor is NaN if it
        is not known), p (probability of one deviance as large as the largest under the true shares,
        by Bonferroni's bound), agree and orders (how many of the known directions agree, and how
        many there are). The sum is not tested: the same people gave all shares, and those of
        unlikely passives are among those of any passives, so that deviances are not independent.
    """
    rows = []
    for name, own in people.groupby("comprehender", sort=False):
        scored, ordered = own[own["deviance"].notna()], own[own["agrees"].notna()]
        deviance = float(scored["deviance"].sum(min_count=1))
        floor = float(scored["floor"].sum(skipna=False, min_count=1))
        rows.append(
            {
                "comprehender": name,
                "deviance": deviance,
                "floor": floor,
                "p": np.nan if np.isnan(floor) else _bound_p(scored["deviance"]),
                "shares": len(scored),
                "agree": int(ordered["agrees"].astype(bool).sum()),
                "orders": len(ordered),
            }
        )
    return pd.DataFrame(rows)


def _bound_p(deviances: pd.Series) -> float:
    """Bound the probability of the largest deviance, however deviances depend on each other."""
    return min(1.0, len(deviances) * float(chi2.sf(deviances.max(), 1)))


def describe_people(tables: Mapping[str, pd.DataFrame], world: World) -> tuple[str, ...]:
    """Describe the tables of `compare_people` in sentences, the main result first."""
    people, scores = tables["people"], tables["scores"]
    parts = (
        _describe_prediction(tables, world) if "fit" in tables else (),
        _describe_readings(people, scores, world),
        _describe_fit(tables, world) if "fit" in tables else (),
        _describe_ranges(people) if "fit" in tables else (),
        _describe_differences(people),
        _describe_areas(people),
        _describe_orders(people),
        _describe_list(tables["list"]),
        _describe_others(people),
    )
    return tuple(line for part in parts for line in part)


def _select_found(people: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Select the rows of a measure for which comprehenders have a counterpart."""
    return people[(people["measure"] == measure) & people["found"].notna()]


def _format_percent(share: float, digits: int = 1) -> str:
    """Format a share as a percentage."""
    return f"{100 * share:.{digits}f} %"


def _describe_prediction(tables: Mapping[str, pd.DataFrame], world: World) -> Iterator[str]:
    """Say how well the fitted world predicts the shares it was fitted to, and directions."""
    fit, shares = tables["fit"], tables["fit_shares"]
    columns = (shares[name].to_numpy(float) for name in ("value", "before", "participants"))
    before = compute_deviance(*columns)
    fitted = fit[fit["identified"] != "not fitted"]
    bounded = fitted.loc[fitted["identified"] != "no", "parameter"]
    ideal = tables["scores"].iloc[0]
    yield (
        f"Fitted to {len(shares)} shares of people's readings, the ideal comprehender of "
        f"{world.name} has a deviance of {shares['deviance'].sum():.1f} instead of "
        f"{before.sum():.1f}, and then predicts {ideal['agree']} of {ideal['orders']} directions "
        f"that are known; of {len(fitted)} parameters the shares bound {join_names(bounded)}."
    )


def _describe_readings(people: pd.DataFrame, scores: pd.DataFrame, world: World) -> Iterator[str]:
    """Say how often unlikely passives are misread, and which comprehenders agree with people."""
    own = _select_found(people, "reversed")
    if own.empty:
        yield (
            f"World {world.name!r} has no unlikely passives, so no comprehender can be compared "
            "with people's share of readings the other way round."
        )
        return
    best = scores.sort_values("deviance").iloc[0]
    near = scores[scores["p"] > 0.05]["comprehender"]
    shares, deviance = f"all {best['shares']} shares", f"{best['deviance']:.1f}"
    fit = f"Nearest to people in {shares}: {best['comprehender']}, deviance {deviance}"
    agree = f"Their shares agree with {join_names(near) if len(near) else 'none of them'}"
    if len(scores) == 1:
        fit = f"Over {shares} its deviance is {deviance}"
        agree = f"Its shares {'agree' if len(near) else 'disagree'} with people's"
    line = (
        f"People read about {_format_percent(own['value'].iloc[0], 0)} of unlikely passives the "
        f"other way round; {_describe_found(own, world)}."
    )
    if not np.isnan(best["floor"]):
        line += (
            f" {fit}, where the true shares would have {best['floor']:.0f} on average. {agree} "
            "(5 % level)."
        )
    yield line


def _describe_found(own: pd.DataFrame, world: World) -> str:
    """Say how often each comprehender misreads; a single one is the ideal comprehender."""
    texts = {row["comprehender"]: _format_percent(row["found"]) for row in own.to_dict("records")}
    if len(texts) == 1:
        ((name, found),) = texts.items()
        return f"the {name} comprehender reads {found} that way"
    listed = ", ".join(f"{name} {found}" for name, found in texts.items())
    return f"comprehenders of {world.name} read that way: {listed}"


def _describe_differences(people: pd.DataFrame) -> Iterator[str]:
    """Say which share of disagreement is between answers of the same participant."""
    own = _select_found(people, "w/b")
    if len(own):
        texts = [f"{row['comprehender']} {row['found']:.2f}" for row in own.to_dict("records")]
        yield (
            "About half of people's disagreement is between answers of the same person (w/b "
            f"{own['value'].iloc[0]}); {', '.join(texts)}. Identical comprehenders would have 1."
        )


def _describe_areas(people: pd.DataFrame) -> Iterator[str]:
    """Say whether comprehenders detect reversals better than people's ratings do."""
    own = _select_found(people, "area")
    if len(own) and (own["found"] > own["value"]).all():
        alone = own["comprehender"].nunique() == 1
        who = "The comprehender separates" if alone else "All comprehenders separate"
        yield (
            f"{who} plausible sentences from their reversals better than people's ratings do; "
            "beliefs contain no rating noise."
        )


def _describe_orders(people: pd.DataFrame) -> Iterator[str]:
    """Say for which comprehenders constructions have the same order as for people."""
    own = people[(people["measure"] == "order of not literal") & people["agrees"].notna()]
    for order, rows in own.groupby("construction", sort=False):
        agree = rows[rows["agrees"].astype(bool)]["comprehender"]
        said = "all" if len(agree) == len(rows) > 1 else ", ".join(agree) or "none"
        yield f"More non-literal readings of {order}, as for people: {said}."


def _describe_list(listed: pd.DataFrame) -> Iterator[str]:
    """Say how a list of sentences changes the readings of the ideal comprehender."""
    if listed.empty:
        yield "The world has no parameters, so what a list of sentences teaches is not computed."
        return
    own = listed[listed["construction"] == "any"]
    texts = []
    for learns, rows in own.groupby("learns", sort=False):
        first, last = rows["not_literal"].iloc[0], rows["not_literal"].iloc[-1]
        both = f"{_format_percent(first)} to {_format_percent(last)}"
        texts.append(f"{both} if it learns about {learns}")
    low, high = own["share"].iloc[0], own["share"].iloc[-1]
    yield (
        f"More implausible sentences in the list ({_format_percent(low, 0)} to "
        f"{_format_percent(high, 0)}) make people read more literally; the ideal comprehender's "
        f"non-literal readings go from {', '.join(texts)}. Networks do not learn while they "
        "listen: for them the list makes no difference."
    )


def _describe_fit(tables: Mapping[str, pd.DataFrame], world: World) -> Iterator[str]:
    """Say which parameter values are likeliest, and which of them the shares determine."""
    fit = tables["fit"][tables["fit"]["identified"] != "not fitted"]
    values = ",".join(f"{name}={world.parameters[name]:g}" for name in fit["parameter"])
    yield f"Likeliest values given these shares: {world.name}:{values}."
    said = []
    tried = tables["profiles"].groupby("parameter")["value"].agg(["min", "max"])
    for row in fit.to_dict("records"):
        low, high = row["low"], row["high"]
        bounds = {
            "yes": f"{low:.3g} to {high:.3g}",
            "from above": f"at most {high:.3g}",
            "from below": f"at least {low:.3g}",
            "no": "not identified, no value from {:.2g} to {:.2g} is excluded".format(
                *tried.loc[row["parameter"]]
            ),
        }
        said.append(f"{row['parameter']} {bounds[row['identified']]}")
    few = f"{len(fit)} parameters, {len(tables['fit_shares'])} shares"
    yield f"What the shares determine of them (95 %, {few}): {'; '.join(said)}."


def _describe_ranges(people: pd.DataFrame) -> Iterator[str]:
    """Say how predictions vary over the parameter values that a fit allows."""
    own = people[(people["found_interval"] == "profile range") & ~people["fitted"]]
    own = own.drop_duplicates(["measure", "construction", "plausibility"])
    texts = []
    for row in own.to_dict("records"):
        about = [row[key] for key in ("plausibility", "construction") if row[key] != "any"]
        known = "a direction" if np.isnan(row["value"]) else f"{row['value']:g}"
        span = f"{row['found_low']:.3f} to {row['found_high']:.3f}"
        texts.append(f"{' '.join([row['measure'], *about])} {span} (people: {known})")
    if texts:
        yield f"Over the values that the shares allow, predictions range: {'; '.join(texts)}."


def _describe_others(people: pd.DataFrame) -> Iterator[str]:
    """Say which numbers are not comparable, and why."""
    own = people[people["comparable"] == "no"].drop_duplicates(["source", "measure"])
    texts = [f"{row['measure']} ({row['source']}: {row['note']})" for row in own.to_dict("records")]
    yield f"Not comparable: {'; '.join(texts)}."
