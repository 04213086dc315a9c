"""`equivocal world …`: look at worlds, check them, make one, sample from one."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from equivocal.cli.console import list_examples, out
from equivocal.errors import UserError
from equivocal.progress import run_in_stages
from equivocal.store.files import write_text_atomically

if TYPE_CHECKING:
    from equivocal.world import World

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Look at worlds, check them, make your own.")

Name = Annotated[
    str,
    typer.Argument(
        help="A world of the package or the path of a world file; values of its parameters may "
        "follow, as in slips:rare=0.02,slip=0.01."
    ),
]

SHOWN_SENTENCES = 8


@app.command("list")
def list_worlds() -> None:
    """Name the worlds that come with the package."""
    from equivocal.world import World, list_shipped_worlds

    names = list_shipped_worlds()
    for name in names:
        description = World.load(name).file.description
        out.print(f"{name:<{max(map(len, names))}}  {description}", soft_wrap=True)


@app.command(epilog=list_examples("world new"))
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


@app.command(epilog=list_examples("world check"))
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
    """Return what stands before counts of a world that is sampled and not enumerated."""
    return "" if world.is_exact else "at least "


@app.command(epilog=list_examples("world show"))
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
    counts = _make_table(_describe_world(world), "bold", "")
    out.print(Panel(counts, title=Text(f"world {world.name}"), expand=False))
    if world.parameters:
        out.print(_list_parameters(world))
    classes = world.file.words.items()
    words = {cls: {word: ", ".join(has) for word, has in words.items()} for cls, words in classes}
    out.print(Columns(_make_table(rows, "bold", "dim", title=cls) for cls, rows in words.items()))
    sentences = Table(
        "P", "sentence", title="most probable sentences", title_justify="left", box=None
    )
    for sentence in world.sentences[:SHOWN_SENTENCES]:
        sentences.add_row(f"{sentence.probability:.4f}", sentence.text)
    out.print(sentences)


def _describe_world(world: "World") -> dict[str, str]:
    """Return what there is to say about a world, by label."""
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


def _list_parameters(world: "World") -> Table:
    """List the parameters of a world: the value in force, the range, the meaning."""
    headings = ("parameter", "value", "range", "description")
    table = Table(*headings, title="parameters", title_justify="left", box=None)
    for name, spec in world.file.parameters.items():
        span = f"{spec.least:g} to {spec.most:g}"
        table.add_row(name, f"{spec.default:g}", span, spec.description)
    return table


def _make_table(rows: dict[str, str], left: str, right: str, title: str | None = None) -> Table:
    """Make a table of two columns without lines, with a style for each column."""
    columns = Column(style=left), Column(style=right)
    table = Table(*columns, title=title, title_justify="left", box=None, show_header=False)
    for row in rows.items():
        table.add_row(*row)
    return table


@app.command(epilog=list_examples("world sample"))
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
