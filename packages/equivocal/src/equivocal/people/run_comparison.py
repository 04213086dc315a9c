"""The functions behind `equivocal compare` and `equivocal simulate`.

Their results, and those of `equivocal.people.run_trials`, are written to folders of this form:

    compare.toml: compare.csv, unmatched.csv, trials.csv, lme4.R, brms.R, figures/compare
    truth.toml:   data.csv, measures.csv
    power.toml:   power.csv, figures/power
    answers.toml: data.csv, measures.csv, readings.csv

The TOML file is written first: it marks the other files as belonging to this run, even if the run
is interrupted. A user's own file of one of these names is never overwritten.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd
import tomli_w

from equivocal.people import trials_summary
from equivocal.people.comparison import compare
from equivocal.people.joins import join_files
from equivocal.people.simulation import (
    Experiment,
    build_stimuli,
    check_counts,
    estimate_power,
    simulate,
)
from equivocal.people.tables import Columns, open_table, read_measures
from equivocal.progress import progress
from equivocal.result import Figures, Result
from equivocal.store.folders import announce_overwrite, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.world import World
from lastlayer.errors import UserError
from lastlayer.files import compute_checksum, write_text_atomically
from lastlayer.machine import collect_versions

__all__ = ["RUNS", "TrialsResult", "compare_trials", "simulate_power", "simulate_trials"]

RUNS = 200  # experiments for each point of a power curve
WORDS = Path("runs/suites/tables/words.csv")  # where `equivocal suites run` writes its measures
WRITTEN = {  # the files of each kind of result
    "compare": (
        *("compare.csv", "unmatched.csv", "trials.csv", "lme4.R", "brms.R"),
        *("figures/compare.svg", "figures/compare.png"),
    ),
    "truth": ("data.csv", "measures.csv"),
    "power": ("power.csv", "figures/power.svg", "figures/power.png"),
    "answers": ("data.csv", "measures.csv", "readings.csv"),
}
# settings that do not make a run a different one; of inputs the checksums are compared instead
UNCOMPARED = ("data", "measures", "from", "sentences", "versions", "seconds")


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialsResult(Result):
    """Tables of trials, or of their analysis; `scripts` are other texts to write, by file name.

    `compare_trials` returns the tables "compare" (a row for each measure alone and together with
    the others), "unmatched" (trials that were left out) and "trials"; `simulate_trials` returns
    "data" and "measures"; `simulate_power` returns "power", by participants and items;
    `simulate_answers` returns "data", "measures" and "readings".
    """

    scripts: dict[str, str] = field(default_factory=dict)

    def draw(self) -> Figures:
        """Draw coefficients and differences in AIC, or power against participants."""
        from equivocal.people.figures import draw_comparison, draw_power

        known = {"compare": draw_comparison, "power": draw_power}
        return {name: known[name](table) for name, table in self.tables.items() if name in known}

    def write(self, folder: str | Path) -> None:
        """Write NAME.toml, then a CSV file for each table with all digits, scripts and figures."""
        folder = Path(folder)
        write_text_atomically(folder / f"{self.name}.toml", tomli_w.dumps(self.settings))
        texts = {f"{name}.csv": table.to_csv(index=False) for name, table in self.tables.items()}
        for name, text in (texts | self.scripts).items():
            write_text_atomically(folder / name, text)
        self.save_figures(folder)

    def save(self, folder: Path) -> "TrialsResult":
        """Write to a folder unless that would overwrite a user's files, and return the result."""
        with hold_folder(folder):
            _check_folder(folder, self.name, self.settings)
            self.write(folder)
        return self


def hash_inputs(**paths: Path | None) -> dict[str, str]:
    """Return the SHA-256 of each input table, by name; None stands for a table not given."""
    return {name: compute_checksum(path) or "" for name, path in paths.items() if path}


def _check_folder(folder: Path, name: str, settings: dict[str, Any]) -> None:
    """Refuse to overwrite a user's files or the inputs; announce that older results are replaced.

    `name` is a key of `WRITTEN`; `settings` are compared with those of the earlier run.
    """
    mark = folder / f"{name}.toml"
    refuse_foreign_files(mark, WRITTEN[name])
    there = [path for file in WRITTEN[name] if (path := folder / file).exists()]
    for table in (Path(settings[each]) for each in settings["inputs"]):
        if any(path.samefile(table) for path in there):
            raise UserError(
                f"{table} is read here and would be overwritten; choose another --out, or copy it "
                "to another folder and give that."
            )
    announce_overwrite(mark, settings, [each for each in settings if each not in UNCOMPARED])


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
        The measures: a CSV file with a row for each item and word; by default the file that
        `equivocal suites run` wrote.
    out : str or Path
        Folder for the results.
    columns : Columns, optional
        The names of the columns of the trials, if they differ from the default names.
    measure : sequence of str
        The measures to compare; by default every column of numbers.
    controls : sequence of str
        Columns of either table that all models include; `length` and `frequency` of words are
        computed if no table has them.
    where : sequence of str
        Keep only rows with COLUMN=VALUE, in the tables that have the column.
    family : {"gaussian", "binomial"}
        Linear models of numbers, or logistic models of answers and proportions.
    log : bool
        Model the logarithm of the response.
    slopes : bool
        Let the effect of each measure differ between participants.
    spillover : int
        Also include the measures and word controls of this many preceding words.
    world : str or Path, optional
        The world whose sentences give the control `frequency`.

    Returns
    -------
    TrialsResult
        Already written to `out`.

    Raises
    ------
    UserError
        If a file, a column or a value is wrong, no model can be fitted, or a user's file would be
        overwritten.
    """
    began, data = monotonic(), Path(data)
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
    settings = {
        "data": str(data),
        "measures": str(measures),
        "inputs": hash_inputs(data=data, measures=measures),
        "columns": joined.columns,
        "measure": joined.measures,
        "where": list(where),
        "controls": joined.controls,
        "family": family,
        "log": log,
        "slopes": slopes,
        "spillover": spillover,
        **({} if world is None else {"world": str(world)}),
        "seconds": round(monotonic() - began, 3),
        "versions": collect_versions(),
    }
    trials = joined.trials.rename(columns=trials_summary.name_columns(joined))
    return TrialsResult(
        name="compare",
        tables={"compare": comparison.table, "unmatched": joined.unmatched, "trials": trials},
        settings=settings,
        summary=trials_summary.describe_comparison(comparison),
        scripts={
            name: trials_summary.write_script(comparison, name) for name in trials_summary.SCRIPTS
        },
    ).save(Path(out))


def simulate_trials(
    experiment: Experiment | None = None,
    out: str | Path = "runs/simulated",
    *,
    measures: str | Path | None = None,
    measure: str | None = None,
    where: Sequence[str] = (),
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
    where : sequence of str
        Keep only rows of the measures with COLUMN=VALUE.

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
    table, settings = _read_stimuli(measures, where)
    trials, used, name = simulate(experiment, table, measure)
    settings["truth"] = {"measure": name} | asdict(experiment)
    return TrialsResult(
        name="truth",
        tables={"data": trials, "measures": used},
        settings=settings | {"versions": collect_versions()},
        summary=trials_summary.describe_simulation(trials, experiment, name),
    ).save(Path(out))


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
    measures, measure, where
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
        _check_folder(out, "power", settings)
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
            settings=settings | {"versions": collect_versions()},
            summary=(trials_summary.describe_power(found, experiment.beta),),
        )
        result.write(out)
    return result


def _find_words(data: Path) -> Path:
    """Return the path of the suites' measures; if there are none, say how to get them."""
    if not WORDS.exists():
        open_table(data)  # trials that cannot be read are the more important mistake
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
