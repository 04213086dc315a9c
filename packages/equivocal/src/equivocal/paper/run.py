"""A study from end to end, as the paper tells it: train, sample, believe, tabulate, judge, draw.

`reproduce` runs the study of the paper and `run_study` any study. Each step takes values and
returns values. Long ones go through the store of the study, which finds what is finished: the same
call resumes an interrupted run, and after a setting was changed makes only what depends on it.
"""

import math
from pathlib import Path
from typing import Any

from equivocal.machine import describe_device
from equivocal.network import Run
from equivocal.network.runs import train_or_load
from equivocal.paper.claims import find_impossible_numbers, judge_readings
from equivocal.paper.figures import draw
from equivocal.paper.inference import (
    Beliefs,
    Known,
    believe,
    compare_with_truth,
    map_rational,
    sample,
)
from equivocal.paper.report import StudyResult, collect_result, hash_report, write
from equivocal.paper.settings import StudySettings, load_study
from equivocal.paper.study import READINGS, Study, prepare
from equivocal.paper.tables import (
    find_rational_levels,
    tabulate,
    tabulate_effects,
    tabulate_steps,
)
from equivocal.progress import announce, progress
from equivocal.store.folders import has_run, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.store.store import RECORDS
from equivocal.workers import Begin, count_workers, open_workers

__all__ = ["reproduce", "run_study"]

WRITTEN = ("settings.toml", "stimuli.csv", "activations.nc", "claims.csv", "report.html", "tables")
SMALL = 1e6  # networks × sentences × epochs; smaller studies are not worth the start of workers
# minutes of one core of a server (benchmarks/reproduction.py): of any study of the paper, and more
# for networks of the size of the study `paper`
LEAST_MINUTES, PAPER_MINUTES, PAPER_SIZE = 1, 21, 6e6


def reproduce(out: str | Path = "runs/paper", *, quick: bool = False) -> StudyResult:
    """Reproduce the paper: ten networks, their posteriors, every table and figure, a report.

    Parameters
    ----------
    out : str or Path
        The folder for the results; a run that was interrupted there is resumed.
    quick : bool
        Two small networks, only to check that everything works; do not report the results.

    Returns
    -------
    StudyResult
        With `.tables`, among them "claims" with a verdict on each claim.

    Raises
    ------
    UserError
        If the folder is in use, or holds networks with other settings.
    """
    return run_study("paper", out, quick=quick)


def run_study(
    settings: StudySettings | str | Path,
    out: str | Path,
    *,
    quick: bool = False,
    changes: dict[str, Any] | None = None,
    workers: int | None = None,
) -> StudyResult:
    """Run a whole study: networks, posteriors, tables, figures, report.

    Parameters
    ----------
    settings : StudySettings, str or Path
        Settings, the name of a preset, or a study file.
    out : str or Path
        The folder for the results; a run that was interrupted there is resumed.
    quick : bool
        Whether to make the changes of the study's table [quick].
    changes : dict, optional
        Values that replace single settings, by dotted name, as {"training.networks": 2}.
    workers : int, optional
        How many processes make what does not depend on each other; by default one for each core,
        where that is worth their start. Results do not depend on it.

    Returns
    -------
    StudyResult
        With `.tables`: every table of tables/*.csv by name, and "claims".

    Raises
    ------
    UserError
        If a setting is wrong, the folder is in use, or it holds networks with other settings.
    """
    if isinstance(settings, StudySettings):
        settings = settings.change(changes or {}, quick=quick)
    else:
        settings = load_study(settings, changes, quick=quick)
    folder, is_paper = Path(out), settings.is_paper
    with hold_folder(folder):
        refuse_foreign_files(folder / RECORDS, WRITTEN)
        study = prepare(settings, folder)
        count = workers or choose_workers(settings)
        announce_time(study, count)
        with open_workers(count, folder) as begin:
            wait = begin(compare_with_truth, study) if is_paper else None
            train(study)
            beliefs = infer(study, begin)
            with progress("networks in a world with a known truth"):
                truth = wait() if wait else None
            others = infer_readings(study, begin) if is_paper else {}
        with progress("analysing"):
            tables = tabulate(beliefs.answers, printed=is_paper)
            if is_paper:
                own = Known(beliefs, truth)
                tables["claims"] = judge_readings(study.run, own, others, tables)
                readings: dict[str, Beliefs] = {}
                for name in READINGS:
                    readings[name] = others.get(name, own).beliefs
                tables["effects"] = tabulate_effects(readings)
                tables["steps"] = tabulate_steps(readings)
                tables["rational"] = map_rational(study)
                tables["rational_levels"] = find_rational_levels(study.example, readings)
                tables["impossible_numbers"] = find_impossible_numbers()
        result = collect_result(study, beliefs, tables, truth)
        made = study.store.make("report", hash_report(result), lambda: write(result, draw(result)))
        announce("drew figures and report" if made else "figures and report are up to date")
    return result


def train(study: Study) -> Run:
    """Train the networks of a study, or load them from its folder."""
    train_or_load(study.world, study.settings.training_settings, study.folder)
    return study.run  # as the folder holds it, so that a resumed run has the same digits


def infer(study: Study, begin: Begin) -> Beliefs:
    """Sample the posteriors of a study, and ask them about its stimuli."""
    with progress(f"posteriors{describe_device()}") as advance:
        sample(study, begin, advance)
    with progress("asking") as advance:
        return believe(study, begin, advance)


def infer_readings(study: Study, begin: Begin) -> dict[str, Known]:
    """Do the same under readings of N that are not the study's own, with the same networks."""
    others = {name: other for name, other in study.list_readings().items() if other is not study}
    waits = {name: begin(compare_with_truth, other) for name, other in others.items()}
    known = {}
    for name, other in others.items():
        known[name] = Known(infer(other, begin), waits[name]())
    return known


def measure_size(settings: StudySettings) -> float:
    """Return networks × sentences × epochs, to which the time of a study is about proportional."""
    training = settings.training_settings
    return float(training.networks * training.sentences * training.epochs)


def choose_workers(settings: StudySettings) -> int:
    """Choose how many worker processes are worth their start."""
    return 1 if measure_size(settings) < SMALL else count_workers()


def announce_time(study: Study, workers: int) -> None:
    """Say how long a study takes, if that is more than a minute; new or resumed."""
    settings = study.settings
    minutes = (
        PAPER_MINUTES * measure_size(settings) / PAPER_SIZE + LEAST_MINUTES * settings.is_paper
    )
    if minutes / workers > 1 and not describe_device():  # nothing was measured on a GPU
        cores = f"{workers} core{'s' * (workers > 1)} of a server"
        time = f"takes about {math.ceil(minutes / workers)} minutes on {cores}"
        if has_run(study.folder):
            announce(f"from its beginning this {time}; what is finished is used again")
        else:
            announce(f"this {time}; interrupted, it can be continued")
