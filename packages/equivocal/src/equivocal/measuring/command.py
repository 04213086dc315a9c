"""`equivocal measure`: many sentences in, one table of measures out."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from equivocal import console
from equivocal.console import out, show_results


def register(app: typer.Typer) -> None:
    """Add the command of this feature."""
    app.command(epilog=console.list_examples("measure"))(measure)


def measure(
    items: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of items (.csv); expectations.toml beside them is judged."),
    ] = None,
    paradigms: Annotated[
        list[str] | None,
        typer.Option(
            "--paradigm", help="A paradigm or construction of the package; repeatable [nine]."
        ),
    ] = None,
    world: Annotated[
        str | None, typer.Option(help="The world of a table of items: a name, or a file.")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Use the networks in this folder, which `train` has written."),
    ] = None,
    networks: console.Networks = None,
    seed: console.Seed = None,
    recipe: console.Recipe = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for all results, or a CSV file [runs/measure]."),
    ] = None,
    beliefs: Annotated[
        Literal["posterior", "trained"],
        typer.Option(help="Beliefs of the converged posterior's particles, or as trained."),
    ] = "posterior",
    wide: Annotated[
        bool,
        typer.Option("--wide", help="A row for each word in the CSV file, networks side by side."),
    ] = False,
    quick: console.Quick = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Only list the paradigms of the package.")
    ] = False,
) -> None:
    """Measure every word of your sentences, or of paradigms of the literature, with networks.

    Trains the networks first, or reuses those in the folder. With `--out words.csv` the table of
    words is there, a row for each network and word, and all else in the folder words/: tables/,
    figures/ and finally measure.toml, which marks the run as complete. `--english` measures English
    sentences instead, with the options of `equivocal english measure`.
    """
    from equivocal.measuring.paradigms import PARADIGMS
    from equivocal.measuring.run import measure as measure_items

    if listed:
        _list_paradigms()
        return
    chosen = folder or Path("runs/measure-quick" if quick else "runs/measure")
    result = measure_items(
        [*(items or ()), *(paradigms or ())] or PARADIGMS,
        world=world,
        run=run,
        out=chosen,
        networks=networks,
        seed=seed,
        recipe=recipe,
        beliefs=beliefs,
        wide=wide,
        quick=quick,
    )
    show_results(result.summary, chosen.with_suffix(""), quick=quick)
    if chosen.suffix == ".csv":
        about = chosen.with_name(f"{chosen.stem}_columns.csv")
        out.print(f"wrote {chosen}; {about} says what its columns hold", soft_wrap=True)


def _list_paradigms() -> None:
    """Print name, world, number of items and conditions of each paradigm."""
    from equivocal.measuring.paradigms import CONSTRUCTIONS, EXPLORATORY, PARADIGMS, load_paradigm

    for name in (*PARADIGMS, *CONSTRUCTIONS, *EXPLORATORY):
        one = load_paradigm(name)
        conditions = ", ".join(one.conditions)
        out.print(f"{name}: {one.title} ({one.world.name}; {conditions})", soft_wrap=True)
