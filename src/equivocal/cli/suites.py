"""`equivocal suites`: experiments as data, heard by trained networks."""

from enum import StrEnum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from equivocal import __version__
from equivocal.cli.console import out, progress
from equivocal.cli.training import Seed, train_or_reuse
from equivocal.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.gestalt import Run, TrainingSettings
    from equivocal.suites import Suite

__all__ = ["app"]

RUN_EXAMPLES = (
    "Examples: `equivocal suites run`, `equivocal suites run --suite reversal_anomaly --measure "
    "all`, `equivocal suites run --suite my_suite.toml --networks 4 --out runs/mine`"
)
USUAL, QUICK = Path("runs/suites"), Path("runs/suites-quick")
TEN, SMALL = 10, {"networks": 2, "epochs": 10, "sentences": 1_000}

app = typer.Typer(no_args_is_help=True, help="Paradigm suites: experiments as data.")


class Beliefs(StrEnum):
    """Whose beliefs are measured."""

    TRAINED = "trained"
    POSTERIOR = "posterior"


@app.command("list")
def list_suites() -> None:
    """The suites that come with the package."""
    from equivocal.suites import SHIPPED, load_suite

    table = Table(box=box.SIMPLE)
    table.add_column("suite", no_wrap=True)
    table.add_column("conditions")
    table.add_column("items", justify="right")
    table.add_column("after")
    for suite in map(load_suite, SHIPPED):
        first = suite.sources[0].partition("),")[0] + ")"
        table.add_row(suite.name, ", ".join(suite.conditions), str(len(suite.items)), first)
    out.print(table)


@app.command("run", epilog=RUN_EXAMPLES)
def run(
    names: Annotated[
        list[str] | None,
        typer.Option("--suite", help="A suite's name or a file.toml; repeatable [all]."),
    ] = None,
    networks: Annotated[int | None, typer.Option(min=1, help="How many networks [ten].")] = None,
    seed: Seed = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for networks, tables and figures [runs/suites]."),
    ] = None,
    measures: Annotated[
        list[str] | None,
        typer.Option("--measure", help="A measure, or `all`; repeatable [as the suite says]."),
    ] = None,
    beliefs: Annotated[
        Beliefs,
        typer.Option(help="Of the trained last layer, or of particles of its posterior."),
    ] = Beliefs.TRAINED,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two small networks: does it run? Not to be quoted.")
    ] = False,
) -> None:
    """Hear suites with trained networks, and say which findings held.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/.
    """
    from equivocal.gestalt import TrainingSettings
    from equivocal.locks import only_one
    from equivocal.suites import SHIPPED, load_suite

    wanted = _measures(measures or [])
    suites = [load_suite(name) for name in dict.fromkeys(names or SHIPPED)]
    if len({suite.name for suite in suites}) < len(suites):
        raise UserError("two suites have the same name; rename the file of one.")
    given = {"networks": networks, "seed": seed}
    training = TrainingSettings.from_dict(
        (SMALL if quick else {"networks": TEN})
        | {name: value for name, value in given.items() if value is not None}
    )
    chosen = folder or (QUICK if quick else USUAL)
    with only_one(chosen, "tables", "figures", "networks/*", "networks/*/networks"):
        words = _heard(suites, wanted, training, chosen, beliefs)
        _write(words, suites, chosen, beliefs)


def _measures(names: list[str]) -> list[str]:
    from equivocal.study.word_measures import MEASURES, check_measures

    if "all" in names:
        return list(MEASURES)
    check_measures(names)
    return list(dict.fromkeys(names))


def _heard(
    suites: "list[Suite]",
    wanted: list[str],
    training: "TrainingSettings",
    folder: Path,
    beliefs: Beliefs,
) -> "pd.DataFrame":
    """All words of all suites; networks are trained once for each world."""
    import pandas as pd

    from equivocal.reading import is_plain_name

    parts = []
    for world in {suite.world.fingerprint: suite.world for suite in suites}.values():
        if not is_plain_name(world.name):
            raise UserError(f"the world's name {world.name!r:.80} cannot name a folder; rename it.")
        here = [suite for suite in suites if suite.world.fingerprint == world.fingerprint]
        place = folder / "networks" / world.name
        run = train_or_reuse(world, training, place)
        for measure in wanted or dict.fromkeys(suite.measure for suite in here):
            own = [suite for suite in here if wanted or suite.measure == measure]
            parts.append(_measured(run, place, own, measure, beliefs))
    return pd.concat(parts, ignore_index=True)


def _measured(
    run: "Run", place: Path, suites: "list[Suite]", measure: str, beliefs: Beliefs
) -> "pd.DataFrame":
    from equivocal.study.word_measures import MEASURES
    from equivocal.suites import measure_words
    from equivocal.suites.posteriors import particles_of, sample_posteriors

    reads = MEASURES[measure].reads
    if reads == "gestalt" or (reads == "beliefs" and beliefs is Beliefs.TRAINED):
        return measure_words(run.networks, suites, [measure])
    with progress("posteriors") as advance:
        sample_posteriors(run, place, advance)
    return measure_words(run.networks, suites, [measure], lambda n: particles_of(place, n))


def _write(words: "pd.DataFrame", suites: "list[Suite]", folder: Path, beliefs: Beliefs) -> None:
    """Tables and figures, and the findings on the screen."""
    import tomli_w

    from equivocal.files import write_text_atomically
    from equivocal.report import save_figure
    from equivocal.report.suite_figures import overview_figure, suite_figure
    from equivocal.study.word_measures import MEASURES
    from equivocal.suites import condition_table, finding_table, network_means

    findings, means = finding_table(words, suites), network_means(words, suites)
    tables = {
        "words": words,
        "networks": means,
        "conditions": condition_table(words, suites),
        "findings": findings,
    }
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        write_text_atomically(folder / "tables" / f"{name}.csv", text)
    made_of = {
        "version": __version__,
        "suites": [suite.name for suite in suites],
        "measures": list(words["measure"].unique()),
        "beliefs": str(beliefs),
    }
    write_text_atomically(folder / "suites.toml", tomli_w.dumps(made_of))
    labels = {name: measure.title for name, measure in MEASURES.items()}
    for suite in suites:
        own = means[means["suite"] == suite.name]
        figure = suite_figure(own, list(suite.conditions), suite.title, labels)
        save_figure(figure, folder / "figures", suite.name)
    titles = {suite.name: suite.title for suite in suites}
    save_figure(overview_figure(findings, titles), folder / "figures", "overview")
    _show(findings)
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)


def _show(findings: "pd.DataFrame") -> None:
    from equivocal.study.word_measures import MEASURES

    for measure, rows in findings.groupby("measure", sort=False):
        kind = " (exploratory)" if MEASURES[str(measure)].exploratory else ""
        held = int((rows["verdict"] == "held").sum())
        out.print(f"{measure}{kind}: {held} of {len(rows)} held", style="bold")
        for row in rows.to_dict("records"):
            networks = _interval(row["network_low"], row["network_high"])
            items = _interval(row["item_low"], row["item_high"])
            ratio = f"{_number(row['ratio'])} (2018: {_number(row['published_ratio'])})"
            out.print(f"{row['verdict']:<16}{row['suite']}: {row['contrast']}", soft_wrap=True)
            effect = f"effect {_number(row['effect'])}, networks {networks}, items {items}"
            out.print(f"{'':<16}{effect}, ratio {ratio}", style="dim", soft_wrap=True)
    out.print(
        "Effect: the contrast of condition means, with 95 % intervals over "
        f"{findings['networks'].iloc[0]} networks and over items. Ratio: of the means, beside "
        "that of the networks published in 2018.",
    )


def _number(value: float) -> str:
    if isnan(value):
        return "–"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _interval(low: float, high: float) -> str:
    return "–" if isnan(low) else f"{_number(low)} to {_number(high)}"
