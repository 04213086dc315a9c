"""`equivocal multiverse`: run studies that differ in what the paper leaves open."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equivocal import console
from equivocal.console import out, show_summary, warn_quick
from equivocal.progress import progress
from lastlayer.errors import UserError

if TYPE_CHECKING:
    from equivocal.result import Result

LOADING_PAUSE = 1.0  # seconds; the imports take several, and Python has taken one to start


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("multiverse"))(multiverse)


def multiverse(
    grid: Annotated[
        str | None,
        typer.Option(
            help="small (minutes), full (hours; resumes), match (with --match), or a file.toml "
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
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="With --match: only check that the command works, with small networks; do not "
            "report.",
        ),
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

    Writes multiverse.csv and the specification curves. With --match, tests instead which printed
    facts of the paper are met under which choices, and writes matches.csv. An interrupted run is
    resumed by the same command, also on another machine.
    """
    with progress("match" if match else "multiverse", begin="loading", pause=LOADING_PAUSE):
        from equivocal.multiverse.designs import load_design
        from equivocal.multiverse.grid import load_grid
        from equivocal.multiverse.run import match_paper, run_multiverse

    if workers is not None and scheduler is not None:
        raise UserError("--workers starts workers here, --scheduler uses others; give one of them.")
    if match:
        design = load_design(grid or "match", quick=quick, networks=networks)
        result: "Result" = match_paper(folder, design=design, workers=workers, scheduler=scheduler)
    elif quick:
        raise UserError("--quick goes with --match; add it.")
    else:
        points = load_grid(grid or "small", networks)
        result = run_multiverse(points, folder, workers=workers, scheduler=scheduler)
    show_summary(result.summary)
    where = f"{folder / result.name}.csv, {folder / 'tables'} and {folder / 'figures'}"
    out.print(f"wrote {where}", soft_wrap=True)
    warn_quick(quick)
