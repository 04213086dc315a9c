"""`equivocal train`: train networks in a world and save them; the table of their scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column

from equivocal import console
from equivocal.console import make_table, out, show_note, show_table
from lastlayer.errors import UserError, join_names

if TYPE_CHECKING:
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
) -> None:
    """Train networks in a world and save them.

    Writes weights (safetensors), settings (TOML), curves and scores (CSV). A run that is already
    there with the same settings is reused.
    """
    from equivocal.network import TrainingSettings
    from equivocal.network.train_or_load import train_or_load
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
        show_scores(train_or_load(the_world, settings, folder))
    end = f"saved in {folder}; `Network.load({str(folder)!r}, 0)` loads the first"
    out.print(end, soft_wrap=True)


def show_scores(run: "Run") -> None:
    """Print the scores of each trained network, and their means."""
    scores = run.scores
    heads = (
        Column(str(name).replace("_", "\n"), justify="right", vertical="bottom")
        for name in [scores.index.name, *scores.columns]
    )
    rows = ([str(label), *(f"{value:.4f}" for value in row)] for label, row in scores.iterrows())
    table = make_table(heads, rows, title=f"what the networks know of world {run.world.name}")
    if len(scores) > 1:
        table.add_section()
        table.add_row("mean", *(f"{value:.4f}" for value in scores.mean()))
    show_table(table)
    unknown = "" if run.world.is_exact else " nan: the world is too large to be enumerated."
    show_note("scores", unknown)
