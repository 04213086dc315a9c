"""`equivocal multiverse`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from equivocal.cli.console import out, show_table
from equivocal.cli.sweep import Scheduler, Workers, exit_if_unfinished
from equivocal.cli.training import Folder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MULTIVERSE_EXAMPLES", "multiverse"]

MULTIVERSE_EXAMPLES = (
    "Examples: `equivocal multiverse`, `equivocal multiverse --grid full --out runs/full`, "
    "`equivocal multiverse --grid my_grid.toml --networks 4 --out runs/mine`"
)


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
    with exit_if_unfinished():
        result = run_multiverse(the_grid, folder, hire=hire)
    _show(result.tables["multiverse"])
    out.print(f"wrote {folder / 'multiverse.csv'} and {folder / 'figures'}", soft_wrap=True)


def _show(table: "pd.DataFrame") -> None:
    from equivocal.study.multiverse import compute_movements, list_roles, summarise_effect

    shown = Table(title=f"the effect under {len(table)} specifications", title_justify="left")
    shown.add_column("activation, Bayesian − MLE")
    columns = []
    for role in list_roles(table):
        shown.add_column(f"indicated {role}", justify="right")
        found, moved = summarise_effect(table, role), compute_movements(table, role)
        columns.append(
            [
                f"{found['share_positive']:.0%}",
                f"{found['share_interval_above']:.0%}",
                *(f"{found[name]:.2g}" for name in ("smallest", "median", "largest")),
                *(f"{name} ({value:.2g})" for name, value in moved.iloc[:2].items()),
            ]
        )
    rows = ["positive", "interval above zero", "smallest", "median", "largest"]
    rows += ["moved most by", "then by"][: len(columns[0]) - len(rows)]
    for label, *cells in zip(rows, *columns, strict=True):
        shown.add_row(label, *cells)
    show_table(shown)
    converged = int(table["converged"].sum())
    out.print(
        f"{int(table['networks'].iloc[0])} networks; {converged} of {len(table)} specifications "
        "converged. Intervals are over network × item cells: they describe, they do not test. "
        "In brackets: how far a choice alone moves the effect.",
        style="dim",
    )
