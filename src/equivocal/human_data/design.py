"""Fixed and random effects of the models: columns of X and Z, and data that no model can take."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from equivocal.errors import UserError, join_names
from equivocal.mixed_models import RandomPart

MOST_LEVELS = 5_000  # columns of Z; the fit holds some matrices of that many squared


@dataclass(frozen=True)
class Model:
    """Which measures are fixed effects, and which also have a slope for each participant."""

    measures: tuple[str, ...] = ()
    slopes: tuple[str, ...] = ()


def prepare_response(values: np.ndarray, log: bool) -> np.ndarray:
    """Return numbers that a linear model can be fitted to, or their logarithms."""
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise UserError(f"the response is {distinct[0]:g} in every trial; there is nothing to fit.")
    if len(distinct) == 2:
        raise UserError(
            f"the response has only two values, {distinct[0]:g} and {distinct[1]:g}, and linear "
            "models are not for these; fit a logistic one in R: glmer(response ~ measure + "
            "(1 | participant) + (1 | item), family = binomial)."
        )
    if not log:
        return values
    if distinct[0] <= 0:
        raise UserError(
            f"the logarithm needs responses above zero, and one is {distinct[0]:g}; leave out "
            "--log, or remove those trials."
        )
    return np.asarray(np.log(values))


def check_groups(trials: pd.DataFrame) -> None:
    """Refuse trials of a single participant or item, or a single trial of each."""
    for name in ("participant", "item"):
        levels = trials[name].nunique()
        if levels < 2:
            raise UserError(f"all joined trials have the same {name}; two or more are needed.")
        if levels == len(trials):
            raise UserError(
                f"every {name} has one trial only, so {name}s cannot be told from noise; "
                f"is --{name} the right column?"
            )


def check_size(
    participants: int, items: int, slopes: int, way_out: str, most: int = MOST_LEVELS
) -> None:
    """Refuse more random effects than a fit can hold.

    There is an intercept for each participant and item, and for each participant the slopes.
    """
    columns = items + participants * (1 + slopes)
    if columns > most:
        also = f" (each with {slopes + 1})" if slopes else ""
        raise UserError(
            f"{participants} participants{also} and {items} items make {columns} random effects, "
            f"and at most {most} can be fitted here; {way_out}."
        )


def select_varying(trials: pd.DataFrame, names: Sequence[str], notes: list[str]) -> list[str]:
    """Return the measures that are not the same in every trial, and note the others."""
    constant = [name for name in names if not trials[name].nunique() > 1]
    said = f"{join_names(constant)} is the same in every joined trial"
    if len(constant) == len(names):
        raise UserError(f"{said}; nothing to fit.")
    if constant:
        notes.append(f"{said} and is left out")
    return [name for name in names if name not in constant]


def is_numeric(values: pd.Series) -> bool:
    """Tell whether a control is a number in every trial; otherwise its values are levels."""
    return bool(pd.to_numeric(values, errors="coerce").notna().all())


class Design:
    """The columns of X and Z for any of the models."""

    def __init__(
        self, trials: pd.DataFrame, measures: Sequence[str], controls: Sequence[str]
    ) -> None:
        self.spread = {name: float(trials[name].std()) for name in measures}
        self.scaled = {
            name: ((trials[name] - trials[name].mean()) / self.spread[name]).to_numpy(float)
            for name in measures
        }
        self.codes = {
            name: pd.factorize(trials[name], sort=True)[0] for name in ("participant", "item")
        }
        columns = [np.ones(len(trials))]
        for name in controls:
            columns += _code_control(trials[name])
        self.base = np.column_stack(columns)
        self.width = self.base.shape[1]
        if np.linalg.matrix_rank(self.base) < self.width:
            raise UserError(
                f"the controls {join_names(controls)} are constant or determine each other; leave "
                "one out."
            )
        for name in measures:
            if not self.is_independent([name]):
                raise UserError(
                    f"{name} is determined by the controls {join_names(controls)}, so "
                    "nothing is left of it to test; leave a control out."
                )

    def is_independent(self, measures: Sequence[str]) -> bool:
        """Tell whether the controls and these measures do not determine each other."""
        X, _ = self.build(Model(tuple(measures)))
        return bool(np.linalg.matrix_rank(X) == X.shape[1])

    def build(self, model: Model) -> tuple[np.ndarray, list[RandomPart]]:
        """Build X and the random parts of a model."""
        X = np.column_stack([self.base, *(self.scaled[name] for name in model.measures)])
        parts = [RandomPart(name, codes) for name, codes in self.codes.items()]
        people = self.codes["participant"]
        parts += [RandomPart(f"{n} by participant", people, self.scaled[n]) for n in model.slopes]
        return X, parts


def _code_control(values: pd.Series) -> list[np.ndarray]:
    """Return a column for a number, or an indicator for each level but the first."""
    if is_numeric(values):
        number = pd.to_numeric(values).to_numpy(float)
        return [(number - number.mean()) / (number.std() or 1.0)]
    levels = sorted(values.unique())
    return [(values == level).to_numpy(float) for level in levels[1:]]
