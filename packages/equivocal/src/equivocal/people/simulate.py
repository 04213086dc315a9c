"""Simulated experiments with a known effect.

    η = intercept + (beta + b_participant + c_item) · measure + u_participant + v_item           (1)

with normal b, c, u and v. The response is η with normal noise, or (`family` binomial) an answer
that is 1 with log odds η. Participants and items are crossed: each participant reads every word
of each item once. If the measures have conditions, participants and items rotate through them as in
a Latin square, so that each participant sees each item in one condition.

Statistical power is the share of such experiments that find the effect. Each is a new sample of
participants and noise, and also of items if the measures are built in or have more items than are
needed. The analysis is that of `equivocal people compare`: the measure in standard deviations over
the trials, REML and Satterthwaite's degrees of freedom, or a logistic model; p < 0.05.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

from equivocal.people.designs import FAMILIES, build_part
from equivocal.people.join import average_networks
from equivocal.people.models import check_size
from equivocal.people.trial_tables import PLACES, choose_measures
from equivocal.progress import Advance
from equivocal.statistics import LEVEL, MixedFit, find_separation, fit_logistic, fit_mixed
from lastlayer.errors import UserError, check_known

ALPHA = 0.05
RIVAL = 0.5  # correlation of the built-in measures
LEAST = {"participants": 2, "items": 2, "positions": 1}  # smallest values of an experiment
LEAST |= {"participant_sd": 0, "item_sd": 0, "slope_sd": 0, "item_slope_sd": 0}
ANSWERS = {"intercept": 0.0, "beta": 0.5, "participant_sd": 1.0, "item_sd": 0.5}  # in log odds


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The true parameters of (1); with the same measures they repeat an experiment exactly."""

    participants: int = 40
    items: int = 24
    positions: int = 3  # words in each item of the built-in measures
    intercept: float = 500.0
    beta: float = 20.0  # per unit of the measure
    participant_sd: float = 50.0
    item_sd: float = 20.0
    slope_sd: float = 0.0  # of b: how much participants differ in beta
    item_slope_sd: float = 0.0  # of c: how much items differ in beta
    noise_sd: float = 100.0  # not of answers
    seed: int = 0
    family: str = "gaussian"

    def __post_init__(self) -> None:
        check_known(self.family, FAMILIES, "family")
        for name, value in asdict(self).items():
            if name == "family":
                continue
            if not np.isfinite(value):
                raise UserError(f"{name} must be a finite number, got {value}.")
            if value < LEAST.get(name, -np.inf):
                raise UserError(f"{name} must be {LEAST[name]} or more, got {value:g}.")
        if not self.noise_sd > 0:
            raise UserError(f"noise_sd must be above zero, got {self.noise_sd:g}.")


@dataclass(frozen=True)
class Stimuli:
    """The words that participants read, with the values of the measure that has the effect."""

    rows: list[list[np.ndarray]]  # [item][condition]: row numbers of its words in `table`
    values: np.ndarray  # of the measure, one for each row of `table`
    table: pd.DataFrame


def draw_stimuli(experiment: Experiment, rng: np.random.Generator) -> Stimuli:
    """Draw new items with two measures: `surprise`, which has the effect, and `rival`.

    Both are standard normal with a correlation of 0.5, so that `rival`, which has no effect, seems
    to have one as long as `surprise` is not in the model.
    """
    words = np.arange(experiment.items * experiment.positions)
    item, position = np.divmod(words, experiment.positions)
    surprise, other = rng.normal(size=(2, len(item)))
    rival = RIVAL * surprise + np.sqrt(1 - RIVAL**2) * other
    table = pd.DataFrame(
        {"item": item + 1, "position": position + 1, "surprise": surprise, "rival": rival}
    ).astype({"item": str, "position": str})
    rows = words.reshape(experiment.items, 1, experiment.positions)
    return Stimuli([list(of_item) for of_item in rows], surprise, table)


def build_stimuli(measures: pd.DataFrame, measure: str | None = None) -> tuple[Stimuli, str]:
    """Build stimuli from a table of measures.

    Parameters
    ----------
    measures : DataFrame
        A table of `read_measures`.
    measure : str, optional
        The measure that has the effect; the first unless given.

    Returns
    -------
    stimuli : Stimuli
        The words of the table that have a value of the measure.
    name : str
        The name of the measure.

    Raises
    ------
    UserError
        Where the table has fewer than two items, or all values of the measure are equal.
    """
    name = choose_measures(measures, [measure] if measure else [])[0]
    keys = [place for place in PLACES if place in measures]
    table, _ = average_networks(measures, keys, [name])
    table = table.dropna().reset_index(drop=True)
    if table["item"].nunique() < 2 or table[name].nunique() < 2:
        raise UserError(
            f"the measures need two items or more and values of {name} that differ; "
            "is it the right column?"
        )
    kinds = table["condition"] if "condition" in table else pd.Series("", table.index)
    rows = [
        [part.index.to_numpy() for _, part in of_item.groupby(kinds, sort=False)]
        for _, of_item in table.groupby("item", sort=False)
    ]
    return Stimuli(rows, table[name].to_numpy(float), table), name


def draw_trials(
    experiment: Experiment, stimuli: Stimuli, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw the trials of an experiment: participant, item, row of the stimuli and response of each.

    If the table has more items than are needed, some are drawn; if fewer, all are taken and some
    are repeated as further items with the same measures.
    """
    given, P = len(stimuli.rows), experiment.participants
    times = -(-experiment.items // given)
    order = np.concatenate([rng.permutation(given) for _ in range(times)])[: experiment.items]
    order = np.sort(order) if times == 1 else order
    turns = max(len(conditions) for conditions in stimuli.rows)
    lists = [_select_list(stimuli, order, turn) for turn in range(turns)]
    parts = [lists[p % turns] for p in range(P)]
    participant = np.repeat(np.arange(P), [len(item) for item, _ in parts])
    item = np.concatenate([item for item, _ in parts])
    row = np.concatenate([rows for _, rows in parts])
    u = rng.normal(0, experiment.participant_sd, P)
    b = rng.normal(0, experiment.slope_sd, P)
    v = rng.normal(0, experiment.item_sd, experiment.items)
    noise = rng.normal(0, experiment.noise_sd, len(row))
    c = rng.normal(0, experiment.item_slope_sd, experiment.items)
    effect = (experiment.beta + b[participant] + c[item]) * stimuli.values[row]
    response = experiment.intercept + effect + u[participant] + v[item]
    if experiment.family == "binomial":
        return participant, item, row, (rng.random(len(row)) < expit(response)) * 1.0
    return participant, item, row, response + noise


def _select_list(stimuli: Stimuli, order: np.ndarray, turn: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the items and rows that participants read who are given one of the lists."""
    read = [stimuli.rows[i] for i in order]
    rows = [conditions[(turn + n) % len(conditions)] for n, conditions in enumerate(read)]
    return np.repeat(np.arange(len(rows)), [len(r) for r in rows]), np.concatenate(rows)


def simulate(
    experiment: Experiment, measures: pd.DataFrame | None = None, measure: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Simulate an experiment.

    Parameters
    ----------
    experiment : Experiment
        The number of participants and items, the effect, and the standard deviations.
    measures : DataFrame, optional
        A table of `read_measures`; two simulated measures unless given.
    measure : str, optional
        The measure that has the effect; the first unless given.

    Returns
    -------
    trials, measures : DataFrame
        The trials, and the measures that they were made from.
    name : str
        The name of the measure that has the effect.

    Raises
    ------
    UserError
        Where the measures have fewer items than are wanted.
    """
    rng = np.random.default_rng(experiment.seed)
    if measures is None:
        stimuli, name = draw_stimuli(experiment, rng), "surprise"
    else:
        stimuli, name = build_stimuli(measures, measure)
    if experiment.items > len(stimuli.rows):
        raise UserError(
            f"the measures have {len(stimuli.rows)} items with a value of {name}, and "
            f"{experiment.items} are wanted; lower --items (only --power uses items again)."
        )
    participant, _, row, response = draw_trials(experiment, stimuli, rng)
    places = [place for place in PLACES if place in stimuli.table]
    trials = stimuli.table.loc[row, places].reset_index(drop=True)
    width = len(str(experiment.participants))
    trials.insert(0, "participant", [f"p{p + 1:0{width}}" for p in participant])
    column = "answer" if experiment.family == "binomial" else "rt"
    return (
        trials.assign(**{column: response}),
        stimuli.table if measures is None else measures,
        name,
    )


def estimate_power(
    experiment: Experiment,
    participants: Sequence[int],
    items: Sequence[int],
    runs: int,
    *,
    stimuli: Stimuli | None = None,
    slopes: bool = False,
    advance: Advance = lambda *_: None,
) -> pd.DataFrame:
    """Estimate the power of experiments of several sizes.

    Parameters
    ----------
    experiment : Experiment
        The effect and the standard deviations; its numbers of participants and items are not used.
    participants, items : sequence of int
        Numbers of participants and of items, in all combinations.
    runs : int
        Number of experiments for each combination.
    stimuli : Stimuli, optional
        The words that are read; new ones are drawn for each run unless given.
    slopes : bool
        Whether the analysis lets the effect differ between participants and items.
    advance : callable
        Called with the number of runs done, the total and the sizes of the experiment.

    Returns
    -------
    DataFrame
        A row for each combination. `power` is the share of p < 0.05, and `low` to `high` its
        interval (Clopper–Pearson, 95 %), which shows whether the number of runs is sufficient;
        `coverage` is the share of intervals that contain the true beta. Fits that did not converge
        count as not significant.
    """
    rows: list[dict[str, Any]] = []
    check_size(max(participants), max(items), int(slopes), "lower --participants or --items")
    total = len(participants) * len(items) * runs
    for i in items:
        for p in participants:
            here = replace(experiment, participants=p, items=i)
            fits: list[MixedFit | None] = []
            for run in range(runs):
                # the seed depends on the sizes alone, so a longer list of sizes repeats a shorter
                rng = np.random.default_rng([experiment.seed, p, i, run])
                fits.append(analyse_once(here, rng, stimuli, slopes=slopes))
                advance(len(rows) * runs + run + 1, total, f"{p} participants, {i} items")
            rows.append({"participants": p, "items": i} | _summarise(fits, experiment.beta))
    return pd.DataFrame(rows)


def analyse_once(
    experiment: Experiment,
    rng: np.random.Generator,
    stimuli: Stimuli | None = None,
    *,
    slopes: bool = False,
) -> MixedFit | None:
    """Simulate one experiment and fit it; coefficient 1 is the effect per unit of the measure.

    None where all answers are equal, or the measure separates them.
    """
    if stimuli is None:
        stimuli = draw_stimuli(experiment, rng)
    participant, item, row, response = draw_trials(experiment, stimuli, rng)
    x = stimuli.values[row]
    if not np.ptp(x) > 0:
        raise UserError(
            f"{experiment.items} items were drawn that all have the same value of the measure; "
            "raise --items, or choose a measure that differs more between them."
        )
    spread = float(x.std(ddof=1))
    z = (x - x.mean()) / spread
    X = np.column_stack([np.ones(len(z)), z])
    within = slopes and bool((pd.Series(x).groupby(item).nunique() > 1).any())
    parts = [
        build_part("participant", participant, {"slope": z} if slopes else {}),
        build_part("item", item, {"slope": z} if within else {}),
    ]
    if experiment.family == "gaussian":
        return _convert_units(fit_mixed(response, X, parts, reml=True), spread)
    if not np.ptp(response) > 0 or find_separation(response, X) is not None:
        return None
    return _convert_units(fit_logistic(response, X, parts), spread)


def _convert_units(fit: MixedFit, spread: float) -> MixedFit:
    """Convert coefficients in standard deviations of the measure to the measure's own units."""
    unit = np.array([1.0, 1 / spread])
    return replace(
        fit,
        coefficients=fit.coefficients * unit,
        covariance=fit.covariance * np.outer(unit, unit),
    )


def _summarise(fits: list[MixedFit | None], beta: float) -> dict[str, Any]:
    """Summarise the fits of one number of participants and items."""
    fine = [fit for fit in fits if fit is not None and fit.converged]
    hits = sum(fit.p_values[1] < ALPHA for fit in fine)
    held = sum(low <= beta <= high for low, high in (fit.intervals[1] for fit in fine))
    low, high = stats.binomtest(hits, len(fits)).proportion_ci(LEVEL, "exact")
    return {
        "runs": len(fits),
        "power": hits / len(fits),
        "low": float(low),
        "high": float(high),
        "mean_estimate": float(np.mean([fit.coefficients[1] for fit in fine])) if fine else np.nan,
        "coverage": held / len(fine) if fine else np.nan,
        "not_converged": len(fits) - len(fine),
    }
