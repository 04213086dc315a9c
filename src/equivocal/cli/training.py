"""`equivocal train`, and the options and the table of scores that other commands share with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from equivocal.cli.console import out, show_note, show_table
from equivocal.errors import UserError, join_names

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.gestalt import Run

Folder = Annotated[Path, typer.Option("--out", help="Folder for the results; made if needed.")]
QuickFolder = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for all results [runs/COMMAND; -quick is added to it]."),
]
Networks = Annotated[int | None, typer.Option(min=1, help="How many networks to train [ten].")]
Seed = Annotated[int | None, typer.Option(min=0, help="The same seed gives the same networks [0].")]
Recipe = Annotated[
    str | None, typer.Option(help="How networks are trained: fast, paper or sg2018 [fast].")
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Only check that the command works, with two small networks; do not report."
    ),
]


def train(
    world: Annotated[str, typer.Option(help="A world's name, or the path of a file.")] = "paper",
    networks: Networks = None,
    seed: Seed = None,
    recipe: Recipe = None,
    folder: Folder = Path("runs/train"),
    sentences: Annotated[
        int | None, typer.Option(min=2, help="Sentences in the corpus [by recipe].")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Largest number of epochs [by recipe].")
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other training setting, as `hidden=50`; may be repeated."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cross-validate with this many folds instead.")
    ] = None,
    decay: Annotated[
        bool,
        typer.Option(
            "--choose-decay",
            help="Cross-validate strengths of the weight decay instead; five folds.",
        ),
    ] = False,
    strengths: Annotated[
        list[float] | None,
        typer.Option("--strength", min=0, help="A strength to compare; repeatable [0 to 1e-3]."),
    ] = None,
) -> None:
    """Train networks in a world and save them.

    Writes weights (safetensors), settings (TOML), curves and scores (CSV). A run that is already
    there with the same settings is reused.
    """
    from equivocal.experiments.networks import (
        save_cross_validation,
        select_best_epochs,
        train_or_load,
    )
    from equivocal.gestalt import STRENGTHS, TrainingSettings
    from equivocal.store.locks import hold_folder
    from equivocal.world import World

    named: dict[str, int | str | None] = {"networks": networks, "seed": seed, "recipe": recipe}
    named |= {"sentences": sentences, "epochs": epochs}
    given = {name: value for name, value in named.items() if value is not None}
    more = TrainingSettings.parse(others or [])
    if twice := given.keys() & more.keys():
        raise UserError(f"{join_names(sorted(twice))} is given twice; give it once.")
    settings = TrainingSettings.from_dict(given | more)
    the_world = World.load(world)
    with hold_folder(folder):
        if decay or strengths:
            compared = strengths or STRENGTHS
            curves = save_cross_validation(
                folder, the_world, settings, folds=folds or 5, strengths=compared
            )
            _print_decay(curves)
            end = f"wrote {folder / 'weight_decay.csv'}"
        elif folds is None:
            show_scores(train_or_load(the_world, settings, folder))
            end = f"saved in {folder}; `Network.load({str(folder)!r}, 0)` loads the first"
        else:
            curves = save_cross_validation(folder, the_world, settings, folds=folds)
            _print_scores(select_best_epochs(curves), "best epoch of each fold, mean over networks")
            end = f"wrote {folder / 'cross_validation.csv'}"
    out.print(end, soft_wrap=True)


def _print_decay(curves: "pd.DataFrame") -> None:
    """Print held-out loss against the strength of the decay, as a table with a curve."""
    from equivocal.gestalt import choose_decay

    choice = choose_decay(curves)
    mean, error = choice.table["mean"], choice.table["standard_error"]
    notes = {choice.strongest: "strongest within one standard error"} | {choice.best: "lowest"}
    numbers = (Column(name, justify="right") for name in ("loss", "standard error"))
    title = "held-out loss, mean over folds"
    table = Table("weight decay", *numbers, "", "", title=title, title_justify="left")
    span = max(mean.max() - mean.min(), 1e-12)
    for strength in choice.table.index:
        bar = "━" * (1 + round(29 * float((mean[strength] - mean.min()) / span)))
        cells = f"{mean[strength]:.4f}", f"{error[strength]:.4f}", bar, notes.get(strength, "")
        table.add_row(f"{strength:g}", *cells)
    show_table(table)


def show_scores(run: "Run") -> None:
    """Print a table of how well each network ended."""
    title = f"what the networks know of world {run.world.name}"
    _print_scores(run.scores, title, means=len(run.scores) > 1)
    unknown = "" if run.world.is_exact else " nan: the world is too large to be enumerated."
    show_note("scores", unknown)


def _print_scores(frame: "pd.DataFrame", title: str, *, means: bool = False) -> None:
    """Print a table of numbers, with a row of their means if wanted."""
    table = Table(title=title, title_justify="left")
    for column in [frame.index.name, *frame.columns]:
        table.add_column(str(column).replace("_", "\n"), justify="right", vertical="bottom")
    for label, row in frame.iterrows():
        cells = (f"{v:.1f}" if name == "epoch" else f"{v:.4f}" for name, v in row.items())
        table.add_row(str(label), *cells)
    if means:
        table.add_section()
        table.add_row("mean", *(f"{value:.4f}" for value in frame.mean()))
    show_table(table)
