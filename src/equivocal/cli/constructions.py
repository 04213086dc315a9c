"""`equivocal constructions`: sentences with two readings, read by networks and by their doubt."""

from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from equivocal import __version__
from equivocal.cli.console import out, progress
from equivocal.cli.training import Seed, train_or_reuse

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.constructions import Construction
    from equivocal.gestalt import TrainingSettings

__all__ = ["app"]

RUN_EXAMPLES = (
    "Examples: `equivocal constructions run`, `equivocal constructions run --only passive "
    "--networks 4 --out runs/passive`, `equivocal constructions run --quick`"
)
USUAL, QUICK = Path("runs/constructions"), Path("runs/constructions-quick")
TEN, SMALL = 10, {"networks": 2, "epochs": 10, "sentences": 1_000}
VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0)
HEARD = (100, 300, 1_000, 3_000, 10_000)  # sentences; no more than the networks were trained on

app = typer.Typer(no_args_is_help=True, help="Passives, word order, attachment: two readings.")


@app.command("list")
def list_constructions() -> None:
    """The constructions that come with the package."""
    from equivocal.constructions import SHIPPED, load_construction

    table = Table(box=box.SIMPLE)
    table.add_column("construction", no_wrap=True)
    table.add_column("world", no_wrap=True)
    table.add_column("condition")
    table.add_column("items", justify="right")
    for construction in map(load_construction, SHIPPED):
        first = construction.name, construction.world.name
        for condition in construction.conditions:
            count = sum(item.condition == condition for item in construction.items)
            table.add_row(*first, condition, str(count))
            first = "", ""
    out.print(table)


@app.command("run", epilog=RUN_EXAMPLES)
def run(
    only: Annotated[
        list[str] | None, typer.Option(help="A construction's name; repeatable [all].")
    ] = None,
    networks: Annotated[int | None, typer.Option(min=1, help="How many networks [ten].")] = None,
    seed: Seed = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for networks, tables, figures [runs/constructions]."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small networks: does it run? Not to be quoted.")
    ] = False,
) -> None:
    """Let networks and particles of their posteriors read sentences that have two readings.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/.
    """
    from equivocal.constructions import SHIPPED, load_construction
    from equivocal.gestalt import TrainingSettings
    from equivocal.locks import only_one

    chosen = [load_construction(name) for name in dict.fromkeys(only or SHIPPED)]
    given = {"networks": networks, "seed": seed}
    training = TrainingSettings.from_dict(
        (SMALL if quick else {"networks": TEN})
        | {name: value for name, value in given.items() if value is not None}
    )
    place = folder or (QUICK if quick else USUAL)
    with only_one(place, "tables", "figures", "networks/*", "networks/*/networks"):
        for construction in chosen:
            _write(construction, _read(construction, training, place), place)
        _write_settings(chosen, training, place)
    out.print(f"wrote {place / 'tables'} and {place / 'figures'}", soft_wrap=True)


def _read(
    construction: "Construction", training: "TrainingSettings", place: Path
) -> "pd.DataFrame":
    """Every item, read by every network and by particles of its posteriors."""
    import pandas as pd

    from equivocal.constructions import Reader
    from equivocal.suites.posteriors import VARIANCE

    trained = train_or_reuse(
        construction.world, training, place / "networks" / construction.world.name
    )
    curves = [(v, training.sentences) for v in VARIANCES if v != VARIANCE]
    curves += [(VARIANCE, n) for n in HEARD if n < training.sentences]
    doubts = [(VARIANCE, training.sentences), *(curves if construction.curves else [])]
    parts = []
    with progress(f"{construction.name}: posteriors") as advance:
        for index in range(training.networks):
            reader = Reader(construction, trained, index)
            parts.append(reader.trained())
            for number, (variance, heard) in enumerate(doubts, start=1):
                parts.append(reader.posterior(variance, heard))
                done = index * len(doubts) + number
                advance(done, training.networks * len(doubts), f"network {index}")
    return pd.concat(parts, ignore_index=True)


def _write(construction: "Construction", readings: "pd.DataFrame", place: Path) -> None:
    """Tables and figures of one construction, and its table on the screen."""
    from equivocal.constructions import belief_table, share_table
    from equivocal.constructions.figures import curve_figure, reading_figure
    from equivocal.files import write_text_atomically
    from equivocal.report import save_figure

    name, shares, beliefs = construction.name, share_table(readings), belief_table(readings)
    for what, table in (("readings", readings), ("shares", shares), ("beliefs", beliefs)):
        text = table.to_csv(index=False, float_format="%.6g")
        write_text_atomically(place / "tables" / f"{name}_{what}.csv", text)
    usual = _usual(shares)
    figure = reading_figure(usual, _usual(readings), construction.title, construction.people)
    save_figure(figure, place / "figures", name)
    if construction.curves:
        followed = shares["condition"].isin(construction.curves)
        particles = shares[followed & (shares["beliefs"] == "posterior")]
        figure = curve_figure(particles, construction.title, construction.people)
        save_figure(figure, place / "figures", f"{name}_curves")
    _show(construction, usual, _usual(beliefs))
    if not readings["converged"].all():
        some = f"{1 - readings['converged'].mean():.0%} of the readings"
        out.print(f"{some} are of posteriors that did not come to rest: column `converged`.")
    if construction.curves:
        _show_curves(construction, shares)


def _write_settings(
    chosen: "list[Construction]", training: "TrainingSettings", place: Path
) -> None:
    import tomli_w

    from equivocal.constructions.reading import SAMPLER
    from equivocal.files import write_text_atomically
    from equivocal.suites.posteriors import VARIANCE

    made_of = {
        "version": __version__,
        "constructions": [construction.name for construction in chosen],
        "prior_variance": VARIANCE,
        "training": asdict(training),
        "sampler": SAMPLER.model_dump(exclude_none=True),
    }
    write_text_atomically(place / "constructions.toml", tomli_w.dumps(made_of))


def _usual(table: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of the trained networks, and of particles under the usual prior that heard all."""
    from equivocal.suites.posteriors import VARIANCE

    heard_all = table["heard"] == table["heard"].max()
    chosen: pd.DataFrame = table[heard_all & table["variance"].isin((0.0, VARIANCE))]
    return chosen


def _show(construction: "Construction", shares: "pd.DataFrame", beliefs: "pd.DataFrame") -> None:
    out.print(construction.title, style="bold")
    table = Table(box=box.SIMPLE)
    table.add_column("condition")
    titles = ("items", "exact", "belief", "error", "rival %", "of particles %")
    for title in (*titles, "over networks", "over items", "neither %"):
        table.add_column(title, justify="right")
    own = beliefs[beliefs["beliefs"] == "trained"].to_dict("records")
    belief = {row["condition"]: row for row in own}
    cells = {(r["beliefs"], r["reading"], r["condition"]): r for r in shares.to_dict("records")}
    for condition in construction.conditions:
        rival = cells["posterior", "rival", condition]
        table.add_row(
            condition,
            str(rival["items"]),
            *(_number(belief[condition][name]) for name in ("exact", "belief", "error")),
            _percent(cells["trained", "rival", condition]["share"]),
            _percent(rival["share"]),
            _interval(rival["share_network_low"], rival["share_network_high"]),
            _interval(rival["share_item_low"], rival["share_item_high"]),
            _percent(cells["posterior", "neither", condition]["share"]),
        )
    out.print(table)
    for condition, share in construction.people.items():
        out.print(f"people, {condition}: about {_percent(share)} % ({construction.sources[0]})")
    out.print(
        "Exact: the world's belief in the answer (–: the world never says this); belief: of the "
        f"{shares['networks'].iloc[0]} trained networks, with its mean distance from the exact "
        "one. Rival: share of trained networks that read it the other way; the same of particles "
        "(%), with 95 % intervals over networks and over items; and neither way.",
        style="dim",
    )


def _show_curves(construction: "Construction", shares: "pd.DataFrame") -> None:
    """The share of the rival reading along prior variances, then along sentences heard."""
    from equivocal.suites.posteriors import VARIANCE

    particles = shares[(shares["beliefs"] == "posterior") & (shares["reading"] == "rival")]
    all_heard = particles[particles["heard"] == particles["heard"].max()]
    usual = particles[particles["variance"] == VARIANCE]
    for column, rows in (("variance", all_heard), ("heard", usual)):
        table = Table(box=box.SIMPLE)
        table.add_column(f"rival (%) by {column}")
        values = sorted(rows[column].unique())
        for value in values:
            table.add_column(f"{value:,g}", justify="right")
        for condition in construction.curves:
            own = rows[rows["condition"] == condition]
            share = dict(zip(own[column], own["share"], strict=True))
            table.add_row(condition, *(_percent(share[value]) for value in values))
        out.print(table)


def _number(value: float) -> str:
    return "–" if isnan(value) else f"{value:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _interval(low: float, high: float) -> str:
    return "–" if isnan(low) else f"{_percent(low)} to {_percent(high)}"
