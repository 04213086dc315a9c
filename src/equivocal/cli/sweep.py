"""`equivocal sweep`, and what `equivocal multiverse` shares with it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from equivocal.cli.console import Advance, err, out, progress, show_table
from equivocal.cli.training import Folder
from equivocal.errors import UserError

__all__ = ["SWEEP_EXAMPLES", "Scheduler", "Workers", "finished_or_exit", "sweep"]

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
Result = TypeVar("Result")


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
    says what was varied. A sweep that was stopped goes on where it was, also on another machine.
    """
    from equivocal.study.cluster import hiring
    from equivocal.study.sweep import load_sweep, make_sweep, parse_varied, run_sweep

    if file is None:
        the_sweep = make_sweep(preset or "paper", parse_varied(vary or []), quick=quick)
    elif preset or quick or vary:
        raise UserError(f"{file} says what is varied; leave out --preset, --quick and --vary.")
    else:
        the_sweep = load_sweep(file)
    hire = hiring(folder, workers, scheduler)
    rows = finished_or_exit("sweep", lambda advance: run_sweep(the_sweep, folder, advance, hire))
    _show(rows, len(the_sweep.points))
    out.print(f"wrote {folder / 'sweep.csv'} and {folder / 'tables'}", soft_wrap=True)
    if the_sweep.quick:
        out.print("Results of small networks show that it runs; they are not to be quoted.")


def finished_or_exit(what: str, work: Callable[[Advance], Result]) -> Result:
    """Do it with progress; where a part failed for good, say so and exit with 1."""
    from equivocal.study.many import UnfinishedError

    try:
        with progress(what) as advance:
            return work(advance)
    except UnfinishedError as error:
        err.print(Text.assemble(("not finished: ", "bold red"), str(error)), soft_wrap=True)
        raise typer.Exit(UNFINISHED) from None


def _show(rows: list[dict[str, str]], points: int) -> None:
    """How often each claim got which verdict."""
    verdicts = list(dict.fromkeys(row["verdict"] for row in rows if "verdict" in row))
    number = f"{points} point{'s' if points > 1 else ''}"
    if not verdicts:
        out.print(f"{number}; only the paper's study has claims to judge")
        return
    shown = Table(title=f"verdicts over {number}", title_justify="left")
    shown.add_column("claim", no_wrap=True)
    for verdict in verdicts:
        shown.add_column(verdict, justify="right")
    counted = Counter((row["id"], row["verdict"]) for row in rows)
    for claim in dict.fromkeys(row["id"] for row in rows):
        shown.add_row(claim, *(str(counted[claim, verdict] or "") for verdict in verdicts))
    show_table(shown)
