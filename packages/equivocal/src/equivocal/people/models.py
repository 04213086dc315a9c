"""Mixed models of a response with and without each measure.

    response ~ 1 + controls [+ measure] + (1 + slopes | participant) + (1 + slopes | item)

Models are linear for numbers and logistic for answers (`family`); see `equivocal.statistics`.
Each measure is added *alone* to the model without measures and, if there are several, removed from
the model that contains them *together*, except those that others determine. Criteria and likelihood
ratios are by maximum likelihood; coefficients, intervals and p-values by REML with Satterthwaite's
degrees of freedom, since with few items the intervals of maximum likelihood are too short. Logistic
models are fitted by maximum likelihood throughout; their coefficients are in log odds, and their
intervals are Wald's. Measures and controls enter in standard deviations over the trials;
coefficients are given in those, and per unit. Criteria are those of measures averaged over
networks; estimates and intervals are pooled over networks (`equivocal.statistics.fits`). Items
have slopes of measures that vary within items. Data that no model can take are refused with the
reason (`equivocal.people.designs`).

If the models change, change the R scripts (`equivocal.people.run_compare`) in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.people.designs import (
    FACTORS,
    Design,
    Model,
    Response,
    add_interactions,
    check_groups,
    check_separation,
    prepare_response,
)
from equivocal.people.join import Joined
from equivocal.progress import Advance
from equivocal.statistics import MixedFit, check_trials, fit_logistic, fit_mixed
from equivocal.statistics.fits import Pooled, pool_networks
from lastlayer.errors import UserError, join_names

MOST_LEVELS = 5_000  # columns of Z; a fit needs several square matrices of this size


class Pair(NamedTuple):
    """Two models that differ in one measure."""

    measure: str
    kind: str  # "alone" or "together"
    full: Model
    without: Model


@dataclass(frozen=True)
class Comparison:
    """The fitted models, and the table that compares them."""

    joined: Joined
    log: bool
    family: str
    pairs: list[Pair]  # in the order of the rows of the table
    notes: list[str]
    fits: dict[Model, MixedFit]  # by maximum likelihood
    table: pd.DataFrame


def compare_models(
    joined: Joined,
    *,
    family: str = "gaussian",
    log: bool = False,
    slopes: bool = False,
    by: str | None = None,
    advance: Advance = lambda *_: None,
) -> Comparison:
    """Fit models with and without each measure.

    Parameters
    ----------
    joined : Joined
        Trials with their measures, from `join`.
    family : {"gaussian", "binomial"}
        Linear models of numbers, or logistic models of answers, 0 or 1.
    log : bool
        Model the logarithm of the response.
    slopes : bool
        Let the effect of each measure differ between participants, and between items; slopes and
        intercepts are correlated.
    by : str, optional
        One of the controls, such as the condition, with which measures interact.
    advance : callable
        Called with the number of models done, the total and "fitting".

    Returns
    -------
    Comparison
        Its `table` has a row for each measure alone, and one for each together with the others.

    Raises
    ------
    UserError
        Where the trials cannot be fitted, with the reason.
    """
    response = prepare_response(joined.trials, family, log)
    check_groups(joined.trials)
    notes = list(joined.notes)
    measures = select_varying(joined.trials, joined.measures, notes)
    trials, terms = add_interactions(joined.trials, measures, by)
    networks = [add_interactions(trials.assign(**own), measures, by)[0] for own in joined.networks]
    joined = replace(joined, trials=trials, measures=[t for own in terms.values() for t in own])
    notes += _note_positions(joined)
    if not slopes:
        notes.append(
            "the effects are taken to be the same for all participants and items, which makes "
            "intervals too short where they are not; --slopes lets them differ"
        )
    design = Design(trials, joined.measures, joined.controls)
    _check_controls(design, joined)
    free = _select_independent(design, [m for m in measures if m in joined.together], notes)
    pairs = _pair_models(terms, free, design, slopes)
    counts = {f"{name}s": trials[name].nunique() for name in FACTORS}
    _check_models(response, design, pairs, counts)
    others = [Design(own, joined.measures, joined.controls) for own in networks]
    fits, restricted, pooled = _fit_all(response, design, others, pairs, advance)
    # log odds are not standardised
    unit = 1.0 if response.binomial else float(response.values.std(ddof=1))
    rows = [
        {"measure": pair.measure, "model": pair.kind, "family": family, "trials": len(trials)}
        | counts
        | _describe_pair(pair, fits, restricted[pair.full], design, unit, pooled.get(pair.full))
        for pair in pairs
    ]
    joined = replace(joined, networks=[own[joined.measures] for own in networks])
    return Comparison(joined, log, family, pairs, notes, fits, pd.DataFrame(rows))


def _check_controls(design: Design, joined: Joined) -> None:
    """Refuse controls that determine each other, or a measure."""
    if np.linalg.matrix_rank(design.base) < design.width:
        raise UserError(
            f"the controls {join_names(joined.controls)} are constant or determine each other; "
            "leave one out."
        )
    for name in joined.measures:
        if design.is_determined(name, ()):
            raise UserError(
                f"{name} is determined by the controls {join_names(joined.controls)}, so "
                "nothing is left of it to test; leave a control out."
            )


def _check_models(
    response: Response, design: Design, pairs: list[Pair], counts: dict[str, int]
) -> None:
    """Refuse models that are too large, have too few trials, or cannot be estimated."""
    way_out = "keep some of them with --where"
    most_slopes = max(len(pair.full.participant) for pair in pairs)
    if most_slopes:
        way_out = f"choose fewer measures with --measure, leave out --slopes, or {way_out}"
    check_size(counts["participants"], counts["items"], most_slopes, way_out)
    most_measures = max(len(pair.full.measures) for pair in pairs)
    check_trials(len(response.values), design.width + most_measures)
    for model in dict.fromkeys(pair.full for pair in pairs):
        check_separation(response, design.build(model)[0], [*design.names, *model.measures])


def _note_positions(joined: Joined) -> list[str]:
    """Note that several words of a sentence are analysed together, if they are."""
    places = joined.trials.get("position", pd.Series()).nunique()
    note = (
        f"{places} word positions are taken together; --control position allows for a trend over "
        "them, --where position=N keeps one"
    )
    return [note] if places > 1 and "position" not in joined.controls else []


def _fit_all(
    response: Response,
    design: Design,
    networks: list[Design],
    pairs: list[Pair],
    advance: Advance,
) -> tuple[dict[Model, MixedFit], dict[Model, MixedFit], dict[Model, Pooled]]:
    """Fit every model by maximum likelihood, those with measures by REML and for each network."""
    full = list(dict.fromkeys(pair.full for pair in pairs))
    models = list(dict.fromkeys(m for pair in pairs for m in (pair.without, pair.full)))
    linear = [] if response.binomial else full
    varied = [model for model in full if _differ(model, design, networks)]
    total, done = len(models) + len(linear) + len(varied) * len(networks), 0

    def fit(design: Design, model: Model, reml: bool) -> MixedFit:
        nonlocal done
        X, parts = design.build(model)
        if response.binomial:
            made: MixedFit = fit_logistic(response.values, X, parts)
        else:
            made = fit_mixed(response.values, X, parts, reml=reml)
        done += 1
        advance(done, total, "fitting")
        return made

    fits = {model: fit(design, model, False) for model in models}
    restricted = {model: fit(design, model, True) for model in linear} or fits
    pooled = {}
    for model in varied:
        average = np.column_stack([design.raw[name] for name in model.measures])
        each = [(own.build(model)[0], fit(own, model, True)) for own in networks]
        pooled[model] = pool_networks(each, average)
    return fits, restricted, pooled


def _differ(model: Model, design: Design, networks: list[Design]) -> bool:
    """Return whether a measure of the model differs between networks."""
    return any(
        not np.allclose(own.scaled[name], design.scaled[name])
        for own in networks
        for name in model.measures
    )


def _select_independent(design: Design, measures: list[str], notes: list[str]) -> list[str]:
    """Return the measures that can be entered together, and note those that others determine.

    Of measures that determine each other the first is left out: that is the sum of its parts, as
    a table of measures by role has it.
    """
    kept = list(measures)
    for name in measures:
        others = [other for other in kept if other != name]
        if design.is_determined(name, others):
            kept = others
            notes.append(
                f"{name} is determined by other measures, so it is fitted alone and not together "
                "with them; choose with --measure"
            )
    return kept


def _pair_models(
    terms: dict[str, list[str]], free: list[str], design: Design, slopes: bool
) -> list[Pair]:
    """Pair the models with and without each measure, alone and, if `free`, with the others."""
    cases = [("alone", [name]) for name in terms] + ([("together", free)] if len(free) > 1 else [])
    pairs = []
    for kind, names in cases:
        fixed = tuple(term for name in names for term in terms[name])
        varied = [design.find_varying(names, factor) if slopes else () for factor in FACTORS]
        for term in fixed:
            without = tuple(other for other in fixed if other != term)
            pairs.append(Pair(term, kind, Model(fixed, *varied), Model(without, *varied)))
    return pairs


def _describe_pair(
    pair: Pair,
    fits: dict[Model, MixedFit],
    restricted: MixedFit,
    design: Design,
    response: float,
    pooled: Pooled | None,
) -> dict[str, Any]:
    """Describe a measure: its coefficient by REML, criteria by maximum likelihood, random parts.

    The coefficient is given per unit, and per standard deviation of the measure in standard
    deviations of the `response` (or log odds). Differences of criteria are positive if they favour
    the measure.
    """
    number, spread = pair.full.measures.index(pair.measure), design.spread[pair.measure]
    k = design.width + number
    average = float(restricted.coefficients[k]) / spread
    if pooled is None:
        low, high = restricted.intervals[k] / spread
        estimate, se, df = average, float(restricted.errors[k]) / spread, float(restricted.df[k])
        p, share = float(restricted.p_values[k]), float("nan")
    else:
        estimate, se, low, high, df, p, share = pooled.describe(number)
    full, without = fits[pair.full], fits[pair.without]
    # two maxima that are equal up to round-off may differ by less than zero
    chi2 = max(2 * (full.log_likelihood - without.log_likelihood), 0.0)
    used = (full, without, restricted, *(pooled.fits if pooled else ()))
    ends = {"estimate": estimate, "low": float(low), "high": float(high)}
    return {
        **{"estimate": estimate, "se": se, "low": float(low), "high": float(high)},
        **{f"std_{end}": value * spread / response for end, value in ends.items()},
        "df": df,
        "p": p,
        "networks": len(pooled.fits) if pooled else 1,
        "network_share": share,
        "average_estimate": average,
        "delta_aic": without.aic - full.aic,
        "delta_bic": without.bic - full.bic,
        "chi2": chi2,
        "chi2_p": float(stats.chi2.sf(chi2, 1)),
        **{name: getattr(full, name) for name in ("log_likelihood", "aic", "bic")},
        "sd_participant": restricted.sds["participant"],
        "sd_item": restricted.sds["item"],
        "sd_residual": restricted.sd_residual,
        "converged": all(fit.converged for fit in used),
        "note": "; ".join(dict.fromkeys(fit.note for fit in used if fit.note)),
    }


def check_size(participants: int, items: int, slopes: int, way_out: str) -> None:
    """Refuse more random effects than a fit can hold.

    There are an intercept and `slopes` for each participant and item.
    """
    columns = (items + participants) * (1 + slopes)
    if columns > MOST_LEVELS:
        also = f" (each with {slopes + 1})" if slopes else ""
        raise UserError(
            f"{participants} participants and {items} items{also} make {columns} random effects, "
            f"and at most {MOST_LEVELS} can be fitted here; {way_out}."
        )


def select_varying(trials: pd.DataFrame, names: Sequence[str], notes: list[str]) -> list[str]:
    """Return the measures that vary over trials, and note those that do not."""
    constant = [name for name in names if not trials[name].nunique() > 1]
    said = f"{join_names(constant)} is the same in every joined trial"
    if len(constant) == len(names):
        raise UserError(
            f"{said}, so there is nothing to fit; choose another with --measure, or keep other "
            "rows with --where."
        )
    if constant:
        notes.append(f"{said} and is left out")
    return [name for name in names if name not in constant]
