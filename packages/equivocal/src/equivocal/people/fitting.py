"""Fits the parameters of a world to human shares by likelihood, and predicts other human numbers.

The ideal comprehender of a world with parameters θ predicts a share p_i(θ) for each share y_i of a
human table. With n_i people behind it, the deviance

    D(θ) = Σ_i 2 n_i KL(y_i ‖ p_i(θ))                                                            (1)

is minimised over the ranges that the world declares. The profile of a parameter is D minimised over
all other parameters while that one is fixed; the 95 % interval is where the profile is within 3.84
of the minimum. If the profile stays below this limit up to an end of the range, the interval is
open on that side; if it does so at both ends, the data do not identify the parameter. Shares of the
same people count as independent here, which makes intervals too short rather than too long.

Predictions are computed at all points of the profiles within 3.84 of the minimum
(`tabulate_ranges`). These are only some of the values that the data allow, so the true range is at
least as wide.

The search is over the log-odds of a parameter's relative position in its range, since its order of
magnitude is unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import expit, logit

from equivocal.people.published import compare_with_people, compute_deviance
from equivocal.people.questions import AskedItems, IdealReadings, believe_ideal
from equivocal.people.reading_tables import (
    adapt_to_list,
    select_learner,
    tabulate_areas,
    tabulate_readings,
)
from equivocal.progress import Advance
from equivocal.world import Reweighting, World
from lastlayer.errors import UserError, check_known, join_names

__all__ = ["POINTS", "WorldFit", "fit_world", "tabulate_ranges"]

POINTS = 13  # of a profile
ENDS = (-16.0, 8.0)  # bounds of the search, in log-odds of the position in a parameter's range
PROFILED = (-8.0, 6.0)  # bounds of profiles, likewise
LIMIT = 3.841458820694124  # 95 % quantile of chi-squared with one degree of freedom
STARTS = 3  # searches, the first from the given values
REFINED = 4  # bisections of the gap in which a profile crosses the limit
IMPOSSIBLE = 1e3  # residual of parameter values that are not allowed in a world
NO_EFFECT = 1e-6  # change of a share below which a parameter has no effect


class ShareModel:
    """Shares that the ideal comprehender predicts, and their deviance from people's shares."""

    def __init__(self, reweighting: Reweighting, asked: AskedItems, shares: pd.DataFrame) -> None:
        self.reweighting = reweighting
        self.ideal = IdealReadings(reweighting.world, asked)
        self.observed = shares["value"].to_numpy(float)
        self.people = shares["participants"].to_numpy(float)
        self.rows = []  # for each share: the items, and whether all but literal readings count
        for row in shares.to_dict("records"):
            chosen = asked.number[asked.select(row["construction"], row["plausibility"])]
            if not len(chosen):
                raise UserError(
                    f"world {asked.world.name!r} has no unlikely sentences of construction "
                    f"{row['construction']!r}, about which people were asked; use a world that has "
                    "them, such as `both_ways`."
                )
            self.rows.append((np.unique(chosen), row["measure"] == "not literal"))
        self.specs = reweighting.world.file.parameters

    def predict(self, values: Mapping[str, float]) -> np.ndarray:
        """Return the predicted share of each row."""
        readings = self.ideal.read(self.reweighting.compute_weights(values))
        return np.array(
            [
                1 - readings[at, 0].mean() if not_literal else readings[at, 1].mean()
                for at, not_literal in self.rows
            ]
        )

    def find_effective(self, start: Mapping[str, float]) -> list[str]:
        """Find the parameters that change a prediction between 20 % and 80 % of their range."""
        names = []
        for name, spec in self.specs.items():
            ends = [self.predict({**start, name: spec.interpolate(x)}) for x in (0.2, 0.8)]
            if np.abs(ends[0] - ends[1]).max() > NO_EFFECT:
                names.append(name)
        return names

    def compute_residuals(self, values: Mapping[str, float]) -> np.ndarray:
        """Return signed square roots of the deviances, whose squares sum to (1)."""
        try:
            predicted = np.clip(self.predict(values), 1e-12, 1 - 1e-12)
        except UserError:  # noise that sums above one
            return np.full(len(self.observed), IMPOSSIBLE)
        deviance = compute_deviance(self.observed, predicted, self.people)
        return np.asarray(np.sign(self.observed - predicted) * np.sqrt(np.maximum(deviance, 0)))

    def minimise(
        self, names: list[str], start: Mapping[str, float], starts: int = STARTS
    ) -> tuple[dict[str, float], float]:
        """Minimise (1) over some parameters, from `start` and from random points."""
        if not names:
            return dict(start), float((self.compute_residuals(start) ** 2).sum())

        def compute(z: np.ndarray) -> np.ndarray:
            return self.compute_residuals({**start, **self._read(names, z)})

        first = np.array([self._locate(name, start[name]) for name in names])
        others = np.random.default_rng(0).uniform(-4, 1, (starts - 1, len(names)))
        best = dict(start), np.inf
        for begin in (first, *others):
            found = least_squares(
                compute,
                np.clip(begin, ENDS[0] + 0.1, ENDS[1] - 0.1),
                bounds=ENDS,
                diff_step=np.full(len(names), 1e-4),
                xtol=1e-6,
                ftol=1e-7,
                max_nfev=40,
            )
            if 2 * found.cost < best[1] - 1e-9:
                best = {**start, **self._read(names, found.x)}, 2 * float(found.cost)
        return best

    def _locate(self, name: str, value: float) -> float:
        """Return the log-odds of a value's relative position in the range of its parameter."""
        spec = self.specs[name]
        share = (value - spec.least) / (spec.most - spec.least)
        return float(np.clip(logit(np.clip(share, 1e-9, 1 - 1e-9)), *ENDS))

    def _read(self, names: list[str], z: np.ndarray) -> dict[str, float]:
        """Return the values of parameters at positions in their ranges, given in log-odds."""
        shares = zip(names, expit(z).tolist(), strict=True)
        return {name: self.specs[name].interpolate(share) for name, share in shares}

    def profile(
        self,
        name: str,
        names: list[str],
        values: Mapping[str, float],
        deviance: float,
        points: int,
    ) -> pd.DataFrame:
        """Minimise (1) over all other parameters at values along the range of one.

        Returns
        -------
        DataFrame
            parameter, value, deviance and, as at_NAME, the values of all parameters there.
        """
        others = [other for other in names if other != name]
        centre, limit = self._locate(name, values[name]), deviance + LIMIT
        reached = {centre: (dict(values), deviance)}

        def visit(z: float, begin: float) -> float:
            """Minimise at the position z, starting at the minimum of another position."""
            start = {**reached[begin][0], **self._read([name], np.array([z]))}
            found = self.minimise(others, start, starts=1)
            if z not in reached or found[1] < reached[z][1]:
                reached[z] = found
            return reached[z][1]

        grid = np.linspace(*PROFILED, points)
        for side in (grid[grid < centre][::-1], grid[grid > centre]):
            # outwards and back, so that a local minimum is approached from both sides
            path = [centre, *side.tolist(), *side[-2::-1].tolist()]
            heights = {z: visit(z, begin) for begin, z in pairwise(path)}
            _refine(visit, [centre, *side.tolist()], heights, limit)
        rows = [
            {"parameter": name, "value": at[name], "deviance": height}
            | {f"at_{other}": value for other, value in at.items()}
            for at, height in reached.values()
        ]
        return pd.DataFrame(rows).sort_values("value", ignore_index=True)


def _refine(
    visit: Callable[[float, float], float],
    places: list[float],
    heights: Mapping[float, float],
    limit: float,
) -> None:
    """Bisect the gap in which the heights along places first cross the limit."""
    crossed = [z for z in places[1:] if heights[z] > limit]
    if not crossed:
        return
    outside = crossed[0]
    inside = places[places.index(outside) - 1]
    for _ in range(REFINED):
        middle = (inside + outside) / 2
        if visit(middle, inside) > limit:
            outside = middle
        else:
            inside = middle


@dataclass(frozen=True, eq=False)
class WorldFit:
    """Maximum-likelihood values of a world's parameters, given human shares.

    Attributes
    ----------
    values : dict of str to float
        The values of all parameters; parameters without an effect keep the world's values.
    estimates : DataFrame
        parameter, start, estimate, low, high, least, most, identified ("yes", "from above",
        "from below", "no"; "not fitted" also where a parameter has no effect).
    profiles : DataFrame
        parameter, value, deviance and, as at_NAME, the values of all parameters there.
    shares : DataFrame
        The human shares, with the shares predicted at the estimates (`fitted`) and at the world's
        own values (`before`), and the `deviance` at the estimates.
    deviance : float
        At the estimates; its expectation is the number of shares minus that of identified
        parameters.
    """

    values: dict[str, float]
    estimates: pd.DataFrame
    profiles: pd.DataFrame
    shares: pd.DataFrame
    deviance: float

    def list_likely_values(self) -> list[dict[str, float]]:
        """List the parameter values at the estimates, and at profile points within the limit."""
        near = self.profiles[self.profiles["deviance"] <= self.deviance + LIMIT]
        values = near[[f"at_{name}" for name in self.values]].to_numpy(float).tolist()
        return [self.values, *(dict(zip(self.values, row, strict=True)) for row in values)]


def fit_world(
    asked: AskedItems,
    shares: pd.DataFrame,
    *,
    parameters: Sequence[str] = (),
    points: int = POINTS,
    advance: Advance = lambda *_: None,
) -> WorldFit:
    """Fit the parameters of a world to human shares of readings.

    Parameters
    ----------
    asked : AskedItems
        The sentences of the world, which declares parameters.
    shares : DataFrame
        measure ("not literal" or "reversed"), construction, plausibility, value, participants.
    parameters : sequence of str
        The parameters to fit; all that have an effect, unless given.
    points : int
        Number of points of each profile.
    advance : callable
        Called with the number of parameters profiled, the total and the current task.

    Raises
    ------
    UserError
        Where the world has no parameters, or none of the sentences.
    """
    model = ShareModel(Reweighting(asked.world), asked, shares)
    start = dict(asked.world.parameters)
    for name in parameters:
        check_known(name, start, "parameter", f"world {asked.world.name!r}: ")
    names = [n for n in model.find_effective(start) if not parameters or n in parameters]
    if not names:
        raise UserError(
            f"{join_names(parameters or start)} of world {asked.world.name!r} does not change how "
            "these sentences are read; fit another parameter, or use a world with noise."
        )
    values, deviance = model.minimise(names, start)
    profiles = {}
    for done, name in enumerate(names):
        advance(done, len(names), f"profile of {name}")
        profiles[name] = model.profile(name, names, values, deviance, points)
        lowest = profiles[name].sort_values("deviance").iloc[0]
        if lowest["deviance"] < deviance - 1e-6:  # a better minimum than the search had found
            values, deviance = model.minimise(names, {**values, name: float(lowest["value"])})
    advance(len(names), len(names), "all profiles")
    intervals = {n: _find_interval(own, values[n], deviance) for n, own in profiles.items()}
    fitted, before = model.predict(values), model.predict(start)
    each = compute_deviance(model.observed, fitted, model.people)
    return WorldFit(
        values=values,
        estimates=_tabulate_estimates(start, values, intervals, asked),
        profiles=pd.concat(profiles.values(), ignore_index=True),
        shares=shares.assign(fitted=fitted, before=before, deviance=each),
        deviance=deviance,
    )


def _find_interval(profile: pd.DataFrame, estimate: float, deviance: float) -> tuple[float, float]:
    """Return where the profile crosses the limit on either side; NaN if it does not."""
    value, height = profile["value"].to_numpy(), profile["deviance"].to_numpy() - deviance - LIMIT
    ends = []
    for side in (value <= estimate, value >= estimate):
        x, y = value[side], height[side]
        if side[0]:
            x, y = x[::-1], y[::-1]  # from the estimate outwards
        above = np.flatnonzero(y > 0)
        if not len(above) or above[0] == 0:
            ends.append(np.nan)
            continue
        k = above[0]
        ends.append(float(np.interp(0, [y[k - 1], y[k]], [x[k - 1], x[k]])))
    return ends[0], ends[1]


def _tabulate_estimates(
    start: Mapping[str, float],
    values: Mapping[str, float],
    intervals: Mapping[str, tuple[float, float]],
    asked: AskedItems,
) -> pd.DataFrame:
    """Tabulate the estimates and say which of them the data identify."""
    said = {(False, False): "yes", (True, False): "from above", (False, True): "from below"}
    rows = []
    for name, spec in asked.world.file.parameters.items():
        low, high = intervals.get(name, (np.nan, np.nan))
        identified = said.get((np.isnan(low), np.isnan(high)), "no")
        rows.append(
            {
                "parameter": name,
                "start": start[name],
                "estimate": values[name],
                "low": low,
                "high": high,
                "least": spec.least,
                "most": spec.most,
                "identified": identified if name in intervals else "not fitted",
            }
        )
    return pd.DataFrame(rows)


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
        The table of `load_people`.
    asked : AskedItems
        The sentences, which are the same at all points.
    points : sequence of mapping
        Values of the world's parameters, from `WorldFit.list_likely_values`.
    advance : callable
        Called with the number of points done, the total and the current task.

    Returns
    -------
    DataFrame
        A row for each of `people`: low and high, the least and the greatest prediction; NaN if
        there is none.
    """
    found = []
    for done, values in enumerate(points):
        advance(done, len(points), "range of predictions")
        found.append(_predict_people(people, asked, values))
    advance(len(points), len(points), "range of predictions")
    every = pd.DataFrame(np.array(found, float), columns=people.index)
    return pd.DataFrame({"low": every.min(), "high": every.max()})


def _predict_people(
    people: pd.DataFrame, asked: AskedItems, values: Mapping[str, float]
) -> pd.Series:
    """Return the predictions of the ideal comprehender in the world with these values."""
    world = World.from_toml(asked.world.text, asked.world.source, values)
    there = replace(asked, world=world)
    beliefs = {"ideal": believe_ideal(there)}
    readings, areas = (
        tabulate(there, beliefs, draws=0) for tabulate in (tabulate_readings, tabulate_areas)
    )
    learned = select_learner(adapt_to_list(there), "ideal")
    return compare_with_people(people, readings, areas, learned)["found"]
