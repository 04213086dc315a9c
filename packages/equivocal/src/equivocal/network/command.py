"""`equivocal train`: train networks in a world and save them; the table of their scores."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equivocal import console
from equivocal.console import out
from lastlayer.errors import UserError, join_names

if TYPE_CHECKING:
    from equivocal.network import Run

__all__ = ["describe_scores"]


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
    from equivocal.network.runs import train_or_load
    from equivocal.store.locks import hold_folder
    from equivocal.world import World

    named: dict[str, int | str | None] = {"networks": networks, "seed": seed, "recipe": recipe}
    named |= {"sentences": sentences, "epochs": epochs}
    given = {name: value for name, value in named.items() if value is not None}
    more = TrainingSettings.parse(others or [])
    if twice := given.keys() & more.keys():
        raise UserError(f"{join_names(sorted(twice))} is given twice; give it once.")
    settings = TrainingSettings(**given | more)
    the_world = World.load(world)
    with hold_folder(folder):
        run = train_or_load(the_world, settings, folder)
    out.print(describe_scores(run), soft_wrap=True)
    end = f"saved in {folder}; `Network.load({str(folder)!r}, 0)` loads the first"
    out.print(end, soft_wrap=True)


def describe_scores(run: "Run") -> str:
    """Describe in a sentence what the networks know; scores.csv has the scores of each."""
    scores = run.scores.mean()
    ceiling = scores["exact_match_ceiling"]
    best = "" if isnan(ceiling) else f" (at best {ceiling:.1%})"
    return (
        f"what the networks know of world {run.world.name}, on average: {scores['exact_match']:.1%}"
        f"{best} of held-out questions answered without a mistake (scores.csv)"
    )
