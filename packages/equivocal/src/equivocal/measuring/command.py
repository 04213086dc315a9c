"""`equivocal suites`: experiments as data, run with trained networks.

`equivocal constructions` runs the constructions among them, in a folder of their own.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.table import Column

from equivocal import console
from equivocal.console import make_table, out, show_frame, show_note, show_results

CurveNetworks = Annotated[
    int | None,
    typer.Option(
        min=1, help="Networks in a construction's curves, which take eight posteriors each [all]."
    ),
]

suites = typer.Typer(no_args_is_help=True, help="Paradigms and constructions: experiments as data.")
constructions = typer.Typer(
    no_args_is_help=True, help="Passives, word order, attachment: two readings."
)


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.add_typer(suites, name="suites")
    app.add_typer(constructions, name="constructions")


@suites.command("list")
def list_suites() -> None:
    """List the suites that come with the package: paradigms, then constructions."""
    from equivocal.measuring.suite import PARADIGMS, load_suite

    name, items = Column("suite", no_wrap=True), Column("items", justify="right")
    rows = (
        (suite.name, ", ".join(suite.conditions), str(len(suite.items)), suite.after)
        for suite in map(load_suite, PARADIGMS)
    )
    out.print(make_table((name, "conditions", items, "after"), rows, box=box.SIMPLE))
    list_constructions()


@suites.command("run", epilog=console.list_examples("suites run"))
def run(
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--suite", help="A paradigm, a construction or a file.toml; repeatable [all paradigms]."
        ),
    ] = None,
    networks: console.Networks = None,
    seed: console.Seed = None,
    recipe: console.Recipe = None,
    folder: console.QuickFolder = None,
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", help="A measure, or `all`; repeatable [as the suite says]."),
    ] = None,
    beliefs: Annotated[
        Literal["posterior", "trained"],
        typer.Option(help="Beliefs of the converged posterior's particles, or as trained."),
    ] = "posterior",
    by_role: Annotated[
        bool,
        typer.Option("--by-role", help="Bayesian surprise about each role as well, in words.csv."),
    ] = False,
    curve_networks: CurveNetworks = None,
    quick: console.Quick = False,
) -> None:
    """Run suites with trained networks, and report which findings held.

    Trains the networks first, or reuses those in the folder. Writes tables/ and figures/, and
    finally suites.toml, which marks the run as complete.
    """
    from equivocal.measuring.run import measure

    chosen = folder or Path("runs/suites-quick" if quick else "runs/suites")
    result = measure(
        names,
        chosen,
        quick=quick,
        networks=networks,
        seed=seed,
        recipe=recipe,
        measures=measures or (),
        beliefs=beliefs,
        by_role=by_role,
        curve_networks=curve_networks,
    )
    show_results(result.summary, chosen, quick=quick)


@suites.command("compare", epilog=console.list_examples("suites compare"))
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders that `suites run` has written.")],
    folder: console.Folder = Path("runs/suites-compared"),
) -> None:
    """Compare runs of the same suites, such as networks of two recipes, with the results of 2018.

    Writes tables/compared.csv and figures/compared.png, and says for each run how many published
    directions hold and how many published ratios lie inside its interval.
    """
    from equivocal.measuring.signals import compare_suites

    show_results(compare_suites(folders, folder).summary, folder, quick=False)


@suites.command("signals", epilog=console.list_examples("suites signals"))
def measure_signals(
    names: Annotated[
        list[Path] | None,
        typer.Option("--suite", help="A suite file; repeatable [role reversals in both_ways]."),
    ] = None,
    networks: Annotated[
        int | None,
        typer.Option(
            min=0, help="Networks with noise, and as many without [ten]; 0: the ideal alone."
        ),
    ] = None,
    seed: console.Seed = None,
    folder: console.QuickFolder = None,
    quick: console.Quick = False,
) -> None:
    """Exploratory: N400-like and P600-like signals at every word, for the ideal and for networks.

    In worlds with noise: how far each word moves the inferred meaning, and how far that departs
    from the literal one. Writes tables/words.csv, tables/findings.csv and figures/.
    """
    from equivocal.measuring import signals

    chosen = folder or Path("runs/signals-quick" if quick else "runs/signals")
    result = signals.measure_signals(
        chosen, suites=names or (), quick=quick, networks=networks, seed=seed
    )
    out.print(result.summary[0], style="bold", soft_wrap=True)
    cells = {
        "suite": "{suite}",
        "signal": "{signal}",
        "finding, as the suite states it": "{finding}",
    }
    cells |= {"comprehender": "{comprehender}", "effect": "{effect:.3f}"}
    cells |= {"least": "{least:.3f}", "greatest": "{greatest:.3f}", "verdict": "{verdict}"}
    table = result.tables["findings"].sort_values(["suite", "signal"], kind="stable")
    show_frame(table, cells, left=4, box=box.SIMPLE)
    show_note("signals")
    show_results(result.summary[1:], chosen, quick=quick)


@constructions.command("list")
def list_constructions() -> None:
    """List the constructions that come with the package."""
    from equivocal.measuring.suite import CONSTRUCTIONS, load_construction

    name, world = (Column(head, no_wrap=True) for head in ("construction", "world"))
    rows = []
    for construction in map(load_construction, CONSTRUCTIONS):
        first = construction.name, construction.world.name
        for condition in construction.conditions:
            count = sum(item.condition == condition for item in construction.items)
            rows.append((*first, condition, str(count)))
            first = "", ""
    items = Column("items", justify="right")
    out.print(make_table((name, world, "condition", items), rows, box=box.SIMPLE))


@constructions.command("run", epilog=console.list_examples("constructions run"))
def run_constructions(
    only: Annotated[
        list[str] | None, typer.Option(help="A construction's name; repeatable [all].")
    ] = None,
    networks: console.Networks = None,
    curve_networks: CurveNetworks = None,
    seed: console.Seed = None,
    folder: console.QuickFolder = None,
    quick: console.Quick = False,
) -> None:
    """Find out how networks and particles of their posteriors read sentences with two readings.

    Trains the networks first, or reuses those in the folder. Writes tables/ and figures/. An
    interrupted run is resumed by the same command.
    """
    from equivocal.measuring.run import measure
    from equivocal.measuring.suite import CONSTRUCTIONS, check_construction

    chosen = folder or Path("runs/constructions-quick" if quick else "runs/constructions")
    result = measure(
        [check_construction(name) for name in only or CONSTRUCTIONS],
        chosen,
        quick=quick,
        networks=networks,
        seed=seed,
        curve_networks=curve_networks,
    )
    show_results(result.summary, chosen, quick=quick)
