"""`equivocal reproduce` and its stages: `infer`, `probe`, `analyse`, `report`; `study new`."""

from pathlib import Path
from typing import Annotated

import typer

from equivocal.cli.console import out
from equivocal.cli.training import Folder, Networks, Quick, Seed, show_scores

PAPER, QUICK = Path("runs/paper"), Path("runs/quick")

app = typer.Typer(no_args_is_help=True, help="Studies of your own.")


def reproduce(
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results [runs/paper; --quick: runs/quick]."),
    ] = None,
    quick: Quick = False,
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

    Finished results are reused: an interrupted run is resumed, and a changed setting
    repeats only what depends on it.
    """
    from equivocal.experiments.studies import run_study
    from equivocal.study.settings import parse_changes

    changes = parse_changes(others or [])
    given = {"training.networks": networks, "training.seed": seed}
    changes |= {name: value for name, value in given.items() if value is not None}
    chosen = folder or (QUICK if quick else PAPER)
    result = run_study(study or preset, chosen, quick=quick, changes=changes)
    if quick:
        out.print("A quick run only checks that the command works; do not report its results.")
    for number, paragraph in enumerate(result.summary):
        out.print(paragraph, style="" if number else "bold", soft_wrap=True)
    show_scores(result.run)
    out.print(f"wrote {chosen / 'tables'} and {chosen / 'figures'}", soft_wrap=True)
    out.print(f"the report is {result.report}", soft_wrap=True)


def infer(folder: Folder = PAPER) -> None:
    """Sample the posteriors of a study's trained networks."""
    from equivocal.experiments import studies

    studies.infer(folder)


def probe(folder: Folder = PAPER) -> None:
    """Compute activations of networks and posteriors, word by word; writes activations.nc."""
    from equivocal.experiments import studies

    studies.probe(folder)


def analyse(folder: Folder = PAPER) -> None:
    """Compute statistics of the activations; writes tables/ and claims.csv."""
    from equivocal.experiments import studies

    studies.analyse(folder)


def report(folder: Folder = PAPER) -> None:
    """Draw the figures and write report.html."""
    from equivocal.experiments import studies

    out.print(f"the report is {studies.report(folder).report}", soft_wrap=True)


@app.command("new")
def new(
    path: Annotated[Path, typer.Argument(help="The file to write, ending in .toml.")],
) -> None:
    """Write a commented example study and its stimulus file, to start from."""
    from equivocal.study.settings import write_example

    stimuli = write_example(path)
    out.print(
        f"wrote {path} and {stimuli}; run it with `equivocal reproduce --study {path} --out "
        f"runs/{path.stem}`",
        soft_wrap=True,
    )
