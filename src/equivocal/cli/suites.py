"""`equivocal suites`: experiments as data, heard by trained networks."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from equivocal.cli.console import out, show_results
from equivocal.cli.constructions import CurveNetworks, list_constructions
from equivocal.cli.training import Networks, Quick, QuickFolder, Seed

__all__ = ["app"]

RUN_EXAMPLES = (
    "Examples: `equivocal suites run`, `equivocal suites run --suite reversal_anomaly --measure "
    "all --out runs/reversal`, `equivocal suites run --suite my_suite.toml --networks 4 --out "
    "runs/mine`"
)

app = typer.Typer(no_args_is_help=True, help="Paradigms and constructions: experiments as data.")


class Beliefs(StrEnum):
    """Whose beliefs are measured."""

    TRAINED = "trained"
    POSTERIOR = "posterior"


@app.command("list")
def list_suites() -> None:
    """List the suites that come with the package: paradigms, then constructions."""
    from equivocal.suites import PARADIGMS, load_suite

    table = Table(box=box.SIMPLE)
    table.add_column("suite", no_wrap=True)
    table.add_column("conditions")
    table.add_column("items", justify="right")
    table.add_column("after")
    for suite in map(load_suite, PARADIGMS):
        conditions = ", ".join(suite.conditions)
        table.add_row(suite.name, conditions, str(len(suite.items)), suite.after)
    out.print(table)
    list_constructions()


@app.command("run", epilog=RUN_EXAMPLES)
def run(
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--suite", help="A paradigm, a construction or a file.toml; repeatable [all paradigms]."
        ),
    ] = None,
    networks: Networks = None,
    seed: Seed = None,
    folder: QuickFolder = None,
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", help="A measure, or `all`; repeatable [as the suite says]."),
    ] = None,
    beliefs: Annotated[
        Beliefs,
        typer.Option(help="Of the trained last layer, or of particles of its posterior."),
    ] = Beliefs.TRAINED,
    by_role: Annotated[
        bool,
        typer.Option("--by-role", help="Bayesian surprise about each role as well, in words.csv."),
    ] = False,
    curve_networks: CurveNetworks = None,
    quick: Quick = False,
) -> None:
    """Let trained networks hear suites, and say which findings held.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/, and last
    suites.toml: a folder that has it holds one whole run.
    """
    from equivocal.experiments.suites import run_suites

    chosen = folder or Path("runs/suites-quick" if quick else "runs/suites")
    result = run_suites(
        names,
        chosen,
        quick=quick,
        networks=networks,
        seed=seed,
        measures=measures or (),
        beliefs=beliefs,
        by_role=by_role,
        curve_networks=curve_networks,
    )
    show_results(result.summary, chosen, quick=quick)
