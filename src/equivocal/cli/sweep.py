"""`equivocal sweep`, and what `equivocal multiverse` shares with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from equivocal.cli.console import out, show_table
from equivocal.cli.training import Folder
from equivocal.errors import UserError
from equivocal.progress import err

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SWEEP_EXAMPLES", "Scheduler", "Workers", "exit_if_unfinished", "sweep"]

SWEEP_EXAMPLES = (
    "Examples: `equivocal sweep --quick --vary training.seed=0,1,2 --out runs/seeds`, "
    "`equivocal sweep my_sweep.toml --workers 4 --out runs/mine`, "
    "`equivocal sweep my_sweep.toml --scheduler tcp://10.0.0.1:8786 --out runs/mine`"
)
UNFINISHED = 1

Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes on this machine [one for each core]."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="A running Dask scheduler to use instead, as tcp://10.0.0.1:8786."),
]


def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="A file.toml that says what is varied; or use --vary.")
    ] = None,
    folder: Folder = Path("runs/sweep"),
    preset: Annotated[
        str | None, typer.Option(help="A study of the package, or a file.toml [paper].")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small studies: does it run? Not to be quoted.")
    ] = False,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="A setting and its values, as `training.seed=0,1,2`; repeatable."),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Run a study many times, with some of its settings varied in all combinations.

    Writes sweep.csv, a row for every point and claim, all tables in tables/, and varied.toml, which
    says what was varied. An interrupted sweep is resumed by the same command, also on another
    machine.
    """
    from equivocal.experiments.grids import run_sweep
    from equivocal.study.cluster import hire_workers
    from equivocal.study.grids import load_sweep, make_sweep, parse_varied

    if file is None:
        grid = make_sweep(preset or "paper", parse_varied(vary or []), quick=quick)
    elif preset or quick or vary:
        raise UserError(f"{file} says what is varied; leave out --preset, --quick and --vary.")
    else:
        grid = load_sweep(file)
    with exit_if_unfinished():
        result = run_sweep(grid, folder, hire=hire_workers(folder, workers, scheduler))
    _show(result.tables["sweep"], len(grid.points))
    out.print(f"wrote {folder / 'sweep.csv'} and {folder / 'tables'}", soft_wrap=True)
    if grid.quick:
        out.print("Results of small networks show that it runs; they are not to be quoted.")


@contextmanager
def exit_if_unfinished() -> Iterator[None]:
    """Exit with 1 and a sentence where some points failed."""
    from equivocal.study.tasks import UnfinishedError

    try:
        yield
    except UnfinishedError as error:
        err.print(Text.assemble(("not finished: ", "bold red"), str(error)), soft_wrap=True)
        raise typer.Exit(UNFINISHED) from None


def _show(claims: "pd.DataFrame", points: int) -> None:
    """Show how often each claim got which verdict."""
    number = f"{points} point{'s' if points > 1 else ''}"
    if "verdict" not in claims:
        out.print(f"{number}; only the paper's study has claims to judge")
        return
    verdicts = list(claims["verdict"].unique())
    shown = Table(title=f"verdicts over {number}", title_justify="left")
    shown.add_column("claim", no_wrap=True)
    for verdict in verdicts:
        shown.add_column(verdict, justify="right")
    for claim, found in claims.groupby("id", sort=False)["verdict"]:
        shown.add_row(str(claim), *(str((found == verdict).sum() or "") for verdict in verdicts))
    show_table(shown)
