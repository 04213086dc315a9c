"""`equivocal multiverse` and `equivocal sweep`: many studies, and what they found side by side."""

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

__all__ = ["MULTIVERSE_EXAMPLES", "SWEEP_EXAMPLES", "multiverse", "sweep"]

MULTIVERSE_EXAMPLES = (
    "Examples: `equivocal multiverse`, `equivocal multiverse --grid full --out runs/full`, "
    "`equivocal multiverse --grid my_grid.toml --networks 4 --out runs/mine`"
)
SWEEP_EXAMPLES = (
    "Examples: `equivocal sweep --quick --vary training.seed=0,1,2 --out runs/seeds`, "
    "`equivocal sweep my_sweep.toml --workers 4 --out runs/mine`, "
    "`equivocal sweep my_sweep.toml --scheduler tcp://10.0.0.1:8786 --out runs/mine`"
)

Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes on this machine [one for each core]."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="A running Dask scheduler to use instead, as tcp://10.0.0.1:8786."),
]


def multiverse(
    grid: Annotated[
        str, typer.Option(help="small (minutes), full (hours; resumes), or a file.toml.")
    ] = "small",
    folder: Folder = Path("runs/multiverse"),
    networks: Annotated[
        int | None, typer.Option(min=1, help="How many networks [as the grid says: 2].")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Test whether the effect depends on a choice that the paper leaves open, over a grid of them.

    Writes multiverse.csv and the specification curves. An interrupted run is resumed by the same
    command, also on another machine.
    """
    from equivocal.experiments.grids import run_multiverse
    from equivocal.study.cluster import hire_workers
    from equivocal.study.grids import load_grid

    the_grid, hire = load_grid(grid, networks), hire_workers(folder, workers, scheduler)
    with _exit_if_unfinished():
        result = run_multiverse(the_grid, folder, hire=hire)
    _show_effects(result.tables["multiverse"])
    out.print(f"wrote {folder / 'multiverse.csv'} and {folder / 'figures'}", soft_wrap=True)


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
    with _exit_if_unfinished():
        result = run_sweep(grid, folder, hire=hire_workers(folder, workers, scheduler))
    _show_verdicts(result.tables["sweep"], len(grid.points))
    out.print(f"wrote {folder / 'sweep.csv'} and {folder / 'tables'}", soft_wrap=True)
    if grid.quick:
        out.print("Results of small networks show that it runs; they are not to be quoted.")


@contextmanager
def _exit_if_unfinished() -> Iterator[None]:
    """Exit with 1 and a sentence where some points failed."""
    from equivocal.study.tasks import UnfinishedError

    try:
        yield
    except UnfinishedError as error:
        err.print(Text.assemble(("not finished: ", "bold red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from None


def _show_effects(table: "pd.DataFrame") -> None:
    """Show how the effect is distributed over specifications, and what moves it most."""
    import pandas as pd

    from equivocal.study.multiverse import compute_movements, list_roles, summarise_effect

    columns = {}
    for role in list_roles(table):
        found, moved = summarise_effect(table, role), compute_movements(table, role)
        cells = {
            "positive": f"{found['share_positive']:.0%}",
            "interval above zero": f"{found['share_interval_above']:.0%}",
            **{name: f"{found[name]:.2g}" for name in ("smallest", "median", "largest")},
        }
        most = (f"{name} ({value:.2g})" for name, value in moved.items())
        columns[f"indicated {role}"] = cells | dict(
            zip(("moved most by", "then by"), most, strict=False)
        )
    title = f"the effect under {len(table)} specifications"
    _show_frame(title, "activation, Bayesian − MLE", pd.DataFrame(columns))
    converged = int(table["converged"].sum())
    out.print(
        f"{int(table['networks'].iloc[0])} networks; {converged} of {len(table)} specifications "
        "converged. Intervals are over network × item cells: they describe, they do not test. "
        "In brackets: how far a choice alone moves the effect.",
        style="dim",
    )


def _show_verdicts(claims: "pd.DataFrame", points: int) -> None:
    """Show how often each claim got which verdict."""
    import pandas as pd

    number = f"{points} point{'s' if points > 1 else ''}"
    if "verdict" not in claims:
        out.print(f"{number}; only the paper's study has claims to judge")
        return
    counts = pd.crosstab(claims["id"], claims["verdict"]).astype(str).replace("0", "")
    shown = counts.loc[claims["id"].unique(), claims["verdict"].unique()]
    _show_frame(f"verdicts over {number}", "claim", shown)


def _show_frame(title: str, first: str, frame: "pd.DataFrame") -> None:
    """Show a table of texts, with the names of its rows in the first column."""
    shown = Table(title=title, title_justify="left")
    shown.add_column(first, no_wrap=True)
    for name in frame:
        shown.add_column(str(name), justify="right")
    for label, cells in frame.iterrows():
        shown.add_row(str(label), *cells)
    show_table(shown)
