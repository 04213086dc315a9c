"""`equivocal world …`: list, show and check worlds, write a new one, sample sentences."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equivocal import console
from equivocal.console import out, show_rows
from equivocal.progress import progress
from equivocal.store.files import write_text_atomically
from lastlayer.errors import UserError

if TYPE_CHECKING:
    from equivocal.world import World

world = typer.Typer(no_args_is_help=True, help="Look at worlds, check them, make your own.")


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.add_typer(world, name="world")


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
    source: Annotated[
        str, typer.Option("--from", help="A world of the package or a file to copy.")
    ] = "example",
) -> None:
    """Write a small commented world file to start from, or a copy of a world of the package."""
    from equivocal.world import read_example
    from equivocal.world.loading import read_world

    _check_new(path)
    text = read_example() if source == "example" else read_world(source)[0]
    write_text_atomically(path, text)
    out.print(f"wrote {path}; change it, then `equivocal world check {path}`", soft_wrap=True)


@world.command("from-table", epilog=console.list_examples("world from-table"))
def from_table(
    events: Annotated[Path, typer.Argument(help="A table with a row for each event (.csv).")],
    out_file: Annotated[Path, typer.Option("--out", help="Where to write the world (.toml).")],
    words: Annotated[
        Path | None, typer.Option(help="A table with a row for each word: its features.")
    ] = None,
    passive: Annotated[
        bool, typer.Option("--passive", help="Say a fifth of the events in the passive.")
    ] = False,
    order: Annotated[
        str, typer.Option(help="The order of subject, verb and object: SVO, SOV, VSO, …")
    ] = "SVO",
) -> None:
    """Write a world from a table of events: columns `action`, other roles, and a frequency.

    Cells of a role may be empty. In place of `frequency` there may be a `probability` or a mean
    `rating`, of which a point more doubles the frequency; without any, events are equally frequent.
    """
    from equivocal.world import World
    from equivocal.world.from_table import write_world_from_tables

    _check_new(out_file)
    text = write_world_from_tables(events, words, name=out_file.stem, passive=passive, order=order)
    made = World.from_toml(text, str(out_file))
    write_text_atomically(out_file, text)
    out.print(
        f"wrote {out_file}: roles {', '.join(made.roles)}; {len(made.events):,} events, "
        f"{_qualify_counts(made)}"
        f"{len(made.sentences):,} sentences; change it, then `equivocal world check {out_file}`",
        soft_wrap=True,
    )


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


def _check_new(path: Path) -> None:
    """Refuse to overwrite a file, and names that are not those of world files."""
    if path.suffix != ".toml":
        raise UserError(
            f"a world file ends in .toml, got {str(path)!r}; try {path.with_suffix('.toml')}."
        )
    if path.exists():
        raise UserError(f"{path} exists already; choose another name or remove it first.")


def _qualify_counts(world: "World") -> str:
    """Return "at least " for the counts of a world that is sampled and not enumerated."""
    return "" if world.is_exact else "at least "


@world.command(epilog=console.list_examples("world show"))
def show(
    name: Name,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print its file instead, as a start for your own.")
    ] = False,
) -> None:
    """Show a world: counts, parameters, words with their features, typical sentences."""
    from equivocal.world import World
    from equivocal.world.loading import find_world

    if toml:
        out.print(find_world(name, {})[0], soft_wrap=True, end="")
        return
    world = World.load(name)
    with progress("working out the world"):
        facts = _describe_world(world)
    show_rows((f"world {world.name}", ""), facts.items(), left=2, box=None)
    parameters = [
        (name, f"{spec.default:g}", f"{spec.least:g} to {spec.most:g}", spec.description)
        for name, spec in world.file.parameters.items()
    ]
    if parameters:
        show_rows(("parameter", "value", "range", "description"), parameters, left=4, box=None)
    for cls, words in world.file.words.items():
        rows = [(word, ", ".join(features)) for word, features in words.items()]
        show_rows((cls, "features"), rows, left=2, box=None)
    sentences = [(f"{s.probability:.4f}", s.text) for s in world.sentences[:SHOWN_SENTENCES]]
    show_rows(("P", "most probable sentences"), sentences, left=2, box=None)


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


@world.command(epilog=console.list_examples("world sample"))
def sample(
    name: Name,
    n: Annotated[
        int, typer.Option("-n", "--number", min=1, max=10**7, help="How many sentences.")
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same sentences.")] = 0,
    csv: Annotated[
        Path | None,
        typer.Option(help="Write a CSV file instead: distinct sentences, roles and counts."),
    ] = None,
) -> None:
    """Draw random sentences."""
    from equivocal.world import World

    if csv is not None and csv.exists():
        raise UserError(f"{csv} exists already; choose another name or remove it first.")
    corpus = World.load(name).sample(n, seed=seed)
    if csv is None:
        for line in corpus.texts:
            out.print(line, soft_wrap=True)
        return
    rows = corpus.distinct()
    rows.to_csv(csv)
    out.print(f"wrote {len(rows):,} distinct of {n:,} sentences to {csv}", soft_wrap=True)
