"""`equivocal train`: train networks in a world and save them; the table of their scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column

from equivocal import console
from equivocal.console import make_table, out, show_note, show_table
from lastlayer.errors import UserError, join_names

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.network import Run

__all__ = ["show_scores"]


def register(app: typer.Typer) -> None:
    """Add the commands of this room."""
    app.command(epilog=console.list_examples("train"))(train)


def train(
    world: Annotated[str, typer.Option(help="A world's name, or the path of a file.")] = "paper",
    networks: console.Networks = None,
    seed: console.Seed = None,
    recipe: console.Recipe = None,
    folder: console.Folder = Path("runs/train"),
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
        typer.Option(
            "--strength",
            min=0,
            help="With --choose-decay: a strength to compare; repeatable [0 to 1e-3].",
        ),
    ] = None,
) -> None:
    """Train networks in a world and save them.

    Writes weights (safetensors), settings (TOML), curves and scores (CSV). A run that is already
    there with the same settings is reused.
    """
    from equivocal.network import STRENGTHS, TrainingSettings
    from equivocal.network.train_or_load import (
        save_cross_validation,
        select_best_epochs,
        train_or_load,
    )
    from equivocal.store.locks import hold_folder
    from equivocal.world import World

    named: dict[str, int | str | None] = {"networks": networks, "seed": seed, "recipe": recipe}
    named |= {"sentences": sentences, "epochs": epochs}
    given = {name: value for name, value in named.items() if value is not None}
    more = TrainingSettings.parse(others or [])
    if twice := given.keys() & more.keys():
        raise UserError(f"{join_names(sorted(twice))} is given twice; give it once.")
    settings = TrainingSettings.from_dict(given | more)
    if strengths and not decay:
        raise UserError(
            "--strength names a weight decay for --choose-decay to compare; add --choose-decay, or "
            f"use --set weight_decay={strengths[0]:g} to train with it."
        )
    the_world = World.load(world)
    with hold_folder(folder):
        if decay:
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
    """Print held-out loss against the strength of the weight decay, as a table with bars."""
    from equivocal.network import choose_decay

    choice = choose_decay(curves)
    mean, error = choice.table["mean"], choice.table["standard_error"]
    notes = {choice.strongest: "strongest within one standard error"} | {choice.best: "lowest"}
    share = (mean - mean.min()) / max(mean.max() - mean.min(), 1e-12)
    rows = [
        (
            f"{strength:g}",
            f"{mean[strength]:.4f}",
            f"{error[strength]:.4f}",
            "━" * (1 + round(29 * float(share[strength]))),
            notes.get(strength, ""),
        )
        for strength in choice.table.index
    ]
    numbers = (Column(name, justify="right") for name in ("loss", "standard error"))
    title = "held-out loss, mean over folds"
    show_table(make_table(("weight decay", *numbers, "", ""), rows, title=title))


def show_scores(run: "Run") -> None:
    """Print the scores of each trained network."""
    title = f"what the networks know of world {run.world.name}"
    _print_scores(run.scores, title, means=len(run.scores) > 1)
    unknown = "" if run.world.is_exact else " nan: the world is too large to be enumerated."
    show_note("scores", unknown)


def _print_scores(frame: "pd.DataFrame", title: str, *, means: bool = False) -> None:
    """Print a table of numbers, with a last row of their means if `means`."""
    heads = (
        Column(str(name).replace("_", "\n"), justify="right", vertical="bottom")
        for name in [frame.index.name, *frame.columns]
    )
    rows = (
        [str(label), *(f"{v:.1f}" if name == "epoch" else f"{v:.4f}" for name, v in row.items())]
        for label, row in frame.iterrows()
    )
    table = make_table(heads, rows, title=title)
    if means:
        table.add_section()
        table.add_row("mean", *(f"{value:.4f}" for value in frame.mean()))
    show_table(table)
