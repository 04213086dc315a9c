"""`equivocal doubt`: how far each kind of uncertainty is from the truth."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box

from equivocal import console
from equivocal.console import show_note, show_results, show_rows, show_summary
from equivocal.errors import format_number

if TYPE_CHECKING:
    import pandas as pd

HEADS = {
    "kl_reversal": "reversals",
    "kl_congruent": "congruent",
    "skill": "skill",
    "spread_ratio": "spread",
    "spread_rank": "its rank",
    "nll_excess": "above truth",
    "brier": "Brier",
    "calibration_error": "calibration",
    "auroc_entropy": "by entropy",
    "auroc": "AUROC",
    "seconds": "seconds",
    "megabytes": "MB",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("doubt"))(doubt)


def doubt(
    world: Annotated[str, typer.Option(help="A world's name, or the path of a file.")] = "graded",
    networks: console.Networks = None,
    seed: console.Seed = None,
    folder: console.QuickFolder = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="Add a posterior over more layers, query or all; repeatable. Takes long without "
            "a GPU."
        ),
    ] = None,
    corpora: Annotated[
        int,
        typer.Option(min=1, help="Training corpora, with their own networks; intervals over them."),
    ] = 1,
    quick: console.Quick = False,
) -> None:
    """Measure how far kinds of uncertainty are from the truth: posteriors, ensembles, MC dropout.

    Where reversals have a true answer, they are asked, with every kind at many strengths. In other
    worlds it is everything that can be asked. Trains the networks first, or reuses those in the
    folder. Writes tables/frontier.csv, tables/summary.csv and figures/.
    """
    from equivocal.doubt.run import compare_uncertainty

    chosen = folder or Path("runs/doubt" + "-quick" * quick)
    result = compare_uncertainty(
        world,
        chosen,
        quick=quick,
        networks=networks,
        seed=seed,
        layers=layers or (),
        corpora=corpora,
    )
    show_summary(result.summary)
    _show_frontier(result.tables["summary"], result.settings["networks"])
    show_results((), chosen, quick=quick)


def _show_frontier(summary: "pd.DataFrame", networks: int) -> None:
    """Print the settings on the frontier, the trained network, and each kind's last setting."""
    ends = ~summary.duplicated("kind", keep="last") | (summary["setting"] == "held-out")
    shown = ends | summary["on_frontier"]
    heads = {name: head for name, head in HEADS.items() if name in summary}
    rows = []
    for _, row in summary[shown | (summary["value"] == 1)].iterrows():
        numbers = [format_number(row[name]) for name in heads]
        low, high = (row[f"{next(iter(heads))}_{end}"] for end in ("low", "high"))
        span = "" if isnan(low) else f"{format_number(low)}–{format_number(high)}"
        frontier = "yes" if row["on_frontier"] else ""
        rows.append([row["kind"], row["setting"], numbers[0], span, *numbers[1:], frontier])
    first, *others = heads.values()
    columns = ("kind", "setting", first, "95 %", *others, "on frontier")
    show_rows(columns, rows, left=2, box=box.SIMPLE)
    show_note("reversals" if "kl_reversal" in heads else "kinds", networks=networks)
