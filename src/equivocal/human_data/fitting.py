"""Parameters of a world fitted to one human table by likelihood; what they predict of the others.

The ideal comprehender of a world with parameters θ predicts a share p_i(θ) for each share y_i of a
human table. With n_i people behind it, the deviance

    D(θ) = Σ_i 2 n_i KL(y_i ‖ p_i(θ))                                                            (1)

is minimised over the ranges that the world declares. The profile of a parameter is D minimised over
all others, with that one held; the 95 % interval is where it is within 3.84 of the minimum. A
profile that stays below this up to an end of the range leaves that side open; one that is flat
everywhere says that the data do not identify the parameter.

A prediction ranges over all points of the profiles within 3.84 of the minimum (`tabulate_ranges`).
They are some of the values that the data allow, so the range is a lower bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from equivocal.errors import UserError, check_known, join_names
from equivocal.human_data.people import compute_deviance
from equivocal.human_data.plausibility import AskedItems
from equivocal.human_data.share_model import LIMIT, ShareModel
from equivocal.progress import Advance
from equivocal.world import Reweighting

__all__ = ["POINTS", "WorldFit", "fit_world"]

POINTS = 13  # of a profile


@dataclass(frozen=True, eq=False)
class WorldFit:
    """Values of a world's parameters that a human table makes likeliest.

    Attributes
    ----------
    values : dict of str to float
        The values of all parameters; those without an effect keep the world's values.
    estimates : DataFrame
        parameter, start, estimate, low, high, least, most, identified ("yes", "from above",
        "from below", "no"; "not fitted" also where a parameter has no effect).
    profiles : DataFrame
        parameter, value, deviance and, as at_NAME, the values of all parameters there.
    shares : DataFrame
        The human shares, with `fitted`, `deviance` and, of the world's own values, `before`.
    deviance : float
        At the estimates; its floor is the number of shares less that of identified parameters.
    """

    values: dict[str, float]
    estimates: pd.DataFrame
    profiles: pd.DataFrame
    shares: pd.DataFrame
    deviance: float

    def list_likely_values(self) -> list[dict[str, float]]:
        """List the values of all parameters at the estimates, and at points within the limit."""
        near = self.profiles[self.profiles["deviance"] <= self.deviance + LIMIT]
        points = [
            {name: float(row[f"at_{name}"]) for name in self.values} for _, row in near.iterrows()
        ]
        return [self.values, *points]


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
        Those that are fitted; all that have an effect, unless given.
    points : int
        How many points each profile has.
    advance : callable
        Called with the number of parameters profiled, the total and what is done.

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
    profiles, intervals = [], {}
    for done, name in enumerate(names):
        advance(done, len(names), f"profile of {name}")
        profile = model.profile(name, names, values, deviance, points)
        profiles.append(profile)
        lowest = profile.sort_values("deviance").iloc[0]
        if lowest["deviance"] < deviance - 1e-6:  # a better minimum than the search had found
            values, deviance = model.minimise(names, {**values, name: float(lowest["value"])})
    for name, profile in zip(names, profiles, strict=True):
        intervals[name] = _find_interval(profile, values[name], deviance)
    advance(len(names), len(names), "all profiles")
    fitted, before = model.predict(values), model.predict(start)
    each = compute_deviance(shares["value"].to_numpy(), fitted, model.people)
    return WorldFit(
        values=values,
        estimates=_tabulate(start, values, intervals, asked),
        profiles=pd.concat(profiles, ignore_index=True),
        shares=shares.assign(fitted=fitted, before=before, deviance=each),
        deviance=deviance,
    )


def _find_interval(profile: pd.DataFrame, estimate: float, deviance: float) -> tuple[float, float]:
    """Return where the profile crosses the limit on either side; NaN where it does not."""
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


def _tabulate(
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
