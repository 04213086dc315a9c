"""The columns of mixed models: fixed effects X, and random effects of participants and items.

Measures enter in standard deviations over the trials; controls as numbers, or a column for each
level but the first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from equivocal.statistics import RandomPart

DETERMINED = 1e-3  # a measure of which less is its own, in its sds, is determined by others
FACTORS = ("participant", "item")


class Model(NamedTuple):
    """Which measures are fixed effects, and which also have a slope for each level of a factor."""

    measures: tuple[str, ...] = ()
    participant: tuple[str, ...] = ()
    item: tuple[str, ...] = ()


class Design:
    """The columns of X and Z for any of the models."""

    def __init__(
        self, trials: pd.DataFrame, measures: Sequence[str], controls: Sequence[str]
    ) -> None:
        self.raw = {name: trials[name].to_numpy(float) for name in measures}
        self.spread = {name: float(x.std(ddof=1)) for name, x in self.raw.items()}
        self.scaled = {
            name: (x - x.mean()) / (self.spread[name] or 1.0) for name, x in self.raw.items()
        }
        self.codes = {name: pd.factorize(trials[name], sort=True)[0] for name in FACTORS}
        columns, self.names = [np.ones(len(trials))], list[str]()  # the intercept has no name
        for name in controls:
            coded = _code_control(trials[name])
            columns += coded
            self.names += [name] * len(coded)
        self.base = np.column_stack(columns)
        self.width = self.base.shape[1]

    def is_determined(self, measure: str, others: Sequence[str]) -> bool:
        """Return whether controls and other measures determine a measure.

        Measures that add up to another do so up to round-off, their own and that of a table.
        """
        X, _ = self.build(Model(tuple(others)))
        weights, *_ = np.linalg.lstsq(X, self.scaled[measure])
        return bool(np.std(self.scaled[measure] - X @ weights) < DETERMINED)

    def find_varying(self, measures: Sequence[str], factor: str) -> tuple[str, ...]:
        """Return the measures that vary within levels of a factor, and so may have slopes."""
        each = pd.DataFrame(self.raw).groupby(self.codes[factor])
        return tuple(name for name in measures if (each[name].nunique() > 1).any())

    def build(self, model: Model) -> tuple[np.ndarray, list[RandomPart]]:
        """Build X and the random parts of a model."""
        X = np.column_stack([self.base, *(self.scaled[name] for name in model.measures)])
        parts = [
            build_part(factor, self.codes[factor], {name: self.scaled[name] for name in slopes})
            for factor, slopes in zip(FACTORS, model[1:], strict=True)
        ]
        return X, parts


def build_part(factor: str, level: np.ndarray, slopes: dict[str, np.ndarray]) -> RandomPart:
    """Build the intercepts and slopes of a factor, which are correlated."""
    Z = np.column_stack([np.ones(len(level)), *slopes.values()])
    return RandomPart(factor, level, Z, (factor, *(f"{name} by {factor}" for name in slopes)))


def is_numeric(values: pd.Series) -> bool:
    """Return whether a control is numeric; otherwise its values are levels of a factor."""
    return bool(pd.to_numeric(values, errors="coerce").notna().all())


def _code_control(values: pd.Series) -> list[np.ndarray]:
    """Return a column for a number, or an indicator for each level but the first."""
    if is_numeric(values):
        number = pd.to_numeric(values).to_numpy(float)
        return [(number - number.mean()) / (number.std() or 1.0)]
    levels = sorted(values.unique())
    return [(values == level).to_numpy(float) for level in levels[1:]]
