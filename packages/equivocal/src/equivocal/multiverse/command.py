"""`equivocal multiverse`: run studies that differ in what the paper leaves open."""

from pathlib import Path
from typing import Annotated

import typer

from equivocal import console
from equivocal.console import show_results, show_summary
from equivocal.progress import progress
from lastlayer.errors import UserError

LOADING_PAUSE = 1.0  # seconds; the imports take several, and Python has taken one to start


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("multiverse"))(multiverse)


def multiverse(
    grid: Annotated[
        str | None,
        typer.Option(
            help="small (minutes), full or match (hours; they resume), or a file.toml "
            "[small, or match]."
        ),
    ] = None,
    folder: console.Folder = Path("runs/multiverse"),
    networks: Annotated[
        int | None, typer.Option(min=1, help="How many networks [as the grid says].")
    ] = None,
    match: Annotated[
        bool, typer.Option("--match", help="Which specifications replicate which results?")
    ] = False,
    workers: console.Workers = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="A running Dask scheduler to use instead, such as tcp://10.0.0.1:8786; its "
            "machines share the folder."
        ),
    ] = None,
) -> None:
    """Test whether the effect depends on a choice that the paper leaves open, over a grid of them.

    Writes tables/multiverse.csv and the specification curves. With --match, tests instead which
    printed facts of the paper are met under which choices, and writes tables/matches.csv. An
    interrupted run is resumed by the same command, also on another machine.
    """
    with progress("match" if match else "multiverse", begin="loading", pause=LOADING_PAUSE):
        from equivocal.multiverse.grid import load_grid
        from equivocal.multiverse.run import match_paper, run_multiverse

    if workers is not None and scheduler is not None:
        raise UserError("--workers starts workers here, --scheduler uses others; give one of them.")
    points = load_grid(grid or ("match" if match else "small"), networks)
    measure = match_paper if match else run_multiverse
    result = measure(points, folder, workers=workers, scheduler=scheduler)
    show_summary(result.summary)
    show_results((), folder, quick=False)
