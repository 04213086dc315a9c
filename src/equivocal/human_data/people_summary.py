"""What a comparison of comprehenders with people found, in plain words."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from equivocal.world import World

__all__ = ["describe_people", "summarise_scores"]


def summarise_scores(people: pd.DataFrame) -> pd.DataFrame:
    """Sum deviances and floors, and count the directions that agree, for each comprehender.

    Returns
    -------
    DataFrame
        comprehender, deviance and floor (over `shares` of readings; the floor is NaN where it is
        not known), agree and orders (how many of the known directions).
    """
    rows = []
    for name, own in people.groupby("comprehender", sort=False):
        scored, ordered = own[own["deviance"].notna()], own[own["agrees"].notna()]
        rows.append(
            {
                "comprehender": name,
                "deviance": scored["deviance"].sum() if len(scored) else np.nan,
                "floor": scored["floor"].sum(skipna=False) if len(scored) else np.nan,
                "shares": len(scored),
                "agree": int(ordered["agrees"].astype(bool).sum()),
                "orders": len(ordered),
            }
        )
    return pd.DataFrame(rows)


def describe_people(tables: Mapping[str, pd.DataFrame], world: World) -> tuple[str, ...]:
    """Describe the tables of `compare_people`, the answer first."""
    parts = (
        _describe_readings(tables["people"], tables["scores"], world),
        _describe_differences(tables["people"]),
        _describe_areas(tables["people"]),
        _describe_orders(tables["people"]),
        _describe_list(tables["list"]),
        _describe_fit(tables, world),
        _describe_others(tables["people"]),
    )
    return tuple(line for part in parts for line in part)


def _describe_readings(people: pd.DataFrame, scores: pd.DataFrame, world: World) -> Iterator[str]:
    """Say how often unlikely passives are misread, and by whom as often as by people."""
    own = people[(people["measure"] == "reversed") & people["found"].notna()]
    if own.empty:
        yield (
            f"world {world.name!r} has no unlikely passives, so no comprehender can be compared "
            "with people's share of readings the other way round"
        )
        return
    texts = [f"{row['comprehender']} {row['found']:.1%}" for row in own.to_dict("records")]
    best = scores.loc[scores["deviance"].idxmin()]
    floor = "" if np.isnan(best["floor"]) else f", where {best['floor']:.0f} is the floor"
    yield (
        f"Of unlikely passives people read about {own['value'].iloc[0]:.0%} the other way round, "
        f"and comprehenders of {world.name} read: {', '.join(texts)}. Nearest to people in all "
        f"{best['shares']} shares is {best['comprehender']} (deviance {best['deviance']:.1f}"
        f"{floor})."
    )


def _describe_differences(people: pd.DataFrame) -> Iterator[str]:
    """Say what share of disagreement is with oneself."""
    own = people[(people["measure"] == "w/b") & people["found"].notna()]
    if len(own):
        texts = [f"{row['comprehender']} {row['found']:.2f}" for row in own.to_dict("records")]
        yield (
            f"Of people's disagreement about half is with themselves, w/b {own['value'].iloc[0]}; "
            f"{', '.join(texts)}. Comprehenders that are one, and copies of it, would have 1."
        )


def _describe_areas(people: pd.DataFrame) -> Iterator[str]:
    own = people[(people["measure"] == "area") & people["found"].notna()]
    if len(own) and (own["found"] > own["value"]).all():
        yield (
            "All comprehenders tell plausible sentences from their reversals better than people's "
            "ratings do; beliefs have no noise of rating in them."
        )


def _describe_orders(people: pd.DataFrame) -> Iterator[str]:
    """Say whether constructions are ordered as they are for people."""
    own = people[(people["measure"] == "order of not literal") & people["agrees"].notna()]
    for order, rows in own.groupby("construction", sort=False):
        agree = rows[rows["agrees"].astype(bool)]["comprehender"]
        lost = rows[~rows["agrees"].astype(bool)]["comprehender"]
        said = "all" if lost.empty else ", ".join(agree) if len(agree) else "none"
        yield f"More non-literal readings of {order}, as for people: {said}."


def _describe_list(listed: pd.DataFrame) -> Iterator[str]:
    """Say what a list of sentences teaches the ideal comprehender."""
    if listed.empty:
        yield "The world has no parameters, so what a list of sentences teaches is not computed."
        return
    own = listed[listed["construction"] == "any"]
    texts = []
    for learns, rows in own.groupby("learns", sort=False):
        first, last = rows["not_literal"].iloc[0], rows["not_literal"].iloc[-1]
        texts.append(f"{first:.1%} to {last:.1%} if it learns of {learns}")
    low, high = own["share"].iloc[0], own["share"].iloc[-1]
    yield (
        f"More implausible sentences in the list ({low:.0%} to {high:.0%}) make people read more "
        f"literally; the ideal comprehender's non-literal readings go from {', '.join(texts)}. "
        "Networks do not learn while they listen: for them the list makes no difference."
    )


def _describe_fit(tables: Mapping[str, pd.DataFrame], world: World) -> Iterator[str]:
    """Say which parameters the human table determines."""
    if "fit" not in tables:
        return
    fit = tables["fit"][tables["fit"]["identified"] != "not fitted"]
    values = ",".join(
        f"{row['parameter']}={world.parameters[row['parameter']]:g}" for _, row in fit.iterrows()
    )
    yield f"Likeliest values given people's shares: {world.name}:{values}."
    said = []
    for row in fit.to_dict("records"):
        low, high = row["low"], row["high"]
        bounds = {
            "yes": f"{low:.3g} to {high:.3g}",
            "from above": f"at most {high:.3g}",
            "from below": f"at least {low:.3g}",
            "no": "not identified: its profile is flat",
        }
        said.append(f"{row['parameter']} {bounds[row['identified']]}")
    few = f"{len(fit)} parameters, {len(tables['fit_shares'])} shares"
    yield f"What the shares determine of them (95 %, {few}): {'; '.join(said)}."


def _describe_others(people: pd.DataFrame) -> Iterator[str]:
    """Say what is not comparable, and why."""
    own = people[people["comparable"] == "no"].drop_duplicates(["source", "measure"])
    texts = [f"{row['measure']} ({row['source']}: {row['note']})" for row in own.to_dict("records")]
    yield f"Not comparable: {'; '.join(texts)}."
