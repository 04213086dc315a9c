"""`equivocal people simulate`: experiments with a known effect, and how often it would be found."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from equivocal.people.simulate import Experiment, build_stimuli, estimate_power, simulate
from equivocal.people.trial_tables import TrialsResult, check_folder, read_measures, record_inputs
from equivocal.progress import progress

__all__ = ["RUNS", "simulate_power", "simulate_trials"]

RUNS = 200  # experiments for each point of a power curve
WANTED = 0.8  # the power that experiments are usually planned for


def simulate_trials(
    experiment: Experiment | None = None,
    out: str | Path = "runs/simulated",
    *,
    measures: str | Path | None = None,
    measure: str | None = None,
) -> TrialsResult:
    """Simulate the trials of an experiment whose true effect is known.

    Parameters
    ----------
    experiment : Experiment, optional
        Numbers of participants and items, the effect, and the standard deviations.
    out : str or Path
        Folder for the results.
    measures : str or Path, optional
        A CSV file with a row for each item and word; by default two made-up measures.
    measure : str, optional
        The measure that has the effect; by default the first.

    Returns
    -------
    TrialsResult
        Tables "data" and "measures", already written to `out`.

    Raises
    ------
    UserError
        If the measures cannot be used, or a user's file would be overwritten.
    """
    experiment = experiment or Experiment()
    path = None if measures is None else Path(measures)
    table, settings = read_measures(path) if path else None, record_inputs(measures=path)
    trials, used, name = simulate(experiment, table, measure)
    answers = experiment.family == "binomial"
    what = "the log odds of answer 1 change" if answers else "rt changes"
    made = trials["answer" if answers else "rt"]
    result = TrialsResult(
        name="truth",
        tables={"data": trials, "measures": used},
        settings=settings | {"truth": {"measure": name} | asdict(experiment)},
        summary=(
            f"In these simulated trials {what} by {experiment.beta:+g} with each unit of {name}; "
            f"the response has mean {made.mean():.3g} and standard deviation {made.std():.3g}.",
            f"{len(trials)} trials of {experiment.participants} participants and "
            f"{experiment.items} items",
        ),
    )
    result.write(out)
    return result


def simulate_power(
    experiment: Experiment | None = None,
    participants: Sequence[int] = (Experiment.participants,),
    items: Sequence[int] = (Experiment.items,),
    out: str | Path = "runs/simulated",
    *,
    runs: int = RUNS,
    slopes: bool = False,
    measures: str | Path | None = None,
    measure: str | None = None,
) -> TrialsResult:
    """Estimate power: simulate and analyse many experiments, and count how often p < 0.05.

    Parameters
    ----------
    experiment : Experiment, optional
        The effect, and the standard deviations.
    participants, items : sequence of int
        The sample sizes; every combination is simulated.
    out : str or Path
        Folder for the results.
    runs : int
        How many experiments to simulate for each combination.
    slopes : bool
        Whether the analysis lets the effect differ between participants.
    measures, measure
        As in `simulate_trials`.

    Returns
    -------
    TrialsResult
        The table "power", already written to `out`.

    Raises
    ------
    UserError
        If an experiment is too large to fit, the measures cannot be used, or a user's file would be
        overwritten.
    """
    experiment, out = experiment or Experiment(), Path(out)
    path = None if measures is None else Path(measures)
    table, settings = read_measures(path) if path else None, record_inputs(measures=path)
    stimuli, name = (None, "surprise") if table is None else build_stimuli(table, measure)
    check_folder(out, "power", ["power.csv"], settings)  # before minutes of simulation
    with progress("power") as advance:
        power = estimate_power(
            experiment, participants, items, runs, stimuli=stimuli, slopes=slopes, advance=advance
        )
    sizes = {"participants": list(participants), "items": list(items)}
    how = {"runs": runs, "slopes": slopes, "measure": name}
    truth = {key: value for key, value in asdict(experiment).items() if key not in sizes}
    result = TrialsResult(
        name="power",
        tables={"power": power},
        settings=settings | sizes | how | {"truth": truth},
        summary=(describe_power(power, experiment.beta),),
    )
    result.write(out)
    return result


def describe_power(table: pd.DataFrame, beta: float) -> str:
    """Say how often the effect is detected, and which experiment is the smallest sufficient one."""
    rows = table.to_dict("records")
    enough = [row for row in rows if row["power"] >= WANTED]
    chosen = min(enough, key=lambda row: row["participants"] * row["items"], default=None)
    chosen = chosen or max(rows, key=lambda row: row["power"])
    share, low, high = (f"{100 * chosen[name]:.0f}" for name in ("power", "low", "high"))
    text = (
        f"{chosen['participants']} participants and {chosen['items']} items detect an "
        f"effect of {beta:g} per unit in {share} % of experiments (95 % {low} to {high} %)"
    )
    if not enough:
        return f"None of these experiments reaches a power of {100 * WANTED:.0f} %: {text}."
    return f"{text}: the smallest of these experiments with a power of {100 * WANTED:.0f} %."
