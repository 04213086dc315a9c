"""Mixed models of a response with and without each measure.

    response ~ 1 + controls [+ measure] + (1 | participant) + (1 | item)

Each measure is added *alone* to the model without measures and, where there are several, taken from
the model that holds them *together*. Criteria and likelihood ratios are by maximum likelihood;
coefficients, intervals and p-values by REML with Satterthwaite's degrees of freedom, since with few
items the intervals of maximum likelihood are too short. Measures and controls enter in standard
deviations over the trials; coefficients are given in those, and per unit.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.human_data.design import (
    MOST_LEVELS,
    Design,
    Model,
    check_groups,
    check_size,
    prepare_response,
    select_varying,
)
from equivocal.human_data.joins import Joined
from equivocal.mixed_models import MixedFit, check_trials, fit_mixed
from equivocal.progress import Advance

__all__ = ["Comparison", "Pair", "Plan", "compare", "fit_models", "plan_models"]


class Pair(NamedTuple):
    """Two models that differ in one measure."""

    measure: str
    kind: str  # "alone" or "together"
    full: Model
    without: Model


@dataclass(frozen=True)
class Plan:
    """Models to fit, of trials that have been checked."""

    joined: Joined
    log: bool
    y: np.ndarray  # the response, or its logarithm
    design: Design
    pairs: list[Pair]  # a row of the table each
    notes: list[str]


@dataclass(frozen=True)
class Comparison(Plan):
    """Models that have been fitted, and the table of them."""

    fits: dict[Model, MixedFit]  # by maximum likelihood
    table: pd.DataFrame


def compare(
    joined: Joined,
    *,
    log: bool = False,
    slopes: bool = False,
    advance: Advance = lambda *_: None,
    most_effects: int = MOST_LEVELS,
) -> Comparison:
    """Fit models with and without each measure.

    Parameters
    ----------
    joined : Joined
        Trials with their measures, as `join` returns them.
    log : bool
        Model the logarithm of the response.
    slopes : bool
        Let the effect of each measure differ between participants.
    advance : callable
        Told how many models are done, of how many.
    most_effects : int
        Refuse models with more random effects than this; memory grows with its square.

    Returns
    -------
    Comparison
        Its `table` has a row for each measure alone, and for each together with the others.

    Raises
    ------
    UserError
        Where the trials cannot be fitted, with the reason.
    """
    plan = plan_models(joined, log=log, slopes=slopes, most_effects=most_effects)
    return fit_models(plan, advance)


def plan_models(
    joined: Joined, *, log: bool = False, slopes: bool = False, most_effects: int = MOST_LEVELS
) -> Plan:
    """Return the models to fit, once the trials are known to be fit for them (see `compare`)."""
    trials = joined.trials
    y = prepare_response(trials["response"].to_numpy(float), log)
    check_groups(trials)
    notes = list(joined.notes)
    measures = select_varying(trials, joined.measures, notes)
    notes += _note_positions(joined)
    design = Design(trials, measures, joined.controls)
    pairs = _pair_models(measures, slopes)
    if not design.is_independent(measures):
        notes.append("the measures determine each other, so they are fitted one by one only")
        pairs = [pair for pair in pairs if pair.kind == "alone"]
    _check_effects(_count_groups(trials), pairs, most_effects)
    check_trials(len(y), design.width + max(len(pair.full.measures) for pair in pairs))
    return Plan(joined, log, y, design, pairs, notes)


def fit_models(plan: Plan, advance: Advance = lambda *_: None) -> Comparison:
    """Fit all models of a plan, and put what they say into a table (see `compare`)."""
    fits, restricted = _fit_all(plan, advance)
    spread, counts = float(plan.y.std(ddof=1)), _count_groups(plan.joined.trials)
    rows = [
        {"measure": pair.measure, "model": pair.kind, "trials": len(plan.y)}
        | counts
        | _describe_coefficient(pair, restricted[pair.full], plan.design, spread)
        | _compare_criteria(fits[pair.full], fits[pair.without])
        | _describe_fits(fits[pair.full], fits[pair.without], restricted[pair.full])
        for pair in plan.pairs
    ]
    return Comparison(**vars(plan), fits=fits, table=pd.DataFrame(rows))


def _count_groups(trials: pd.DataFrame) -> dict[str, int]:
    """Count participants and items."""
    return {f"{name}s": trials[name].nunique() for name in ("participant", "item")}


def _note_positions(joined: Joined) -> list[str]:
    """Note where several words of a sentence are analysed together."""
    if "position" not in joined.trials or "position" in joined.controls:
        return []
    places = joined.trials["position"].nunique()
    if places < 2:
        return []
    return [
        f"{places} word positions are taken together; --control position allows for a "
        "trend over them, --where position=N keeps one"
    ]


def _check_effects(counts: dict[str, int], pairs: list[Pair], most: int) -> None:
    """Refuse models with too many random effects, and say which option has fewer."""
    slopes = max(len(pair.full.slopes) for pair in pairs)
    way_out = "keep some of them with --where"
    if slopes:
        way_out = f"choose fewer measures with --measure, leave out --slopes, or {way_out}"
    check_size(counts["participants"], counts["items"], slopes, way_out, most)


def _fit_all(plan: Plan, advance: Advance) -> tuple[dict[Model, MixedFit], dict[Model, MixedFit]]:
    """Fit every model by maximum likelihood, and those with the measure also by REML."""
    wanted = dict.fromkeys(m for pair in plan.pairs for m in (pair.without, pair.full))
    tasks = [(model, False) for model in wanted]
    tasks += [(model, True) for model in dict.fromkeys(pair.full for pair in plan.pairs)]
    found: dict[bool, dict[Model, MixedFit]] = {False: {}, True: {}}
    for done, (model, reml) in enumerate(tasks, start=1):
        found[reml][model] = fit_mixed(plan.y, *plan.design.build(model), reml=reml)
        advance(done, len(tasks), "fitting")
    return found[False], found[True]


def _pair_models(measures: list[str], slopes: bool) -> list[Pair]:
    """Pair the models with and without each measure, alone and together with the others."""
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


def _describe_coefficient(
    pair: Pair, fit: MixedFit, design: Design, response: float
) -> dict[str, Any]:
    """Return the coefficient per unit, and in standard deviations of response and measure."""
    k, spread = design.width + pair.full.measures.index(pair.measure), design.spread[pair.measure]
    estimate, (low, high) = float(fit.coefficients[k]), map(float, fit.intervals[k])
    return {
        "estimate": estimate / spread,
        "se": float(fit.errors[k]) / spread,
        "low": low / spread,
        "high": high / spread,
        "std_estimate": estimate / response,
        "std_low": low / response,
        "std_high": high / response,
        "df": float(fit.df[k]),
        "p": float(fit.p_values[k]),
    }


def _compare_criteria(full: MixedFit, without: MixedFit) -> dict[str, float]:
    """Return how much lower each criterion is with the measure: above zero favours it."""
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


def _describe_fits(full: MixedFit, without: MixedFit, restricted: MixedFit) -> dict[str, Any]:
    """Return the spread of the random parts, and whether all three fits can be believed."""
    used = (full, without, restricted)
    notes = dict.fromkeys(fit.note for fit in used if fit.note)
    return {
        "sd_participant": restricted.sds["participant"],
        "sd_item": restricted.sds["item"],
        "sd_residual": restricted.sd_residual,
        "converged": all(fit.converged for fit in used),
        "note": "; ".join(notes),
    }
