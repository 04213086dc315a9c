"""Mixed models of a response with and without each measure.

    response ~ 1 + controls [+ measure] + (1 | participant) + (1 | item)

Models are linear for numbers and logistic for answers (`family`); see `equivocal.statistics`.
Each measure is added *alone* to the model without measures and, if there are several, removed from
the model that contains them *together*, except those that others determine. Criteria and likelihood
ratios are by maximum likelihood; coefficients, intervals and p-values by REML with Satterthwaite's
degrees of freedom, since with few items the intervals of maximum likelihood are too short. Logistic
models are fitted by maximum likelihood throughout; their coefficients are in log odds, and their
intervals are Wald's. Measures and controls enter in standard deviations over the trials;
coefficients are given in those, and per unit. Data that no model can take are refused with the
reason (`equivocal.people.responses`).

If the models change, change the R scripts (`equivocal.people.r_scripts`) in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.people.join import Joined
from equivocal.people.responses import Response, check_groups, check_separation, prepare_response
from equivocal.progress import Advance
from equivocal.statistics import MixedFit, RandomPart, check_trials, fit_logistic, fit_mixed
from lastlayer.errors import UserError, join_names

MOST_LEVELS = 5_000  # columns of Z; a fit needs several square matrices of this size
DETERMINED = 1e-3  # a measure of which less is its own, in its sds, is determined by others


class Model(NamedTuple):
    """Which measures are fixed effects, and which also have a slope for each participant."""

    measures: tuple[str, ...] = ()
    slopes: tuple[str, ...] = ()


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
        columns, self.names = [np.ones(len(trials))], list[str]()  # the intercept has no name
        for name in controls:
            coded = _code_control(trials[name])
            columns += coded
            self.names += [name] * len(coded)
        self.base = np.column_stack(columns)
        self.width = self.base.shape[1]
        if np.linalg.matrix_rank(self.base) < self.width:
            raise UserError(
                f"the controls {join_names(controls)} are constant or determine each other; leave "
                "one out."
            )
        for name in measures:
            if self.is_determined(name, ()):
                raise UserError(
                    f"{name} is determined by the controls {join_names(controls)}, so "
                    "nothing is left of it to test; leave a control out."
                )

    def is_determined(self, measure: str, others: Sequence[str]) -> bool:
        """Return whether controls and other measures determine a measure.

        Measures that add up to another do so up to round-off, their own and that of a table.
        """
        X, _ = self.build(Model(tuple(others)))
        weights, *_ = np.linalg.lstsq(X, self.scaled[measure])
        return bool(np.std(self.scaled[measure] - X @ weights) < DETERMINED)

    def build(self, model: Model) -> tuple[np.ndarray, list[RandomPart]]:
        """Build X and the random parts of a model."""
        X = np.column_stack([self.base, *(self.scaled[name] for name in model.measures)])
        parts = [RandomPart(name, codes) for name, codes in self.codes.items()]
        people = self.codes["participant"]
        parts += [RandomPart(f"{n} by participant", people, self.scaled[n]) for n in model.slopes]
        return X, parts


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
    advance: Advance = lambda *_: None,
) -> Comparison:
    """Fit models with and without each measure.

    Parameters
    ----------
    joined : Joined
        Trials with their measures, from `join`.
    family : {"gaussian", "binomial"}
        Linear models of numbers, or logistic models of answers: 0 or 1, or proportions with their
        `counts`.
    log : bool
        Model the logarithm of the response.
    slopes : bool
        Let the effect of each measure differ between participants.
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
    trials = joined.trials
    response = prepare_response(trials, family, log)
    y = response.values
    if response.counts is not None:  # proportions, corrected for rounding
        joined = replace(joined, trials=trials.assign(response=y))
    check_groups(trials)
    notes = list(joined.notes)
    measures = select_varying(trials, joined.measures, notes)
    notes += _note_positions(joined)
    design = Design(trials, measures, joined.controls)
    pairs = _pair_models(measures, _select_independent(design, measures, notes), slopes)
    counts = {f"{name}s": trials[name].nunique() for name in ("participant", "item")}
    _check_models(response, design, pairs, counts)
    fits, restricted = _fit_all(response, design, pairs, advance)
    unit = 1.0 if response.binomial else float(y.std(ddof=1))  # log odds are not standardised
    rows = [
        {"measure": pair.measure, "model": pair.kind, "family": family, "trials": len(y)}
        | counts
        | _describe_pair(pair, fits, restricted[pair.full], design, unit)
        for pair in pairs
    ]
    return Comparison(joined, log, family, pairs, notes, fits, pd.DataFrame(rows))


def _check_models(
    response: Response, design: Design, pairs: list[Pair], counts: dict[str, int]
) -> None:
    """Refuse models that are too large, have too few trials, or cannot be estimated."""
    way_out, most_slopes = "keep some of them with --where", max(len(p.full.slopes) for p in pairs)
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
    response: Response, design: Design, pairs: list[Pair], advance: Advance
) -> tuple[dict[Model, MixedFit], dict[Model, MixedFit]]:
    """Fit every model by maximum likelihood, and linear models with the measure also by REML."""
    tasks = dict.fromkeys((m, False) for pair in pairs for m in (pair.without, pair.full))
    if not response.binomial:
        tasks |= dict.fromkeys((pair.full, True) for pair in pairs)
    fits: dict[bool, dict[Model, MixedFit]] = {False: {}, True: {}}
    for done, (model, reml) in enumerate(tasks, start=1):
        X, parts = design.build(model)
        if response.binomial:
            fits[reml][model] = fit_logistic(response.values, X, parts, response.counts)
        else:
            fits[reml][model] = fit_mixed(response.values, X, parts, reml=reml)
        advance(done, len(tasks), "fitting")
    return fits[False], fits[True] or fits[False]


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


def _pair_models(measures: list[str], free: list[str], slopes: bool) -> list[Pair]:
    """Pair the models with and without each measure, alone and, if `free`, with the others."""
    cases: list[tuple[str, str, tuple[str, ...]]] = [(name, "alone", (name,)) for name in measures]
    if len(free) > 1:
        cases += [(name, "together", tuple(free)) for name in free]
    pairs = []
    for name, kind, fixed in cases:
        random = fixed if slopes else ()
        without = tuple(other for other in fixed if other != name)
        pairs.append(Pair(name, kind, Model(fixed, random), Model(without, random)))
    return pairs


def _describe_pair(
    pair: Pair, fits: dict[Model, MixedFit], restricted: MixedFit, design: Design, response: float
) -> dict[str, Any]:
    """Describe a measure: its coefficient by REML, criteria by maximum likelihood, random parts.

    The coefficient is given per unit, and per standard deviation of the measure in standard
    deviations of the `response` (or log odds). Differences of criteria are positive if they favour
    the measure.
    """
    k, spread = design.width + pair.full.measures.index(pair.measure), design.spread[pair.measure]
    estimate, (low, high) = restricted.coefficients[k], restricted.intervals[k]
    numbers = {"estimate": estimate, "se": restricted.errors[k], "low": low, "high": high}
    full, without = fits[pair.full], fits[pair.without]
    # two maxima that are equal up to round-off may differ by less than zero
    chi2 = max(2 * (full.log_likelihood - without.log_likelihood), 0.0)
    used = (full, without, restricted)
    return {
        **{name: float(number) / spread for name, number in numbers.items()},
        **{f"std_{end}": float(numbers[end]) / response for end in ("estimate", "low", "high")},
        "df": float(restricted.df[k]),
        "p": float(restricted.p_values[k]),
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

    There is an intercept for each participant and item, and a slope for each participant and
    measure.
    """
    columns = items + participants * (1 + slopes)
    if columns > MOST_LEVELS:
        also = f" (each with {slopes + 1})" if slopes else ""
        raise UserError(
            f"{participants} participants{also} and {items} items make {columns} random effects, "
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
