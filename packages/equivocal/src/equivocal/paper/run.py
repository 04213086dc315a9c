"""A study from end to end: train or load, infer, probe, analyse, draw, report.

`reproduce` runs the study of the paper and `run_study` any study; `infer`, `probe`, `analyse` and
`report` run one stage in the folder of a study. Finished results are reused: the same call resumes
an interrupted run, and after a setting is changed, only results that depend on it are recomputed.
What a stage computes is defined in `equivocal.paper`, what is drawn in `equivocal.paper`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equivocal.machine import describe_device
from equivocal.network.storage import hash_run
from equivocal.network.train_or_load import train_or_load
from equivocal.paper.preparation import open_study, prepare
from equivocal.paper.settings import StudySettings, load_study
from equivocal.paper.stages import Study
from equivocal.paper.tables import PRINTED_STUDIES
from equivocal.progress import announce, progress
from equivocal.result import Figures, Result
from equivocal.store import read_table
from equivocal.store.folders import NETWORKS, open_run, refuse_foreign_files
from equivocal.store.locks import hold_folder
from equivocal.workers import Begin, count_workers, open_workers
from equivocal.world import World

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.network import Run

__all__ = ["StudyResult", "analyse", "infer", "probe", "report", "reproduce", "run_study"]


WRITTEN = ("settings.toml", "stimuli.csv", "activations.nc", "claims.csv", "report.html", "tables")
OTHER_WORLD = "slips"  # where reversed sentences have a true answer
QUICK = (
    "A quick run only checks that the command works: its verdicts and effects mean nothing; do not "
    "report them."
)
# Seconds of one core of a server (AMD EPYC) that the study `paper` took, of which each part is
# scaled: training the networks of a world, answers in the other world, results by their records,
# and what runs by itself
TRAINING, OTHER, ALONE = 270.0, 65.0, 30.0
PARTS = {"posteriors": 240.0, "probe": 45.0, "path": 30.0, "exact": 50.0, "nuts": 40.0}
# The share of the work that kept but one core busy: `benchmarks.reproduction` took 781 s on two
# cores, beside some other work, and 1,121 s of processor time.
SERIAL = 0.4
PAPER = {"networks": 10, "sentences": 10_000, "epochs": 60}
WORTH = 60.0  # seconds of work from which on worker processes are worth their start


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult(Result):
    """The outcome of a study.

    Attributes
    ----------
    tables : dict of str to DataFrame
        Every table of tables/*.csv by name, and "claims".
    folder : Path
        The folder that holds all results.
    """

    study: Study

    @property
    def folder(self) -> Path:
        """The folder that holds all results."""
        return self.study.folder

    @property
    def report(self) -> Path:
        """The path of the report, one self-contained page."""
        return self.folder / "report.html"

    @property
    def run(self) -> "Run":
        """The trained networks."""
        return self.study.run

    def draw(self) -> Figures:
        """Draw the figures of the report, by name."""
        from equivocal.paper.report import list_figures

        return {name: draw() for name, draw in list_figures(self.study).items()}


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
    folder = Path(out)
    with hold_folder(folder):
        refuse_foreign_files(folder / "records", WRITTEN)
        (folder / "records").mkdir(exist_ok=True)  # marks the folder as that of a study
        study = prepare(settings, folder)
        workers = _announce_time(study, workers)
        with open_workers(workers, folder) as begin:
            wait = begin(_map_frontier, study) if settings.name in PRINTED_STUDIES else None
            train_or_load(study.world, settings.training_settings, folder)
            _infer(study, begin)
            _probe(study, begin)
            if wait:
                with progress(f"networks of world {OTHER_WORLD}"):
                    wait()
        study.drop_posteriors()
        _analyse(study)
        _report(study)
        return _collect_result(study)


def infer(folder: str | Path) -> None:
    """Sample the posteriors of a study's trained networks.

    Parameters
    ----------
    folder : str or Path
        The folder of a study that `run_study` has begun.
    """
    with _hold_study(Path(folder)) as study, open_workers(count_workers(), study.folder) as begin:
        _infer(study, begin)


def probe(folder: str | Path) -> None:
    """Compute the answers of networks and posteriors at every word; write activations.nc.

    Parameters
    ----------
    folder : str or Path
        The folder of a study that has its posteriors.
    """
    with _hold_study(Path(folder)) as study, open_workers(count_workers(), study.folder) as begin:
        _probe(study, begin)


def analyse(folder: str | Path) -> "dict[str, pd.DataFrame]":
    """Compute the statistics of the activations, and write tables/ and claims.csv.

    Parameters
    ----------
    folder : str or Path
        The folder of a study that holds activations.nc.

    Returns
    -------
    dict of str to DataFrame
        Every table by name, and "claims".
    """
    with _hold_study(Path(folder)) as study:
        _analyse(study)
        return _read_tables(study)


def report(folder: str | Path) -> StudyResult:
    """Draw the figures and write report.html.

    Parameters
    ----------
    folder : str or Path
        The folder of a study that holds tables and claims.

    Returns
    -------
    StudyResult
        The tables of the study.

    Raises
    ------
    UserError
        If the folder holds no study, or its tables are missing or damaged.
    """
    with _hold_study(Path(folder)) as study:
        _report(study)
        return _collect_result(study)


@contextmanager
def _hold_study(folder: Path) -> Iterator[Study]:
    """Yield the study of a folder, which is locked meanwhile."""
    if not (folder / "settings.toml").exists():
        open_study(folder)  # fails, before the lock would create the folder
    with hold_folder(folder):
        yield open_study(folder)


def _announce_time(study: Study, workers: int | None) -> int:
    """Announce how long a study takes, and return in how many workers it is to run."""
    seconds, most = estimate_seconds(study), workers or count_workers()
    if workers is None and seconds < WORTH:
        most = 1
    if not describe_device():  # nothing was measured on a GPU
        cores = f"{most} core{'s' * (most > 1)}"
        minutes = (seconds * (SERIAL + (1 - SERIAL) / most) + ALONE) / 60
        how_long = f"about {minutes:.0f} minutes" if minutes > 1.5 else "a minute or two"
        announce(f"this takes {how_long} on {cores} of a server; interrupted, it can be continued")
    return most


def estimate_seconds(study: Study) -> float:
    """Estimate the processor time of what a study lacks by key, from that of the study `paper`."""
    training = study.settings.training_settings

    def lacks_networks(folder: Path, world: World) -> bool:
        return open_run(folder).find(NETWORKS, hash_run(world, training), warn=False) is None

    untrained = lacks_networks(study.folder, study.world)
    missing = study.measure_missing(trained=not untrained)
    epochs = training.epochs / PAPER["epochs"]
    seconds = TRAINING * epochs * untrained
    seconds += sum(PARTS[name] * missing[name] for name in PARTS)
    if study.settings.name in PRINTED_STUDIES:
        place = study.folder / "frontier" / "networks"
        untrained = lacks_networks(place, World.load(OTHER_WORLD))
        seconds += TRAINING * epochs * untrained + OTHER * max(untrained, missing["probe"])
    share = training.networks * training.sentences / (PAPER["networks"] * PAPER["sentences"])
    return seconds * share


def _map_frontier(study: Study) -> None:
    """Train as many networks in another world, for the claim about known true answers."""
    from equivocal.doubt.kinds import KindSettings
    from equivocal.doubt.run import compare_uncertainty

    few = KindSettings(evidence=(1.0,), other_variances=(), rates=(), sizes=(2, 5, 10))
    folder, training = study.folder / "frontier", study.settings.training_settings
    compare_uncertainty(OTHER_WORLD, folder, training=training, settings=few)


def _infer(study: Study, begin: Begin) -> None:
    with progress(f"posteriors{describe_device()}") as advance:
        study.infer(advance, begin)


def _probe(study: Study, begin: Begin) -> None:
    with progress("asking") as advance:
        study.probe(advance, begin)


def _analyse(study: Study) -> None:
    with progress("analysing"):
        written = study.analyse()
    what = "wrote tables and claims in" if written else "tables and claims are up to date in"
    announce(f"{what} {study.folder}")


def _report(study: Study) -> None:
    from equivocal.paper.report import write_report

    study.check_analysis()
    drawn = write_report(study)
    announce("drew figures and report" if drawn else "figures and report are up to date")


def _collect_result(study: Study) -> StudyResult:
    from equivocal.paper.summary import count_verdicts, summarise_study

    tables = _read_tables(study)
    done, *found = summarise_study(study, tables).items()  # the findings are to come first
    summary = ["\n  ".join([heading, *texts]) for heading, texts in (*found, done)]
    if len(tables["claims"]):
        summary.insert(0, count_verdicts(tables["claims"]))
    if study.settings.quick_run:
        summary.insert(0, QUICK)
    return StudyResult(
        name="study",
        tables=tables,
        settings=study.settings.to_dict(),
        summary=tuple(summary),
        study=study,
    )


def _read_tables(study: Study) -> "dict[str, pd.DataFrame]":
    paths = [*sorted((study.folder / "tables").glob("*.csv")), study.folder / "claims.csv"]
    return {path.stem: read_table(path) for path in paths}
