"""Mixed models of a response with and without each measure.

    response ~ 1 + controls [+ measure] + (1 | participant) + (1 | item)

Each measure is added *alone* to the model without measures and, where there are several, taken from
the model that holds them *together*. Criteria and likelihood ratios are by maximum likelihood;
coefficients, intervals and p-values by REML with Satterthwaite's degrees of freedom, since with few
items the intervals of maximum likelihood are too short. Measures and controls enter in standard
deviations over the trials; coefficients are given in those, and per unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.errors import UserError, listed
from equivocal.people.joining import Joined
from equivocal.people.mixed import MixedFit, RandomPart, fit_mixed
from equivocal.progress import Advance

__all__ = ["Comparison", "Model", "Pair", "compare", "is_numeric"]

MOST_LEVELS = 5_000  # participants and items; the fit holds some matrices of that many squared


@dataclass(frozen=True)
class Model:
    """Which measures are fixed effects, and which also have a slope for each participant."""

    measures: tuple[str, ...] = ()
    slopes: tuple[str, ...] = ()


class Pair(NamedTuple):
    """Two models that differ in one measure."""

    measure: str
    kind: str  # "alone" or "together"
    full: Model
    without: Model


@dataclass(frozen=True)
class Comparison:
    """What was fitted, and the table of it."""

    joined: Joined
    log: bool
    pairs: list[Pair]  # a row of the table each
    fits: dict[Model, MixedFit]  # by maximum likelihood
    table: pd.DataFrame
    notes: list[str]


def compare(
    joined: Joined,
    *,
    log: bool = False,
    slopes: bool = False,
    advance: Advance = lambda *_: None,
) -> Comparison:
    """Fit all models; a row for each measure alone, and for each together with the others."""
    trials = joined.trials
    y = _response(trials["response"].to_numpy(float), log)
    _check_groups(trials)
    notes = list(joined.notes)
    measures = _varying(trials, joined.measures, notes)
    if "position" in trials and "position" not in joined.controls:
        places = trials["position"].nunique()
        if places > 1:
            notes.append(
                f"{places} word positions are taken together; --control position allows for a "
                "trend over them, --where position=N keeps one"
            )
    design = _Design(trials, measures, joined.controls)
    pairs = _pairs(measures, slopes)
    if not design.is_independent(measures):
        notes.append("the measures determine each other, so they are fitted one by one only")
        pairs = [pair for pair in pairs if pair.kind == "alone"]
    wanted = list(dict.fromkeys(model for pair in pairs for model in (pair.without, pair.full)))
    holding = list(dict.fromkeys(pair.full for pair in pairs))
    total = len(wanted) + len(holding)
    fits, restricted = {}, {}
    for done, model in enumerate(wanted, start=1):
        fits[model] = fit_mixed(y, *design.of(model))
        advance(done, total, "fitting")
    for done, model in enumerate(holding, start=len(wanted) + 1):
        restricted[model] = fit_mixed(y, *design.of(model), reml=True)
        advance(done, total, "fitting")
    rows = []
    for pair in pairs:
        full, without, reml = fits[pair.full], fits[pair.without], restricted[pair.full]
        k = design.width + pair.full.measures.index(pair.measure)
        rows.append(
            {"measure": pair.measure, "model": pair.kind}
            | {"trials": len(y)}
            | {f"{name}s": trials[name].nunique() for name in ("participant", "item")}
            | _coefficient(reml, k, design.spread[pair.measure], float(y.std(ddof=1)))
            | _criteria(full, without)
            | _verdict(full, without, reml)
        )
    return Comparison(joined, log, pairs, fits, pd.DataFrame(rows), notes)


def _response(values: np.ndarray, log: bool) -> np.ndarray:
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


def _check_groups(trials: pd.DataFrame) -> None:
    for name in ("participant", "item"):
        levels = trials[name].nunique()
        if levels < 2:
            raise UserError(f"all joined trials have the same {name}; two or more are needed.")
        if levels == len(trials):
            raise UserError(
                f"every {name} has one trial only, so {name}s cannot be told from noise; "
                f"is --{name} the right column?"
            )
    together = sum(trials[name].nunique() for name in ("participant", "item"))
    if together > MOST_LEVELS:
        raise UserError(
            f"there are {together} participants and items together, and at most {MOST_LEVELS} can "
            "be fitted here; keep some with --where."
        )


def _varying(trials: pd.DataFrame, names: Sequence[str], notes: list[str]) -> list[str]:
    constant = [name for name in names if not trials[name].nunique() > 1]
    left = [name for name in names if name not in constant]
    if not left:
        raise UserError(f"{listed(constant)} is the same in every joined trial; nothing to fit.")
    if constant:
        notes.append(f"{listed(constant)} is the same in every joined trial and is left out")
    return left


def _pairs(measures: list[str], slopes: bool) -> list[Pair]:
    found = []
    for name in measures:
        random: tuple[str, ...] = (name,) if slopes else ()
        found.append(Pair(name, "alone", Model((name,), random), Model((), random)))
    if len(measures) > 1:
        all_of_them = tuple(measures)
        random = all_of_them if slopes else ()
        for name in measures:
            others = tuple(other for other in measures if other != name)
            found.append(Pair(name, "together", Model(all_of_them, random), Model(others, random)))
    return found


def is_numeric(values: pd.Series) -> bool:
    """Whether a control is a number in every trial; otherwise each of its values is a level."""
    return bool(pd.to_numeric(values, errors="coerce").notna().all())


class _Design:
    """Columns of X and Z for any of the models."""

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
            columns += _coded(trials[name])
        self.base = np.column_stack(columns)
        self.width = self.base.shape[1]
        if np.linalg.matrix_rank(self.base) < self.width:
            raise UserError(
                f"the controls {listed(controls)} are constant or determine each other; leave "
                "one out."
            )
        for name in measures:
            if not self.is_independent([name]):
                raise UserError(
                    f"{name} is determined by the controls {listed(controls)}, so nothing is left "
                    "of it to test; leave a control out."
                )

    def is_independent(self, measures: Sequence[str]) -> bool:
        """Whether the controls and these measures do not determine each other."""
        X, _ = self.of(Model(tuple(measures)))
        return bool(np.linalg.matrix_rank(X) == X.shape[1])

    def of(self, model: Model) -> tuple[np.ndarray, list[RandomPart]]:
        """X and the random parts."""
        X = np.column_stack([self.base, *(self.scaled[name] for name in model.measures)])
        parts = [RandomPart(name, codes) for name, codes in self.codes.items()]
        people = self.codes["participant"]
        parts += [RandomPart(f"{n} by participant", people, self.scaled[n]) for n in model.slopes]
        return X, parts


def _coded(values: pd.Series) -> list[np.ndarray]:
    if is_numeric(values):
        number = pd.to_numeric(values).to_numpy(float)
        return [(number - number.mean()) / (number.std() or 1.0)]
    levels = sorted(values.unique())
    return [(values == level).to_numpy(float) for level in levels[1:]]


def _coefficient(fit: MixedFit, k: int, spread: float, response: float) -> dict[str, Any]:
    """Per unit of the measure; and in standard deviations of the response per one of it."""
    estimate, (low, high) = float(fit.coefficients[k]), fit.interval(k)
    return {
        "estimate": estimate / spread,
        "se": fit.error(k) / spread,
        "low": low / spread,
        "high": high / spread,
        "std_estimate": estimate / response,
        "std_low": low / response,
        "std_high": high / response,
        "df": float(fit.df[k]),
        "p": fit.p_value(k),
    }


def _criteria(full: MixedFit, without: MixedFit) -> dict[str, float]:
    """`delta_…` is how much lower a criterion is with the measure: above zero favours it."""
    # two maxima found to the last digits but one may differ by less than nothing
    chi2 = max(2 * (full.log_likelihood - without.log_likelihood), 0.0)
    return {
        "delta_aic": without.aic - full.aic,
        "delta_bic": without.bic - full.bic,
        "chi2": chi2,
        "chi2_p": float(stats.chi2.sf(chi2, 1)),
        "log_likelihood": full.log_likelihood,
        "aic": full.aic,
        "bic": full.bic,
    }


def _verdict(full: MixedFit, without: MixedFit, restricted: MixedFit) -> dict[str, Any]:
    """Spread of the random parts, and whether all three fits can be believed."""
    used = (full, without, restricted)
    notes = dict.fromkeys(fit.note for fit in used if fit.note)
    return {
        "sd_participant": restricted.sds["participant"],
        "sd_item": restricted.sds["item"],
        "sd_residual": restricted.sd_residual,
        "converged": all(fit.converged for fit in used),
        "note": "; ".join(notes),
    }
