"""`equivocal reproduce` and its stages: `infer`, `probe`, `analyse`, `report`; `study new`."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equivocal.cli.console import in_stages, on_device, out, progress
from equivocal.cli.training import Folder, Networks, Seed, show_scores

if TYPE_CHECKING:
    from equivocal.study import Study

__all__ = [
    "REPRODUCE_EXAMPLES",
    "STAGE_EXAMPLES",
    "analyse",
    "app",
    "infer",
    "probe",
    "report",
    "reproduce",
]

REPRODUCE_EXAMPLES = (
    "Examples: `equivocal reproduce --out runs/paper`, `equivocal reproduce --quick`, "
    "`equivocal reproduce --study my_study.toml --out runs/mine`, "
    "`equivocal reproduce --set inference.samplers.paper.num_particles=100 --out runs/hundred`"
)
STAGE_EXAMPLES = "Example: `equivocal infer --out runs/paper`, then `probe`, `analyse`, `report`"
PAPER, QUICK = Path("runs/paper"), Path("runs/quick")

app = typer.Typer(no_args_is_help=True, help="Studies of your own.")


def reproduce(
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results [runs/paper; --quick: runs/quick]."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small networks: does it run? Not to be quoted.")
    ] = False,
    preset: Annotated[str, typer.Option(help="A study of the package.")] = "paper",
    study: Annotated[
        Path | None, typer.Option(help="A study file of your own instead (see `study new`).")
    ] = None,
    networks: Networks = None,
    seed: Seed = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting of the study, as `nuts.draws=500`; repeatable."),
    ] = None,
) -> None:
    """Run a whole study, by default the paper: networks, posteriors, tables, figures, report.

    What is there already is used again: a run that was stopped goes on where it was, and a changed
    setting repeats only what depends on it.
    """
    from equivocal.experiments.networks import train_or_load
    from equivocal.store.locks import hold_folder
    from equivocal.study.opening import prepare
    from equivocal.study.settings import load_study, parse_changes

    changes = parse_changes(others or [])
    for name, value in (("networks", networks), ("seed", seed)):
        if value is not None:
            changes[f"training.{name}"] = value
    settings = load_study(study or preset, changes, quick=quick)
    chosen = folder or (QUICK if quick else PAPER)
    with hold_folder(chosen):
        the_study = prepare(settings, chosen)
        show_scores(train_or_load(the_study.world, settings.training_settings, chosen))
        _infer(the_study)
        _probe(the_study)
        _analyse(the_study)
        _report(the_study)


def infer(folder: Folder = PAPER) -> None:
    """Sample the posteriors of a study's trained networks."""
    with _opened(folder) as study:
        _infer(study)


def probe(folder: Folder = PAPER) -> None:
    """Ask networks and posteriors the stimuli, word by word; writes activations.nc."""
    with _opened(folder) as study:
        _probe(study)


def analyse(folder: Folder = PAPER) -> None:
    """Statistics of the activations; writes tables/ and claims.csv."""
    with _opened(folder) as study:
        _analyse(study)


def report(folder: Folder = PAPER) -> None:
    """Draw the figures and write report.html."""
    with _opened(folder) as study:
        _report(study)


@app.command("new")
def new(
    path: Annotated[Path, typer.Argument(help="The file to write, ending in .toml.")],
) -> None:
    """Write a commented study of your own to start from, with its stimulus file beside it."""
    from equivocal.study.new import write_example

    stimuli = write_example(path)
    out.print(
        f"wrote {path} and {stimuli}; run it with `equivocal reproduce --study {path} --out "
        f"runs/{path.stem}`",
        soft_wrap=True,
    )


@contextmanager
def _opened(folder: Path) -> "Iterator[Study]":
    """A study from its folder, which nobody else writes into meanwhile."""
    from equivocal.store.locks import hold_folder
    from equivocal.study.opening import open_study

    there = (folder / "settings.toml").exists()  # no folder is made to say that it holds nothing
    with hold_folder(folder) if there else nullcontext():
        yield open_study(folder)


def _infer(study: "Study") -> None:
    with progress(f"posteriors{on_device()}") as advance:
        study.infer(advance)


def _probe(study: "Study") -> None:
    with progress("asking") as advance:
        study.probe(advance)


def _analyse(study: "Study") -> None:
    written = study.analyse()
    what = "wrote tables and claims in" if written else "tables and claims are there already, in"
    out.print(f"{what} {study.folder}", soft_wrap=True)


def _report(study: "Study") -> None:
    from equivocal.report.studies import draw_all, is_drawn, write_report

    study.check_analysis()
    if is_drawn(study):
        out.print(f"the report is there already: {study.folder / 'report.html'}", soft_wrap=True)
        return
    stages: dict[str, Any] = draw_all(study)
    in_stages("drawing", stages)
    path = write_report(study)
    out.print(f"drew {len(stages)} figures; the report is {path}", soft_wrap=True)
