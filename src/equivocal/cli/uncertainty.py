"""`equivocal doubt`: kinds of uncertainty side by side, scored against the truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from equivocal.cli.console import out, show_results, show_table
from equivocal.cli.training import Networks, Quick, QuickFolder, Seed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DOUBT_EXAMPLES", "doubt"]

DOUBT_EXAMPLES = (
    "Examples: `equivocal doubt --quick`, `equivocal doubt --networks 10 --out runs/doubt`, "
    "`equivocal doubt --world my.toml --networks 4 --out runs/mine`"
)
COLUMNS = {
    "nll": "NLL",
    "nll_excess": "above truth",
    "brier": "Brier",
    "calibration_error": "calibration",
    "auroc_entropy": "by entropy",
    "auroc": "AUROC",
}


def doubt(
    world: Annotated[str, typer.Option(help="A world's name, or the path of a file.")] = "paper",
    networks: Networks = None,
    seed: Seed = None,
    folder: QuickFolder = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="Posteriors to compare: last, query or all, repeat --layers for each "
            "[all three]. Without a GPU, query and all take long."
        ),
    ] = None,
    quick: Quick = False,
) -> None:
    """Compare kinds of uncertainty: posteriors over some or all layers, ensembles, MC dropout.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/.
    """
    from equivocal.experiments.uncertainty import compare_uncertainty

    chosen = folder or Path("runs/doubt-quick" if quick else "runs/doubt")
    result = compare_uncertainty(
        world, chosen, quick=quick, networks=networks, seed=seed, layers=layers
    )
    _show_summary(result.tables["summary"], result.settings["networks"])
    _show_roles(result.tables["roles"])
    out.print(result.summary[0], style="bold", soft_wrap=True)
    for verdict in result.summary[1:]:
        out.print(verdict, style="dim", soft_wrap=True)
    show_results((), chosen, quick=quick)


def _show_summary(summary: "pd.DataFrame", networks: int) -> None:
    """Print the scores and costs of each kind."""
    from equivocal.experiments.uncertainty import describe_score
    from equivocal.report.formatting import format_number

    table = Table(box=box.SIMPLE)
    table.add_column("kind", no_wrap=True)
    for title in (*COLUMNS.values(), "seconds", "passes", "MB"):
        table.add_column(title, justify="right")
    for _, line in summary.iterrows():
        scores = [format_number(line[name]) for name in COLUMNS if name != "auroc"]
        passes = f"{line['passes']:,.0f}" if line["passes"] else "–"
        cost = [format_number(line["seconds"]), passes, format_number(line["megabytes"])]
        table.add_row(str(line["kind"]), *scores, describe_score(line, "auroc"), *cost)
    show_table(table)
    out.print(
        f"Over {networks} networks, against the exact beliefs of the world. AUROC: of reversed "
        "against congruent sentences by epistemic uncertainty, with a 95 % interval over networks; "
        "the trained network has only its entropy. Costs are per network, beyond the training of "
        "one; passes are of a network over its training corpus.",
        style="dim",
    )


def _show_roles(roles: "pd.DataFrame") -> None:
    """Print the calibration error of each kind by role, a mean over networks."""
    means = roles[~roles["network"].str.startswith("all but")].pivot_table(
        index="kind", columns="role", values="calibration_error", sort=False
    )
    table = Table(box=box.SIMPLE, title="calibration error by role", title_justify="left")
    table.add_column("kind", no_wrap=True)
    for role in means.columns:
        table.add_column(str(role), justify="right")
    for kind, row in means.iterrows():
        table.add_row(str(kind), *(f"{value:.4f}" for value in row))
    show_table(table)
