"""`equivocal doubt`: kinds of doubt side by side, scored against the truth."""

from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from equivocal import __version__
from equivocal.cli.console import out, progress
from equivocal.cli.training import Networks, Seed, train_or_reuse

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.doubt.keeping import Kept
    from equivocal.gestalt import Run

__all__ = ["DOUBT_EXAMPLES", "doubt"]

DOUBT_EXAMPLES = (
    "Examples: `equivocal doubt --quick`, `equivocal doubt --networks 10 --out runs/doubt`, "
    "`equivocal doubt --world my.toml --networks 4 --out runs/mine`"
)
USUAL, QUICK = Path("runs/doubt"), Path("runs/doubt-quick")
SMALL = {"networks": 2, "epochs": 10, "sentences": 1_000}
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
            "--out", help="Folder for networks, members, tables and figures [runs/doubt]."
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            help="Posteriors to compare: last, query or all, each with a --layers of its own "
            "[all three]. Without a GPU, query and all take long."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small networks: does it run? Not to be quoted.")
    ] = False,
) -> None:
    """Compare kinds of doubt: posteriors over one or more layers, deep ensembles, MC dropout.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/.
    """
    from equivocal.doubt.comparing import KINDS
    from equivocal.doubt.keeping import DoubtSettings, Kept, trained_with_dropout
    from equivocal.doubt.posteriors import LAYERS, check_layers
    from equivocal.doubt.reversals import reversals_of
    from equivocal.doubt.truth import truth_of
    from equivocal.gestalt import TrainingSettings
    from equivocal.locks import only_one
    from equivocal.world import World

    for name in layers or ():
        check_layers(name)
    kinds = [kind for kind in KINDS if kind not in LAYERS or kind in (layers or LAYERS)]
    given = {"networks": networks, "seed": seed}
    training = TrainingSettings.from_dict(
        (SMALL if quick else {})
        | {name: value for name, value in given.items() if value is not None}
    )
    the_world = World.load(world)
    truth_of(the_world), reversals_of(the_world)  # what a world may lack is told before the work
    chosen = folder or (QUICK if quick else USUAL)
    settings = DoubtSettings(seed=training.seed, **(FEW if quick else {}))
    with only_one(chosen, "tables", "figures", "networks/*", "dropout_*/*", "members/*"):
        run = train_or_reuse(the_world, training, chosen / "networks")
        place = chosen / f"dropout_{settings.dropout:g}"
        with progress("training with dropout") as advance:
            dropped = trained_with_dropout(
                run, place, settings.dropout, lambda r, epochs: advance(r.epoch, epochs, "epochs")
            )
        _compare(run, Kept(chosen, run, dropped, settings), kinds, chosen)


def _compare(run: "Run", kept: "Kept", kinds: list[str], folder: Path) -> None:
    """Tables and figure, and the answer on the screen."""
    import tomli_w

    from equivocal.doubt.comparing import answer, compare_kinds, summary_of
    from equivocal.doubt.figures import doubt_figure
    from equivocal.doubt.keeping import seconds_each
    from equivocal.files import write_text_atomically
    from equivocal.report import save_figure

    with progress("kinds of doubt") as advance:
        table, roles = compare_kinds(run.world, len(run.networks), kept.of, advance, kinds)
    summary = summary_of(table)
    for name, frame in {"scores": table, "roles": roles, "summary": summary}.items():
        text = frame.to_csv(index=False, float_format="%.6g")
        write_text_atomically(folder / "tables" / f"{name}.csv", text)
    training = seconds_each(run)
    sentence = answer(table, summary, training)
    made_of = {
        "version": __version__,
        "world": run.world.name,
        "networks": len(run.networks),
        "training_seconds_per_network": round(training, 3),
        "answer": sentence,
        "settings": asdict(kept.settings),
    }
    write_text_atomically(folder / "doubt.toml", tomli_w.dumps(made_of))
    save_figure(doubt_figure(table, summary), folder / "figures", "doubt")
    _show(summary, roles, len(run.networks))
    out.print(sentence, style="bold", soft_wrap=True)
    _show_warnings(table)
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)


def _show(summary: "pd.DataFrame", roles: "pd.DataFrame", networks: int) -> None:
    from equivocal.report.formatting import number

    table = Table(box=box.SIMPLE)
    table.add_column("kind of doubt", no_wrap=True)
    for title in (*COLUMNS.values(), "seconds", "passes", "MB"):
        table.add_column(title, justify="right")
    for line in summary.to_dict("records"):
        cells = [number(line[name]) for name in COLUMNS]
        ends = (line["auroc_low"], line["auroc_high"])
        cells[-1] = f"{line['auroc']:.3f}" + (
            "" if isnan(ends[0]) else f" ({ends[0]:.3f} to {ends[1]:.3f})"
        )
        passes = f"{line['passes']:,.0f}" if line["passes"] else "–"
        cost = [number(line["seconds"]), passes, number(line["megabytes"])]
        table.add_row(str(line["kind"]), *cells, *cost)
    out.print(table)
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
    out.print(by_role)


def _show_warnings(table: "pd.DataFrame") -> None:
    """What posteriors said of themselves: how many came to rest, and the first one's words."""
    for kind, own in table[table["kind"].isin(["last", "query", "all"])].groupby(
        "kind", sort=False
    ):
        rest = int(own["message"].str.startswith("converged").sum())
        said = f"{kind}: {rest} of {len(own)} converged; the first: {own['message'].iloc[0]}"
        out.print(said, style="dim", soft_wrap=True)
