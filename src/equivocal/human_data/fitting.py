"""Parameters of a world fitted to one human table by likelihood; what they predict of the others.

The ideal comprehender of a world with parameters θ predicts a share p_i(θ) for each share y_i of a
human table. With n_i people behind it, the deviance

    D(θ) = Σ_i 2 n_i KL(y_i ‖ p_i(θ))                                                            (1)

is minimised over the ranges that the world declares. The profile of a parameter is D minimised over
all others, with that one held; the 95 % interval is where it is within 3.84 of the minimum. A
profile that stays below this up to an end of the range leaves that side open; one that is flat
everywhere says that the data do not identify the parameter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import expit, logit

from equivocal.errors import UserError, check_known, join_names
from equivocal.human_data.ideal_readings import IdealReadings
from equivocal.human_data.people import compute_deviance
from equivocal.human_data.plausibility import AskedItems
from equivocal.progress import Advance
from equivocal.world import Reweighting

__all__ = ["WorldFit", "fit_world"]

LIMIT = 3.841458820694124  # 95 % of chi-squared with one degree of freedom
# log-odds of the place in a parameter's range: of the search, and of profiles, which end before it
ENDS, PROFILED = (-16.0, 8.0), (-8.0, 6.0)
POINTS = 13  # of a profile
STARTS = 3
IMPOSSIBLE = 1e3  # residual of values that no world can have
NO_EFFECT = 1e-6  # of a share, below which a parameter does nothing


@dataclass(frozen=True, eq=False)
class WorldFit:
    """Values of a world's parameters that a human table makes likeliest.

    Attributes
    ----------
    values : dict of str to float
        Of all parameters; those without an effect on the table keep the world's values.
    estimates : DataFrame
        parameter, start, estimate, low, high, least, most, identified ("yes", "from above",
        "from below", "no"; "not fitted" also where a parameter has no effect).
    profiles : DataFrame
        parameter, value, deviance.
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
        Of each profile.
    advance : callable
        Called with the number of parameters profiled, the total and what is done.

    Raises
    ------
    UserError
        Where the world has no parameters, or none of the sentences.
    """
    model = _Model(Reweighting(asked.world), asked, shares)
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
        lowest = profile.loc[profile["deviance"].idxmin()]
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


class _Model:
    """Predicted shares, and how far they are from people's."""

    def __init__(self, reweighting: Reweighting, asked: AskedItems, shares: pd.DataFrame) -> None:
        self.reweighting = reweighting
        self.ideal = IdealReadings(reweighting.world, asked)
        self.observed = shares["value"].to_numpy(float)
        self.people = shares["participants"].to_numpy(float)
        self.where, self.literal = [], []
        for row in shares.to_dict("records"):
            chosen = asked.number[asked.select(row["construction"], row["plausibility"])]
            if not len(chosen):
                raise UserError(
                    f"world {asked.world.name!r} has no {row['plausibility']} sentences of "
                    f"construction {row['construction']!r}, about which people were asked; use a "
                    "world that has them, such as `both_ways`."
                )
            self.where.append(np.unique(chosen))
            self.literal.append(row["measure"] == "not literal")
        self.specs = reweighting.world.file.parameters

    def predict(self, values: Mapping[str, float]) -> np.ndarray:
        """Return the predicted share of each row."""
        readings = self.ideal.read(self.reweighting.compute_weights(values))
        return np.array(
            [
                1 - readings[at, 0].mean() if literal else readings[at, 1].mean()
                for at, literal in zip(self.where, self.literal, strict=True)
            ]
        )

    def find_effective(self, start: Mapping[str, float]) -> list[str]:
        """Find the parameters that change a prediction anywhere in their range."""
        names = []
        for name, spec in self.specs.items():
            ends = [
                self.predict({**start, name: spec.least + (spec.most - spec.least) * share})
                for share in (0.2, 0.8)
            ]
            if np.abs(ends[0] - ends[1]).max() > NO_EFFECT:
                names.append(name)
        return names

    def compute_residuals(self, values: Mapping[str, float]) -> np.ndarray:
        """Return signed roots of the deviances, whose squares sum to (1)."""
        try:
            predicted = np.clip(self.predict(values), 1e-12, 1 - 1e-12)
        except UserError:  # noise that sums above one
            return np.full(len(self.observed), IMPOSSIBLE)
        deviance = compute_deviance(self.observed, predicted, self.people)
        return np.asarray(np.sign(self.observed - predicted) * np.sqrt(np.maximum(deviance, 0)))

    def minimise(
        self, names: list[str], start: Mapping[str, float], starts: int = STARTS
    ) -> tuple[dict[str, float], float]:
        """Minimise (1) over some parameters, from `start` and from other places."""
        if not names:
            return dict(start), float((self.compute_residuals(start) ** 2).sum())
        first = np.array([self._place(name, start[name]) for name in names])
        others = np.random.default_rng(0).uniform(-4, 1, (starts - 1, len(names)))
        best: tuple[dict[str, float], float] | None = None
        for begin in (first, *others):
            found = least_squares(
                lambda z: self.compute_residuals({**start, **self._read(names, z)}),
                np.clip(begin, ENDS[0] + 0.1, ENDS[1] - 0.1),
                bounds=ENDS,
                diff_step=1e-4,
                xtol=1e-6,
                ftol=1e-7,
                max_nfev=40,
            )
            if best is None or 2 * found.cost < best[1] - 1e-9:
                best = {**start, **self._read(names, found.x)}, 2 * float(found.cost)
        assert best is not None
        return best

    def _place(self, name: str, value: float) -> float:
        spec = self.specs[name]
        share = (value - spec.least) / (spec.most - spec.least)
        return float(np.clip(logit(np.clip(share, 1e-9, 1 - 1e-9)), *ENDS))

    def _read(self, names: list[str], z: np.ndarray) -> dict[str, float]:
        specs = [self.specs[name] for name in names]
        shares = expit(z)
        return {
            name: float(spec.least + (spec.most - spec.least) * share)
            for name, spec, share in zip(names, specs, shares, strict=True)
        }

    def profile(
        self,
        name: str,
        names: list[str],
        values: Mapping[str, float],
        deviance: float,
        points: int,
    ) -> pd.DataFrame:
        """Minimise (1) over all other parameters at values along the range of one."""
        others = [other for other in names if other != name]
        spec, centre = self.specs[name], self._place(name, values[name])
        grid = np.linspace(*PROFILED, points)
        found = {values[name]: deviance}
        for side in (grid[grid < centre][::-1], grid[grid > centre]):
            current = dict(values)
            for z in (*side, *side[::-1]):  # outwards and back: from either side of a local minimum
                current[name] = spec.least + (spec.most - spec.least) * float(expit(z))
                current, reached = self.minimise(others, current, starts=1)
                found[current[name]] = min(reached, found.get(current[name], np.inf))
        table = pd.DataFrame(sorted(found.items()), columns=["value", "deviance"])
        return table.assign(parameter=name)[["parameter", "value", "deviance"]]


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
