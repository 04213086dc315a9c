"""Statistical power: many experiments, simulated and analysed, and how often the effect is found.

Each is a new sample of participants and noise, and of items where the measures are built in or have
more items than are wanted. The analysis is that of `equivocal compare`: the measure in standard
deviations over the trials, REML, Satterthwaite's degrees of freedom, p < 0.05.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from equivocal.errors import UserError
from equivocal.human_data.design import check_size
from equivocal.human_data.simulation import Experiment, Stimuli, draw_stimuli, draw_trials
from equivocal.mixed_models import LEVEL, MixedFit, RandomPart, fit_mixed
from equivocal.progress import Advance

__all__ = ["analyse_once", "check_counts", "estimate_power"]

ALPHA = 0.05


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
        The effect, and how much everything varies; its numbers of participants and items are not
        used.
    participants, items : sequence of int
        The numbers to combine.
    runs : int
        How many experiments to simulate for each combination.
    stimuli : Stimuli, optional
        What is read; drawn anew for each run unless given.
    slopes : bool
        Whether the analysis lets the effect differ between participants.
    advance : callable
        Told how many runs are done, of how many, and which.

    Returns
    -------
    DataFrame
        A row for each combination. `power` is the share of p < 0.05 and `low` to `high` its
        interval (Clopper–Pearson, 95 %), which shows whether the number of runs is enough;
        `coverage` is the share of intervals that hold the true beta. Fits that did not converge
        count as not significant.
    """
    rows: list[dict[str, Any]] = []
    check_counts(participants, items, slopes=slopes)
    total = len(participants) * len(items) * runs
    for i in items:
        for p in participants:
            here = replace(experiment, participants=p, items=i)
            fits = []
            for run in range(runs):
                # by what is simulated, not by its place: a longer list repeats the shorter one
                rng = np.random.default_rng([experiment.seed, p, i, run])
                fits.append(analyse_once(here, rng, stimuli, slopes=slopes))
                advance(len(rows) * runs + run + 1, total, f"{p} participants, {i} items")
            rows.append({"participants": p, "items": i} | _summarise(fits, experiment.beta))
    return pd.DataFrame(rows)


def check_counts(participants: Sequence[int], items: Sequence[int], *, slopes: bool) -> None:
    """Refuse experiments that are too large to fit."""
    check_size(max(participants), max(items), int(slopes), "lower --participants or --items")


def analyse_once(
    experiment: Experiment,
    rng: np.random.Generator,
    stimuli: Stimuli | None = None,
    *,
    slopes: bool = False,
) -> MixedFit:
    """Simulate one experiment and fit it; coefficient 1 is that of the measure, per unit."""
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
    parts = [RandomPart("participant", participant), RandomPart("item", item)]
    if slopes:
        parts.append(RandomPart("slope", participant, z))
    X = np.column_stack([np.ones(len(z)), z])
    return _convert_units(fit_mixed(response, X, parts, reml=True), spread)


def _convert_units(fit: MixedFit, spread: float) -> MixedFit:
    """Convert a fit in standard deviations of the measure to the measure's own units."""
    unit = np.array([1.0, 1 / spread])
    return replace(
        fit,
        coefficients=fit.coefficients * unit,
        covariance=fit.covariance * np.outer(unit, unit),
        sds={name: sd / spread if name == "slope" else sd for name, sd in fit.sds.items()},
        log_likelihood=fit.log_likelihood - float(np.log(spread)),  # REML's has log|XᵀV⁻¹X|
    )


def _summarise(fits: list[MixedFit], beta: float) -> dict[str, Any]:
    """Summarise the fits of one number of participants and items."""
    fine = [fit for fit in fits if fit.converged]
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
