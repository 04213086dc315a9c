"""`equivocal reproduce` runs the study of the paper, or one of your own; `equivocal study new`."""

from pathlib import Path
from typing import Annotated

import typer

from equivocal import console
from equivocal.console import out, show_summary
from equivocal.network.command import describe_scores

PAPER, QUICK = Path("runs/paper"), Path("runs/quick")

study = typer.Typer(no_args_is_help=True, help="Studies of your own.")


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("reproduce"))(reproduce)
    app.add_typer(study, name="study")


def reproduce(
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results [runs/paper; --quick: runs/quick]."),
    ] = None,
    quick: console.Quick = False,
    preset: Annotated[str, typer.Option(help="A study of the package.")] = "paper",
    study: Annotated[
        Path | None, typer.Option(help="A study file of your own instead (see `study new`).")
    ] = None,
    networks: console.Networks = None,
    seed: console.Seed = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting of the study, as `nuts.draws=500`; repeatable."),
    ] = None,
    workers: console.Workers = None,
) -> None:
    """Run a whole study, by default the paper: networks, posteriors, tables, figures, report.

    Finished results are reused: the same command resumes an interrupted run, and a changed
    setting repeats only what depends on it.
    """
    from equivocal.paper.run import run_study
    from equivocal.paper.settings import parse_changes

    changes = parse_changes(others or [])
    given = {"training.networks": networks, "training.seed": seed}
    changes |= {name: value for name, value in given.items() if value is not None}
    chosen = folder or (QUICK if quick else PAPER)
    result = run_study(study or preset, chosen, quick=quick, changes=changes, workers=workers)
    show_summary(result.summary)
    out.print(describe_scores(result.run), soft_wrap=True)
    out.print(f"wrote {chosen / 'tables'} and {chosen / 'figures'}", soft_wrap=True)
    out.print(f"the report is {result.report}", soft_wrap=True)


@study.command("new")
def new(
    path: Annotated[Path, typer.Argument(help="The file to write, ending in .toml.")],
) -> None:
    """Write a commented example study and its stimulus file, to start from."""
    from equivocal.paper.settings import write_example

    stimuli = write_example(path)
    out.print(
        f"wrote {path} and {stimuli}; run it with `equivocal reproduce --study {path} --out "
        f"runs/{path.stem}`",
        soft_wrap=True,
    )
