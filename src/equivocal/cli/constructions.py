"""`equivocal constructions`: sentences with two readings, read by networks and by their doubt."""

from math import isnan
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from equivocal.cli.console import out, progress, show_table
from equivocal.cli.experiments import Quick, tell_written, training_of, write_tables
from equivocal.cli.training import Networks, Seed

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd

    from equivocal.gestalt import TrainingSettings
    from equivocal.suites.construction import Construction

__all__ = ["app"]

RUN_EXAMPLES = (
    "Examples: `equivocal constructions run`, `equivocal constructions run --only passive "
    "--networks 4 --out runs/passive`, `equivocal constructions run --quick`"
)
USUAL, QUICK = Path("runs/constructions"), Path("runs/constructions-quick")

app = typer.Typer(no_args_is_help=True, help="Passives, word order, attachment: two readings.")


@app.command("list")
def list_constructions() -> None:
    """The constructions that come with the package."""
    from equivocal.suites.construction import SHIPPED, load_construction

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
    networks: Networks = None,
    curve_networks: Annotated[
        int | None,
        typer.Option(min=1, help="Networks in the curves, which take eight posteriors each [all]."),
    ] = None,
    seed: Seed = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for networks, tables, figures [runs/constructions; "
            "-quick is added with --quick].",
        ),
    ] = None,
    quick: Quick = False,
) -> None:
    """Let networks and particles of their posteriors read sentences that have two readings.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/. A run that
    was stopped goes on where it was.
    """
    from equivocal.store.locks import hold_folder
    from equivocal.suites.construction import SHIPPED, load_construction
    from equivocal.suites.construction_settings import networks_in_curves, write_settings

    chosen = [load_construction(name) for name in dict.fromkeys(only or SHIPPED)]
    training = training_of(networks, seed, quick=quick)
    followed = networks_in_curves(curve_networks, training)
    place = folder or (QUICK if quick else USUAL)
    with hold_folder(place):
        for construction in chosen:
            began = perf_counter()
            readings = _read(construction, training, followed, place)
            tables = _write(construction, readings, followed, place)
            seconds = perf_counter() - began
            write_settings(place / "constructions.toml", construction, training, followed, seconds)
            _show(construction, tables)
    tell_written(place, quick=quick)


def _read(
    construction: "Construction", training: "TrainingSettings", followed: int, place: Path
) -> "pd.DataFrame":
    """Every item, read by every network and by particles of its posteriors."""
    import pandas as pd

    from equivocal.experiments.networks import train_or_load
    from equivocal.suites.construction import Reader
    from equivocal.suites.construction_settings import posteriors_of

    trained = train_or_load(
        construction.world, training, place / "networks" / construction.world.name
    )
    readers = [Reader(construction, trained, index, place) for index in range(training.networks)]
    usual, *curves = posteriors_of(construction, training.sentences)
    parts = [reader.trained() for reader in readers]
    tasks = [(reader, usual) for reader in readers]
    tasks += [(reader, posterior) for reader in readers[:followed] for posterior in curves]
    with progress(f"{construction.name}: posteriors") as advance:
        for number, (reader, posterior) in enumerate(tasks, start=1):
            parts.append(reader.posterior(*posterior))
            advance(number, len(tasks), f"network {reader.index}")
    return pd.concat(parts, ignore_index=True)


def _write(
    construction: "Construction", readings: "pd.DataFrame", followed: int, place: Path
) -> "dict[str, pd.DataFrame]":
    """Tables and figures of one construction; gives the tables."""
    from equivocal.report import save_figure
    from equivocal.report.construction_figures import curve_figure, reading_figure
    from equivocal.suites.construction import belief_table, share_table

    usual, name = _usual(readings), construction.name
    tables = {"readings": readings, "shares": share_table(usual), "beliefs": belief_table(usual)}
    figures = {name: reading_figure(tables["shares"], usual, construction)}
    if construction.curves:
        particles = readings["beliefs"].eq("posterior") & readings["network"].lt(followed)
        own = readings[particles & readings["condition"].isin(construction.curves)]
        tables["curves"] = share_table(own)
        figures[f"{name}_curves"] = curve_figure(tables["curves"], construction)
    write_tables(place / "tables", {f"{name}_{what}": table for what, table in tables.items()})
    for what, figure in figures.items():
        save_figure(figure, place / "figures", what)
    return tables


def _usual(table: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of the trained networks, and of particles under the usual prior that heard all."""
    from equivocal.suites.posteriors import VARIANCE

    heard_all = table["heard"] == table["heard"].max()
    chosen: pd.DataFrame = table[heard_all & table["variance"].isin((0.0, VARIANCE))]
    return chosen


def _show(construction: "Construction", tables: "dict[str, pd.DataFrame]") -> None:
    """The tables of one construction on the screen."""
    _show_readings(construction, tables["shares"], tables["beliefs"])
    rest = tables["readings"]["converged"]
    if not rest.all():
        some = f"{1 - rest.mean():.0%} of the readings"
        out.print(f"{some} are of posteriors that did not come to rest: column `converged`.")
    if construction.curves:
        _show_curves(tables["curves"])


def _show_readings(
    construction: "Construction", shares: "pd.DataFrame", beliefs: "pd.DataFrame"
) -> None:
    out.print(construction.title, style="bold")
    table = _table("condition", "items", "exact", "belief", "error")
    own = beliefs[beliefs["beliefs"] == "trained"].to_dict("records")
    for row in sorted(own, key=lambda row: list(construction.conditions).index(row["condition"])):
        numbers = (_number(row[name]) for name in ("exact", "belief", "error"))
        table.add_row(row["condition"], str(row["items"]), *numbers)
    show_table(table)
    cells = {(r["beliefs"], r["reading"], r["condition"]): r for r in shares.to_dict("records")}
    table = _table("rival %", "trained", "particles", "over networks", "over items", "neither")
    for condition in construction.conditions:
        rival = cells["posterior", "rival", condition]
        table.add_row(
            condition,
            _percent(cells["trained", "rival", condition]["share"]),
            *_share(rival),
            _percent(cells["posterior", "neither", condition]["share"]),
        )
    show_table(table)
    for condition, share in construction.people.items():
        out.print(f"people, {condition}: about {100 * share:.0f} % ({construction.sources[0]})")
    out.print(
        "Exact: the world's belief in the answer (–: the world never says this); belief: of the "
        f"{shares['networks'].iloc[0]} trained networks, with its mean distance from the exact "
        "one. Rival: share of trained networks that read it the other way; the same of particles, "
        "with conservative 95 % intervals over networks and over items (–: of a single one); and "
        "of particles that read it neither way.",
        style="dim",
    )


def _show_curves(shares: "pd.DataFrame") -> None:
    """The share of the rival reading along prior variances, then along sentences heard."""
    from equivocal.suites.posteriors import VARIANCE

    rival = shares[shares["reading"] == "rival"]
    all_heard = rival[rival["heard"] == rival["heard"].max()]
    usual = rival[rival["variance"] == VARIANCE]
    out.print(f"Curves, of {shares['networks'].iloc[0]} networks:")
    for column, title, rows in (
        ("variance", "prior variance", all_heard),
        ("heard", "sentences heard", usual),
    ):
        table = _table("rival %", title, "particles", "over networks", "over items")
        for row in rows.sort_values(["condition", column]).to_dict("records"):
            table.add_row(row["condition"], f"{row[column]:,g}", *_share(row))
        show_table(table)


def _table(first: str, *titles: str) -> Table:
    """Words on the left, numbers on the right."""
    table = Table(box=box.SIMPLE)
    table.add_column(first)
    for title in titles:
        table.add_column(title, justify="right")
    return table


def _share(row: "dict[Hashable, Any]") -> tuple[str, str, str]:
    """A share with its intervals over networks and over items."""
    ends = ((row[f"share_{over}_low"], row[f"share_{over}_high"]) for over in ("network", "item"))
    networks, items = (_interval(low, high) for low, high in ends)
    return _percent(row["share"]), networks, items


def _number(value: float) -> str:
    return "–" if isnan(value) else f"{value:.3f}"


def _percent(share: float) -> str:
    """Without decimals where it is exactly none or all, so that nearly all can be told from it."""
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}"


def _interval(low: float, high: float) -> str:
    return "–" if isnan(low) else f"{_percent(low)} to {_percent(high)}"
