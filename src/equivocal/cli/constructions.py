"""`equivocal constructions`: the constructions of `equivocal suites`, in a folder of their own."""

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from equivocal.cli.console import out, show_results
from equivocal.cli.training import Networks, Quick, QuickFolder, Seed

__all__ = ["CurveNetworks", "app", "list_constructions"]

RUN_EXAMPLES = (
    "Examples: `equivocal constructions run`, `equivocal constructions run --only passive "
    "--networks 4 --out runs/passive`, `equivocal constructions run --quick`"
)

CurveNetworks = Annotated[
    int | None,
    typer.Option(
        min=1, help="Networks in a construction's curves, which take eight posteriors each [all]."
    ),
]
app = typer.Typer(no_args_is_help=True, help="Passives, word order, attachment: two readings.")


@app.command("list")
def list_constructions() -> None:
    """List the constructions that come with the package."""
    from equivocal.suites import CONSTRUCTIONS, load_construction

    table = Table(box=box.SIMPLE)
    table.add_column("construction", no_wrap=True)
    table.add_column("world", no_wrap=True)
    table.add_column("condition")
    table.add_column("items", justify="right")
    for construction in map(load_construction, CONSTRUCTIONS):
        first = construction.name, construction.world.name
        for condition in construction.conditions:
            count = sum(item.condition == condition for item in construction.items)
            table.add_row(*first, condition, str(count))
            first = "", ""
    out.print(table)


@app.command("run", epilog=RUN_EXAMPLES)
def run(
    only: Annotated[
        list[str] | None, typer.Option(help="A construction's name; repeatable [all].")
    ] = None,
    networks: Networks = None,
    curve_networks: CurveNetworks = None,
    seed: Seed = None,
    folder: QuickFolder = None,
    quick: Quick = False,
) -> None:
    """Let networks and particles of their posteriors read sentences that have two readings.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/. An
    interrupted run resumes.
    """
    from equivocal.experiments.suites import run_suites
    from equivocal.suites.suite import CONSTRUCTIONS, check_construction

    chosen = folder or Path("runs/constructions-quick" if quick else "runs/constructions")
    result = run_suites(
        [check_construction(name) for name in only or CONSTRUCTIONS],
        chosen,
        quick=quick,
        networks=networks,
        seed=seed,
        curve_networks=curve_networks,
    )
    show_results(result.summary, chosen, quick=quick)
