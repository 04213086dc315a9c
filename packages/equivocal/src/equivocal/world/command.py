"""`equivocal world …`: list, show and check worlds, write a new one, sample sentences.

`equivocal train` trains networks in a world; other commands use its table of scores too.
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from equivocal import console
from equivocal.console import make_table, out, show_note, show_table
from equivocal.progress import run_in_stages
from lastlayer.errors import UserError, join_names
from lastlayer.files import write_text_atomically

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.network import Run
    from equivocal.world import World

world = typer.Typer(no_args_is_help=True, help="Look at worlds, check them, make your own.")


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.add_typer(world, name="world")
    app.command(epilog=console.list_examples("train"))(train)


Name = Annotated[
    str,
    typer.Argument(
        help="A world of the package or the path of a world file; values of its parameters may "
        "follow, as in slips:rare=0.02,slip=0.01."
    ),
]

SHOWN_SENTENCES = 8


@world.command("list")
def list_worlds() -> None:
    """Name the worlds that come with the package."""
    from equivocal.world import World, list_shipped_worlds

    names = list_shipped_worlds()
    for name in names:
        description = World.load(name).file.description
        out.print(f"{name:<{max(map(len, names))}}  {description}", soft_wrap=True)


@world.command(epilog=console.list_examples("world new"))
def new(
    path: Annotated[Path, typer.Argument(help="Where to write; nothing is overwritten.")],
) -> None:
    """Write a small commented world file to start from."""
    from equivocal.world import read_example

    if path.suffix != ".toml":
        raise UserError(
            f"a world file ends in .toml, got {str(path)!r}; try {path.with_suffix('.toml')}."
        )
    if path.exists():
        raise UserError(f"{path} exists already; choose another name or remove it first.")
    write_text_atomically(path, read_example())
    out.print(f"wrote {path}; change it, then `equivocal world check {path}`", soft_wrap=True)


@world.command(epilog=console.list_examples("world check"))
def check(name: Name) -> None:
    """Say whether a world file can be used, and if not, everything that is wrong with it."""
    from equivocal.world import World

    world = World.load(name)
    out.print(
        f"{world.source} is in order: {len(world.tokens)} tokens, "
        f"{len(world.units)} units, {_qualify_counts(world)}{len(world.sentences):,} sentences.",
        soft_wrap=True,
    )


def _qualify_counts(world: "World") -> str:
    """Return "at least " for the counts of a world that is sampled and not enumerated."""
    return "" if world.is_exact else "at least "


@world.command(epilog=console.list_examples("world show"))
def show(name: Name) -> None:
    """Show a world: counts, parameters, words with their features, typical sentences."""
    from equivocal.world import World

    world = World.load(name)
    run_in_stages(
        "working out the world",
        {
            "sentences": lambda: world.sentences,
            "events": lambda: world.events,
            "questions": lambda: world.all_derivations.queries,
        },
    )
    counts = _make_pairs(_describe_world(world), "")
    out.print(Panel(counts, title=Text(f"world {world.name}"), expand=False))
    parameters = [
        (name, f"{spec.default:g}", f"{spec.least:g} to {spec.most:g}", spec.description)
        for name, spec in world.file.parameters.items()
    ]
    if parameters:
        heads = ("parameter", "value", "range", "description")
        out.print(make_table(heads, parameters, title="parameters", box=None))
    classes = world.file.words.items()
    words = {cls: {word: ", ".join(has) for word, has in words.items()} for cls, words in classes}
    out.print(Columns(_make_pairs(pairs, "dim", title=cls) for cls, pairs in words.items()))
    shown = [(f"{one.probability:.4f}", one.text) for one in world.sentences[:SHOWN_SENTENCES]]
    out.print(make_table(("P", "sentence"), shown, title="most probable sentences", box=None))


def _describe_world(world: "World") -> dict[str, str]:
    """Return the facts about a world that are shown, by label."""
    everything, prefix = world.all_derivations, _qualify_counts(world)
    return {
        "about": world.file.description,
        "roles": ", ".join(world.roles),
        "input tokens": f"{len(world.tokens)} ({len(world.lexicon.markers)} of them markers)",
        "output units": f"{len(world.units)} ({len(world.roles)} of them roles)",
        "actions": str(len(world.grammar.actions)),
        "constructions": ", ".join(c.name for c in world.grammar.plain_constructions),
        **({"noise": ", ".join(world.file.noise)} if world.has_noise else {}),
        "events": f"{prefix}{len(world.events):,}",
        "sentences": f"{prefix}{len(world.sentences):,}",
        "beginnings": f"{prefix}{len(everything.tree.parent):,}",
        "questions": f"{prefix}{len(everything.queries):,} distinct (beginning, probe) pairs",
    }


def _make_pairs(pairs: dict[str, str], style: str, title: str | None = None) -> Table:
    """Make a table of names and their descriptions, these in a style, without lines."""
    columns = Column(style="bold"), Column(style=style)
    return make_table(columns, pairs.items(), title=title, box=None, show_header=False)


@world.command(epilog=console.list_examples("world sample"))
def sample(
    name: Name,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="How many sentences.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same sentences.")] = 0,
    csv: Annotated[
        Path | None, typer.Option(help="Write a CSV file with roles in columns instead.")
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Each once, with its count.")
    ] = False,
) -> None:
    """Draw random sentences."""
    from equivocal.world import World

    if csv is not None and csv.exists():
        raise UserError(f"{csv} exists already; choose another name or remove it first.")
    corpus = World.load(name).sample(n, seed=seed)
    if csv is not None:
        rows = corpus.distinct() if distinct else corpus
        stages = {"sentences": lambda: rows.texts, str(csv): lambda: rows.to_csv(csv)}
        run_in_stages("writing", stages)
        out.print(f"wrote {len(rows.texts):,} rows, {n:,} sentences, to {csv}", soft_wrap=True)
        return
    lines = list(corpus.texts)
    if distinct:
        lines = [f"{count:>6}  {text}" for text, count in Counter(lines).most_common()]
    for line in lines:
        out.print(line, soft_wrap=True)


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
