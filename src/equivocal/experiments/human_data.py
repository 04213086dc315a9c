"""What `equivocal compare` and `equivocal simulate` do, as three functions.

Which files they write is in `equivocal.experiments.result`.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd

from equivocal.errors import UserError
from equivocal.experiments.result import TrialsResult, check_folder, hash_inputs
from equivocal.human_data import (
    Columns,
    Comparison,
    Experiment,
    build_stimuli,
    compare,
    estimate_power,
    join_files,
    open_table,
    read_measures,
    simulate,
)
from equivocal.human_data.simulation import check_counts
from equivocal.human_data.trials_summary import (
    SCRIPTS,
    describe_comparison,
    describe_power,
    describe_simulation,
    name_columns,
    write_script,
)
from equivocal.machine import collect_versions
from equivocal.progress import progress
from equivocal.store.locks import hold_folder
from equivocal.world import World

__all__ = ["RUNS", "compare_trials", "simulate_power", "simulate_trials"]

RUNS = 200  # experiments for each point of a power curve
WORDS = Path("runs/suites/tables/words.csv")  # where `equivocal suites run` writes its measures


def compare_trials(
    data: str | Path,
    measures: str | Path | None = None,
    out: str | Path = "runs/compare",
    *,
    columns: Columns | None = None,
    measure: Sequence[str] = (),
    controls: Sequence[str] = (),
    where: Sequence[str] = (),
    family: str = "gaussian",
    log: bool = False,
    slopes: bool = False,
    spillover: int = 0,
    world: str | Path | None = None,
) -> TrialsResult:
    """Compare mixed models of people's responses with and without each measure.

    Parameters
    ----------
    data : str or Path
        The trials: a CSV file with a row for each response.
    measures : str or Path, optional
        The measures: a CSV file with a row for each item and word. Those that `equivocal suites
        run` wrote unless given.
    out : str or Path
        Folder for the results.
    columns : Columns, optional
        What the columns of the trials are called, if not as we call them.
    measure : sequence of str
        The measures to compare; every column of numbers unless given.
    controls : sequence of str
        Columns of either table that all models hold; `length` and `frequency` of words are
        computed where no table has them.
    where : sequence of str
        Keep rows with COLUMN=VALUE only, in the tables that have the column.
    family : {"gaussian", "binomial"}
        Linear models of numbers, or logistic models of answers and proportions.
    log : bool
        Model the logarithm of the response.
    slopes : bool
        Let the effect of each measure differ between participants.
    spillover : int
        Add the measures, and the controls of words, of so many previous words.
    world : str or Path, optional
        The world whose sentences give the control `frequency`.

    Returns
    -------
    TrialsResult
        Already written to `out`.

    Raises
    ------
    UserError
        Where a file, a column or a value is wrong, no model can be fitted, or a file of the user's
        would be overwritten.
    """
    began, out = monotonic(), Path(out)
    data = Path(data)
    measures = _find_words(data) if measures is None else Path(measures)
    joined = join_files(
        data,
        measures,
        columns or Columns(),
        measure,
        controls,
        where,
        spillover=spillover,
        world=None if world is None else World.load(world),
        family=family,
    )
    with progress("models") as advance:
        comparison = compare(joined, family=family, log=log, slopes=slopes, advance=advance)
    joined = comparison.joined
    settings = _describe_settings(data, measures, comparison, where)
    settings |= {"family": family, "log": log, "slopes": slopes, "spillover": spillover}
    settings |= {} if world is None else {"world": str(world)}
    trials = joined.trials.rename(columns=name_columns(joined))
    settings["seconds"] = round(monotonic() - began, 3)
    return TrialsResult(
        name="compare",
        tables={"compare": comparison.table, "unmatched": joined.unmatched, "trials": trials},
        settings=_add_versions(settings),
        summary=describe_comparison(comparison),
        scripts={name: write_script(comparison, name) for name in SCRIPTS},
    ).save(out)


def _describe_settings(
    data: Path, measures: Path, comparison: Comparison, where: Sequence[str]
) -> dict[str, Any]:
    """Return which files and columns a comparison used, and which rows of them."""
    joined = comparison.joined
    return {
        "data": str(data),
        "measures": str(measures),
        "inputs": hash_inputs(data=data, measures=measures),
        "columns": joined.columns,
        "measure": joined.measures,
        "where": list(where),
        "controls": joined.controls,
    }


def simulate_trials(
    experiment: Experiment | None = None,
    out: str | Path = "runs/simulated",
    *,
    measures: str | Path | None = None,
    measure: str | None = None,
    where: Sequence[str] = (),
) -> TrialsResult:
    """Simulate an experiment whose answer is known.

    Parameters
    ----------
    experiment : Experiment, optional
        How many participants and items, the effect, and how much everything varies.
    out : str or Path
        Folder for the results.
    measures : str or Path, optional
        A CSV file with a row for each item and word; two made-up measures unless given.
    measure : str, optional
        The measure that has the effect; the first unless given.
    where : sequence of str
        Keep rows of the measures with COLUMN=VALUE only.

    Returns
    -------
    TrialsResult
        Tables "data" and "measures", already written to `out`.

    Raises
    ------
    UserError
        Where the measures cannot be used, or a file of the user's would be overwritten.
    """
    experiment, out = experiment or Experiment(), Path(out)
    table, settings = _read_stimuli(measures, where)
    trials, used, name = simulate(experiment, table, measure)
    settings["truth"] = {"measure": name} | asdict(experiment)
    return TrialsResult(
        name="truth",
        tables={"data": trials, "measures": used},
        settings=_add_versions(settings),
        summary=describe_simulation(trials, experiment, name),
    ).save(out)


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
    where: Sequence[str] = (),
) -> TrialsResult:
    """Simulate and analyse many experiments, to see how often the effect is found.

    Parameters
    ----------
    experiment : Experiment, optional
        The effect, and how much everything varies.
    participants, items : sequence of int
        The numbers to combine.
    out : str or Path
        Folder for the results.
    runs : int
        How many experiments to simulate for each combination.
    slopes : bool
        Whether the analysis lets the effect differ between participants.
    measures, measure, where
        As in `simulate_trials`.

    Returns
    -------
    TrialsResult
        The table "power", already written to `out`.

    Raises
    ------
    UserError
        Where an experiment is too large to fit, the measures cannot be used, or a file of the
        user's would be overwritten.
    """
    experiment, out = experiment or Experiment(), Path(out)
    table, settings = _read_stimuli(measures, where)
    stimuli, name = (None, "surprise") if table is None else build_stimuli(table, measure)
    check_counts(participants, items, slopes=slopes)
    settings |= {
        "participants": list(participants),
        "items": list(items),
        "runs": runs,
        "slopes": slopes,
        "measure": name,
        "truth": {
            k: v for k, v in asdict(experiment).items() if k not in ("participants", "items")
        },
    }
    with hold_folder(out):
        check_folder(out, "power", settings)
        with progress("power") as advance:
            found = estimate_power(
                experiment,
                participants,
                items,
                runs,
                stimuli=stimuli,
                slopes=slopes,
                advance=advance,
            )
        result = TrialsResult(
            name="power",
            tables={"power": found},
            settings=_add_versions(settings),
            summary=(describe_power(found, experiment.beta),),
        )
        result.write(out)
    return result


def _find_words(data: Path) -> Path:
    """Return the measures of the suites, or say how to get some, if there are trials at all."""
    if not WORDS.exists():
        open_table(data)  # names the trials first, where they cannot be read
        raise UserError(
            f"there is no {WORDS}, which `equivocal suites run` writes; run that first, or give "
            "a table of your own with --measures."
        )
    return WORDS


def _read_stimuli(
    measures: str | Path | None, where: Sequence[str]
) -> tuple[pd.DataFrame | None, dict[str, Any]]:
    """Read the measures that stimuli are made from, if any, and describe them for the settings."""
    path = None if measures is None else Path(measures)
    table = None if path is None else read_measures(path, Columns(), where)
    settings = {"measures": str(path or "built in"), "where": list(where)}
    return table, settings | {"inputs": hash_inputs(measures=path)}


def _add_versions(settings: dict[str, Any]) -> dict[str, Any]:
    """Add the versions of the packages that the numbers depend on."""
    return settings | {"versions": collect_versions()}
