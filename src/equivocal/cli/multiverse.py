"""`equivocal multiverse`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from equivocal.cli.console import out, show_table
from equivocal.cli.sweep import Scheduler, Workers, finished_or_exit
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
    """Does the effect hang on a choice that the paper leaves open? Tries a grid of them.

    Writes multiverse.csv and the specification curves. A run that was stopped goes on where it
    was, also on another machine.
    """
    from equivocal.report import draw_specification_curve, save_figure
    from equivocal.study.cluster import hiring
    from equivocal.study.multiverse import curve_table, roles_of, run_multiverse
    from equivocal.study.specifications import load_grid

    the_grid = load_grid(grid, networks)
    hire = hiring(folder, workers, scheduler)
    table = finished_or_exit(
        "multiverse", lambda advance: run_multiverse(the_grid, folder, advance, hire)
    )
    for number, role in enumerate(roles_of(table)):
        name = "specification_curve" + (f"_{role}" if number else "")
        figure = draw_specification_curve(curve_table(table, role))
        save_figure(figure, folder / "figures", name)
    _show(table)
    out.print(f"wrote {folder / 'multiverse.csv'} and {folder / 'figures'}", soft_wrap=True)


def _show(table: "pd.DataFrame") -> None:
    from equivocal.study.multiverse import movements, roles_of, summary

    shown = Table(title=f"the effect under {len(table)} specifications", title_justify="left")
    shown.add_column("activation, Bayesian − MLE")
    roles = roles_of(table)
    columns = []
    for role in roles:
        shown.add_column(f"indicated {role}", justify="right")
        found, moved = summary(table, role), movements(table, role)
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
