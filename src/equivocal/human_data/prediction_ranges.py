"""How far what a fitted world predicts of people may range, given what it was fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from equivocal.human_data.adaptation import adapt_to_list, select_learner
from equivocal.human_data.people import compare_with_people
from equivocal.human_data.plausibility import AskedItems, believe_ideal
from equivocal.human_data.reading_tables import tabulate_areas, tabulate_readings
from equivocal.progress import Advance
from equivocal.world import World

__all__ = ["tabulate_ranges"]

IDEAL = "ideal"


def tabulate_ranges(
    people: pd.DataFrame,
    asked: AskedItems,
    points: Sequence[Mapping[str, float]],
    advance: Advance = lambda *_: None,
) -> pd.DataFrame:
    """Predict every human number by the ideal comprehender, at values that a fit allows.

    Parameters
    ----------
    people : DataFrame
        As `load_people` returns it.
    asked : AskedItems
        The sentences, which are the same at all points.
    points : sequence of mapping
        Values of the world's parameters, from `WorldFit.list_likely_values`.
    advance : callable
        Called with the number of points done, the total and what is done.

    Returns
    -------
    DataFrame
        A row for each of `people`: low and high, the least and the greatest prediction; NaN where
        there is none.
    """
    found = []
    for done, values in enumerate(points):
        advance(done, len(points), "range of predictions")
        found.append(_predict(people, asked, values))
    advance(len(points), len(points), "range of predictions")
    every = np.array(found, float)
    none = np.isnan(every).all(axis=0)
    low, high = (
        np.where(none, np.nan, end(np.where(np.isnan(every), worst, every), axis=0))
        for end, worst in ((np.min, np.inf), (np.max, -np.inf))
    )
    return pd.DataFrame({"low": low, "high": high}, index=people.index)


def _predict(people: pd.DataFrame, asked: AskedItems, values: Mapping[str, float]) -> pd.Series:
    """Return what the ideal comprehender of the world with these values predicts."""
    world = World.from_toml(asked.world.text, asked.world.source, values)
    there = replace(asked, world=world)
    beliefs = {IDEAL: believe_ideal(there)}
    readings, areas = (
        tabulate(there, beliefs, draws=0) for tabulate in (tabulate_readings, tabulate_areas)
    )
    learned = select_learner(adapt_to_list(there), IDEAL)
    return compare_with_people(people, readings, areas, learned)["found"]
