"""`equivocal doubt`: kinds of doubt side by side, scored against the truth."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from equivocal.cli.console import out, progress, show_table
from equivocal.cli.experiments import Quick, tell_written, training_of, write_tables
from equivocal.cli.training import Networks, Seed

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.gestalt import TrainingSettings
    from equivocal.uncertainty.keeping import DoubtSettings, Kept
    from equivocal.world import World

__all__ = ["DOUBT_EXAMPLES", "doubt"]

DOUBT_EXAMPLES = (
    "Examples: `equivocal doubt --quick`, `equivocal doubt --networks 10 --out runs/doubt`, "
    "`equivocal doubt --world my.toml --networks 4 --out runs/mine`"
)
USUAL, QUICK = Path("runs/doubt"), Path("runs/doubt-quick")
FEW = {"num_steps": 2, "num_particles": 24}
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
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for networks, members, tables and figures [runs/doubt; "
            "-quick is added with --quick].",
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="Posteriors to compare: last, query or all, each with a --layers of its own "
            "[all three]. Without a GPU, query and all take long."
        ),
    ] = None,
    quick: Quick = False,
) -> None:
    """Compare kinds of doubt: posteriors over one or more layers, deep ensembles, MC dropout.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/.
    """
    from equivocal.store.locks import hold_folder
    from equivocal.uncertainty.keeping import DoubtSettings
    from equivocal.uncertainty.reversals import reversals_of
    from equivocal.uncertainty.truth import truth_of
    from equivocal.world import World

    began, kinds = perf_counter(), _kinds(layers)
    training = training_of(networks, seed, quick=quick)
    the_world = World.load(world)
    truth_of(the_world), reversals_of(the_world)  # what a world may lack is told before the work
    chosen = folder or (QUICK if quick else USUAL)
    settings = DoubtSettings(seed=training.seed, **(FEW if quick else {}))
    with hold_folder(chosen):
        _compare(_trained(the_world, training, chosen, settings), kinds, began)
    tell_written(chosen, quick=quick)


def _kinds(layers: list[str] | None) -> list[str]:
    """The posteriors that are asked for, and all that is no posterior."""
    from equivocal.uncertainty.comparing import KINDS
    from equivocal.uncertainty.posteriors import LAYERS, check_layers

    for name in layers or ():
        check_layers(name)
    return [kind for kind in KINDS if kind not in LAYERS or kind in (layers or LAYERS)]


def _trained(
    world: "World", training: "TrainingSettings", folder: Path, settings: "DoubtSettings"
) -> "Kept":
    """Networks with and without dropout."""
    from equivocal.experiments.networks import train_or_load
    from equivocal.uncertainty.keeping import Kept, trained_with_dropout

    run = train_or_load(world, training, folder / "networks")
    place = folder / f"dropout_{settings.dropout:g}"
    with progress("training with dropout") as advance:
        dropped = trained_with_dropout(
            run, place, settings.dropout, lambda r, epochs: advance(r.epoch, epochs, "epochs")
        )
    return Kept(folder, run, dropped, settings)


def _compare(kept: "Kept", kinds: list[str], began: float) -> None:
    """Tables and figure, and the answer on the screen."""
    import tomli_w

    from equivocal.report import save_figure
    from equivocal.report.kind_figures import doubt_figure
    from equivocal.store.files import write_text_atomically
    from equivocal.uncertainty.comparing import compare_kinds, summary_of
    from equivocal.uncertainty.keeping import seconds_each
    from equivocal.uncertainty.record import record_of
    from equivocal.uncertainty.telling import answer

    run, folder = kept.run, kept.folder
    with progress("kinds of doubt") as advance:
        table, roles = compare_kinds(run.world, len(run.networks), kept.of, advance, kinds)
    summary = summary_of(table)
    write_tables(folder / "tables", {"scores": table, "roles": roles, "summary": summary})
    save_figure(doubt_figure(table, summary), folder / "figures", "doubt")
    sentence = answer(table, summary, seconds_each(run))
    record = record_of(kept, kinds, sentence, perf_counter() - began)
    write_text_atomically(folder / "doubt.toml", tomli_w.dumps(record))
    _show(summary, roles, len(run.networks))
    out.print(sentence, style="bold", soft_wrap=True)
    _show_warnings(table)


def _show(summary: "pd.DataFrame", roles: "pd.DataFrame", networks: int) -> None:
    from equivocal.report.formatting import number
    from equivocal.uncertainty.telling import with_interval

    table = Table(box=box.SIMPLE)
    table.add_column("kind of doubt", no_wrap=True)
    for title in (*COLUMNS.values(), "seconds", "passes", "MB"):
        table.add_column(title, justify="right")
    for _, line in summary.iterrows():
        cells = [
            with_interval(line, name) if name == "auroc" else number(line[name]) for name in COLUMNS
        ]
        passes = f"{line['passes']:,.0f}" if line["passes"] else "–"
        cost = [number(line["seconds"]), passes, number(line["megabytes"])]
        table.add_row(str(line["kind"]), *cells, *cost)
    show_table(table)
    out.print(
        f"Over {networks} networks, against the exact beliefs of the world. AUROC: of reversed "
        "against congruent sentences, with a 95 % interval over networks; the trained network has "
        "only its entropy. Costs are per network, beyond the training of one; passes are of a "
        "network over its training corpus.",
        style="dim",
    )
    by_role = Table(box=box.SIMPLE, title="calibration error by role", title_justify="left")
    means = roles[~roles["network"].str.startswith("all but")].pivot_table(
        index="kind", columns="role", values="calibration_error", sort=False
    )
    by_role.add_column("kind of doubt", no_wrap=True)
    for role in means.columns:
        by_role.add_column(str(role), justify="right")
    for kind, row in means.iterrows():
        by_role.add_row(str(kind), *(f"{value:.4f}" for value in row))
    show_table(by_role)


def _show_warnings(table: "pd.DataFrame") -> None:
    """What posteriors said of themselves: how many came to rest, and the first one's words."""
    for kind, own in table[table["kind"].isin(["last", "query", "all"])].groupby(
        "kind", sort=False
    ):
        rest = int(own["converged"].eq(True).sum())
        said = f"{kind}: {rest} of {len(own)} converged; the first: {own['message'].iloc[0]}"
        out.print(said, style="dim", soft_wrap=True)
