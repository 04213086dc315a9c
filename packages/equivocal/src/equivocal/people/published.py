"""Published numbers on people's uncertainty about who did what, compared with comprehenders.

`data/people.csv` contains the numbers, each with its source and its certainty (`status`). The
column `comparable` says whether comprehenders can be compared with a number: "yes"; "assumption",
under one that `note` names; "no". A share y of n people has the deviance

    D = 2 n [ y log(y / p) + (1 − y) log((1 − y) / (1 − p)) ]                                    (1)

from a comprehender that predicts p. The number of answers behind a share is not known, so n is the
number of people, a lower bound. A comprehender that predicts the true p has D = 1 on average: the
floor.

Readings are tabulated with intervals over networks and items (`agreement`). A comprehender of which
there is only one, such as the ideal comprehender or an ensemble, is not a sample; its intervals are
over items.
"""

from collections.abc import Hashable, Iterator, Mapping
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import rel_entr
from scipy.stats import chi2

from equivocal.people.agreement import Estimate, summarise_answers
from equivocal.people.comprehenders import ANY, ITEM_READINGS, AskedItems
from equivocal.world import PLAUSIBILITY, World
from lastlayer.errors import join_names

__all__ = [
    "compare_with_people",
    "describe_people",
    "load_people",
    "summarise_scores",
    "tabulate_readings",
]

SHARES = ("not literal", "reversed")
DRAWS = 400  # resamples of the bootstrap
Arrays = Mapping[str, np.ndarray]  # by comprehender


def load_people() -> pd.DataFrame:
    """Load the published numbers about people, one row each, with source and status."""
    with resources.as_file(resources.files("equivocal.people") / "data" / "people.csv") as path:
        return pd.read_csv(path)


def tabulate_readings(
    asked: AskedItems,
    beliefs: Arrays,
    networks: Arrays | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Tabulate readings by construction and plausibility, with w, b and w/b.

    Parameters
    ----------
    asked : AskedItems
        The questions.
    beliefs : mapping of str to ndarray of shape (participants, questions, 3)
        By comprehender: probabilities of `ITEM_READINGS`; NaN if they are undefined.
    networks : mapping of str to ndarray of shape (participants,), optional
        The network of each participant. A comprehender that is missing here is not a sample.
    draws : int
        Number of bootstrap resamples; no intervals with 0.
    seed : int
        The seed of the bootstrap.

    Returns
    -------
    DataFrame
        comprehender, construction, plausibility, measure ("not literal", `ITEM_READINGS`, w, b,
        w/b), value, low, high (95 %; NaN for a single network), participants, items.
    """
    rows = []
    for name, believed in beliefs.items():
        owners = (networks or {}).get(name)
        for construction in (*asked.constructions, ANY):
            for plausibility in (*PLAUSIBILITY, ANY):
                chosen = asked.select(construction, plausibility)
                chosen_beliefs = believed[:, chosen]
                if not len(chosen) or np.isnan(chosen_beliefs).any():
                    continue
                head = {
                    "comprehender": name,
                    "construction": construction,
                    "plausibility": plausibility,
                }
                names = asked.names[chosen]
                sizes = {"participants": len(chosen_beliefs), "items": len(set(names))}
                estimates = summarise_answers(
                    chosen_beliefs,
                    names,
                    ITEM_READINGS,
                    groups=owners,
                    only_items=owners is None,
                    draws=draws,
                    seed=seed,
                )
                literal = estimates["literal"]
                opposite = Estimate(1 - literal.value, 1 - literal.high, 1 - literal.low)
                for measure, each in {"not literal": opposite, **estimates}.items():
                    rows.append(head | {"measure": measure, **each._asdict(), **sizes})
    keys = ["comprehender", "construction", "plausibility", "measure", *Estimate._fields]
    return pd.DataFrame(rows, columns=[*keys, "participants", "items"])


def compare_with_people(people: pd.DataFrame, readings: pd.DataFrame) -> pd.DataFrame:
    """Compare every comprehender with every human number.

    Parameters
    ----------
    people : DataFrame
        The table of `load_people`.
    readings : DataFrame
        The table of `tabulate_readings`.

    Returns
    -------
    DataFrame
        The rows of `people` for each comprehender, with `found`, `found_low` and `found_high`,
        `deviance` and `floor` of shares. `found` is missing if a comprehender has no counterpart.
    """
    rows = [
        human | {"comprehender": name} | _find_counterpart(human, name, readings)
        for human in people.to_dict("records")
        for name in readings["comprehender"].unique()
    ]
    return pd.DataFrame(rows)


def _find_counterpart(
    human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame
) -> dict[str, Any]:
    """Find the number of a comprehender that is compared with one human number."""
    numbers = dict.fromkeys(("found", "found_low", "found_high", "deviance", "floor"), np.nan)
    counterpart: dict[str, Any] = numbers
    measure = human["measure"]
    if human["comparable"] == "no":
        return counterpart
    if measure in (*SHARES, "w", "b", "w/b"):
        return counterpart | _find_value(human, name, readings)
    return counterpart


def _find_value(human: Mapping[Hashable, Any], name: str, readings: pd.DataFrame) -> dict[str, Any]:
    """Find a number in a table with its interval and, for a share of readings, its deviance."""
    about = {key: human[key] for key in ("construction", "plausibility", "measure")}
    row = _pick(readings, comprehender=name, **about)
    if row is None:
        return {}
    value = {"found": row["value"], "found_low": row["low"], "found_high": row["high"]}
    if human["measure"] in SHARES:
        y, p = human["value"], float(row["value"])
        deviance = 2 * human["participants"] * (rel_entr(y, p) + rel_entr(1 - y, 1 - p))
        value |= {"deviance": float(deviance), "floor": 1.0}  # expected under the true p, see (1)
    return value


def _pick(table: pd.DataFrame, **wanted: str) -> Any:
    """Return the first row that has these values, or None."""
    rows = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    return rows.iloc[0] if len(rows) else None


def summarise_scores(people: pd.DataFrame) -> pd.DataFrame:
    """Sum deviances and floors for each comprehender.

    Returns
    -------
    DataFrame
        comprehender, deviance and floor (summed over `shares` of readings), p (probability of one
        deviance as large as the largest under the true shares, by Bonferroni's bound, however they
        depend on each other). The sum is not tested: the same people gave all shares, and those of
        unlikely passives are among those of any passives, so that deviances are not independent.
    """
    rows = []
    for name, group in people.groupby("comprehender", sort=False):
        scored = group[group["deviance"].notna()]
        bound = min(1.0, len(scored) * float(chi2.sf(scored["deviance"].max(), 1)))
        rows.append(
            {
                "comprehender": name,
                "deviance": float(scored["deviance"].sum(min_count=1)),
                "floor": float(scored["floor"].sum(min_count=1)),
                "p": bound if len(scored) else np.nan,
                "shares": len(scored),
            }
        )
    return pd.DataFrame(rows)


def describe_people(tables: Mapping[str, pd.DataFrame], world: World) -> tuple[str, ...]:
    """Describe the tables of `compare_people` in sentences, the main result first."""
    people = tables["people"]
    return (
        *_describe_readings(people, tables["scores"], world),
        *_describe_differences(people),
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
