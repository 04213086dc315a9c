"""Human shares of readings as the ideal comprehender of a world predicts them, and their deviance.

What is minimised, and what a profile is, is defined in `fitting`. Values are searched for on the
log-odds of a parameter's place in its range, since their order of magnitude is not known.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import expit, logit

from equivocal.errors import UserError
from equivocal.human_data.ideal_readings import IdealReadings
from equivocal.human_data.people import compute_deviance
from equivocal.human_data.plausibility import AskedItems
from equivocal.world import Reweighting

__all__ = ["LIMIT", "ShareModel"]

# log-odds of the place in a parameter's range: of the search, and of profiles, which end before it
ENDS, PROFILED = (-16.0, 8.0), (-8.0, 6.0)
LIMIT = 3.841458820694124  # 95 % of chi-squared with one degree of freedom
STARTS = 3
REFINED = 4  # halvings of the gap in which a profile crosses the limit
IMPOSSIBLE = 1e3  # residual of values that no world can have
NO_EFFECT = 1e-6  # of a share, below which a parameter does nothing


class ShareModel:
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
                    f"world {asked.world.name!r} has no unlikely sentences of construction "
                    f"{row['construction']!r}, about which people were asked; use a world that has "
                    "them, such as `both_ways`."
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

        def residuals(z: np.ndarray) -> np.ndarray:
            return self.compute_residuals({**start, **self._read(names, z)})

        first = np.array([self._place(name, start[name]) for name in names])
        others = np.random.default_rng(0).uniform(-4, 1, (starts - 1, len(names)))
        best: tuple[dict[str, float], float] | None = None
        for begin in (first, *others):
            found = least_squares(
                residuals,
                np.clip(begin, ENDS[0] + 0.1, ENDS[1] - 0.1),
                bounds=ENDS,
                diff_step=np.full(len(names), 1e-4),
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
        """Minimise (1) over all other parameters at values along the range of one.

        Returns
        -------
        DataFrame
            parameter, value, deviance and, as at_NAME, the values of all parameters there.
        """
        others = [other for other in names if other != name]
        centre, limit = self._place(name, values[name]), deviance + LIMIT
        reached = {centre: (dict(values), deviance)}

        def visit(z: float, begin: float) -> float:
            """Minimise at the place z from where another place had its minimum."""
            start = {**reached[begin][0], **self._read([name], np.array([z]))}
            found = self.minimise(others, start, starts=1)
            if z not in reached or found[1] < reached[z][1]:
                reached[z] = found
            return reached[z][1]

        grid = np.linspace(*PROFILED, points)
        for side in (grid[grid < centre][::-1], grid[grid > centre]):
            # outwards and back: from either side of a local minimum
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
    """Halve the gap in which the heights along places first cross the limit."""
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
