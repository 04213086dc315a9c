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
    Design,
    Model,
    check_groups,
    check_size,
    response_of,
    varying,
)
from equivocal.human_data.joining import Joined
from equivocal.human_data.mixed import MixedFit, check_trials, fit_mixed
from equivocal.progress import Advance

__all__ = ["Comparison", "Pair", "Prepared", "compare", "fitted", "prepare"]


class Pair(NamedTuple):
    """Two models that differ in one measure."""

    measure: str
    kind: str  # "alone" or "together"
    full: Model
    without: Model


@dataclass(frozen=True)
class Prepared:
    """Models to fit; whatever is wrong with the trials has been told."""

    joined: Joined
    log: bool
    y: np.ndarray  # the response, or its logarithm
    design: Design
    pairs: list[Pair]
    notes: list[str]


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
    return fitted(prepare(joined, log=log, slopes=slopes), advance)


def prepare(joined: Joined, *, log: bool = False, slopes: bool = False) -> Prepared:
    """The models to fit, once the trials are known to be fit for them."""
    trials = joined.trials
    y = response_of(trials["response"].to_numpy(float), log)
    check_groups(trials)
    notes = list(joined.notes)
    measures = varying(trials, joined.measures, notes)
    notes += _on_positions(joined)
    design = Design(trials, measures, joined.controls)
    pairs = _pairs(measures, slopes)
    if not design.is_independent(measures):
        notes.append("the measures determine each other, so they are fitted one by one only")
        pairs = [pair for pair in pairs if pair.kind == "alone"]
    _check_effects(_counts(trials), pairs)
    check_trials(len(y), design.width + max(len(pair.full.measures) for pair in pairs))
    return Prepared(joined, log, y, design, pairs, notes)


def fitted(prepared: Prepared, advance: Advance = lambda *_: None) -> Comparison:
    """Fit all models, and put what they say into a table."""
    y, design, pairs = prepared.y, prepared.design, prepared.pairs
    fits, restricted = _fit_all(y, design, pairs, advance)
    spread = float(y.std(ddof=1))
    rows = [
        {"measure": pair.measure, "model": pair.kind, "trials": len(y)}
        | _counts(prepared.joined.trials)
        | _coefficient(pair, restricted[pair.full], design, spread)
        | _criteria(fits[pair.full], fits[pair.without])
        | _verdict(fits[pair.full], fits[pair.without], restricted[pair.full])
        for pair in pairs
    ]
    return Comparison(
        prepared.joined, prepared.log, pairs, fits, pd.DataFrame(rows), prepared.notes
    )


def _counts(trials: pd.DataFrame) -> dict[str, int]:
    return {f"{name}s": trials[name].nunique() for name in ("participant", "item")}


def _on_positions(joined: Joined) -> list[str]:
    if "position" not in joined.trials or "position" in joined.controls:
        return []
    places = joined.trials["position"].nunique()
    if places < 2:
        return []
    return [
        f"{places} word positions are taken together; --control position allows for a "
        "trend over them, --where position=N keeps one"
    ]


def _check_effects(counts: dict[str, int], pairs: list[Pair]) -> None:
    slopes = max(len(pair.full.slopes) for pair in pairs)
    way_out = "keep some of them with --where"
    if slopes:
        way_out = f"choose fewer measures with --measure, leave out --slopes, or {way_out}"
    check_size(counts["participants"], counts["items"], slopes, way_out)


def _fit_all(
    y: np.ndarray, design: Design, pairs: list[Pair], advance: Advance
) -> tuple[dict[Model, MixedFit], dict[Model, MixedFit]]:
    """Every model by maximum likelihood, and those with the measure also by REML."""
    wanted = dict.fromkeys(model for pair in pairs for model in (pair.without, pair.full))
    holding = dict.fromkeys(pair.full for pair in pairs)
    total = len(wanted) + len(holding)
    fits, restricted = {}, {}
    for done, model in enumerate(wanted, start=1):
        fits[model] = fit_mixed(y, *design.of(model))
        advance(done, total, "fitting")
    for done, model in enumerate(holding, start=len(wanted) + 1):
        restricted[model] = fit_mixed(y, *design.of(model), reml=True)
        advance(done, total, "fitting")
    return fits, restricted


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


def _coefficient(pair: Pair, fit: MixedFit, design: Design, response: float) -> dict[str, Any]:
    """Per unit of the measure; and in standard deviations of the `response` per one of it."""
    k, spread = design.width + pair.full.measures.index(pair.measure), design.spread[pair.measure]
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
