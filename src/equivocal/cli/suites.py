"""`equivocal suites`: experiments as data, heard by trained networks."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich import box
from rich.table import Table

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


class Asked(NamedTuple):
    """What is measured, and how."""

    measures: list[str]  # empty: as each suite says
    beliefs: Beliefs
    by_role: bool

    def needs_posterior(self, measure: str) -> bool:
        """Whether a measure is of particles."""
        from equivocal.study.word_measures import MEASURES

        reads = MEASURES[measure].reads
        return reads == "ensemble" or (reads == "beliefs" and self.beliefs is Beliefs.POSTERIOR)


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
        conditions = ", ".join(suite.conditions)
        table.add_row(suite.name, conditions, str(len(suite.items)), suite.after)
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
    by_role: Annotated[
        bool,
        typer.Option("--by-role", help="Bayesian surprise about each role as well, in words.csv."),
    ] = False,
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
    from equivocal.suites.measuring import SURPRISE

    wanted = _measures(measures or [])
    suites = [load_suite(name) for name in dict.fromkeys(names or SHIPPED)]
    if by_role and SURPRISE not in (wanted or [suite.measure for suite in suites]):
        raise UserError(f"--by-role is of {SURPRISE}; add --measure {SURPRISE}.")
    if len({suite.name for suite in suites}) < len(suites):
        raise UserError("two suites have the same name; rename the file of one.")
    given = {"networks": networks, "seed": seed}
    training = TrainingSettings.from_dict(
        (SMALL if quick else {"networks": TEN})
        | {name: value for name, value in given.items() if value is not None}
    )
    chosen = folder or (QUICK if quick else USUAL)
    owned = ("networks/*", "networks/*/networks", "networks/*/posteriors/*")
    asked = Asked(wanted, beliefs, by_role)
    with only_one(chosen, "tables", "figures", *owned):
        words = _heard(suites, asked, training, chosen)
        _write(words, suites, chosen, _made_of(words, suites, asked, training))


def _measures(names: list[str]) -> list[str]:
    from equivocal.study.word_measures import MEASURES, check_measures

    if "all" in names:
        return list(MEASURES)
    check_measures(names)
    return list(dict.fromkeys(names))


def _heard(
    suites: "list[Suite]", asked: Asked, training: "TrainingSettings", folder: Path
) -> "pd.DataFrame":
    """All words of all suites; networks are trained once for each world."""
    import pandas as pd

    from equivocal.reading import is_plain_name

    parts = []
    for world in {suite.world.fingerprint: suite.world for suite in suites}.values():
        if not is_plain_name(world.name):
            raise UserError(f"the world's name {world.name!r:.80} cannot name a folder; rename it.")
        place = folder / "networks" / world.name
        run = train_or_reuse(world, training, place)
        together: dict[tuple[str, ...], list[Suite]] = {}
        for suite in suites:
            if suite.world.fingerprint == world.fingerprint:
                together.setdefault(tuple(asked.measures or [suite.measure]), []).append(suite)
        for measures, own in together.items():
            parts += _measured(run, place, own, measures, asked)
    return pd.concat(parts, ignore_index=True)


def _measured(
    run: "Run", place: Path, suites: "list[Suite]", measures: tuple[str, ...], asked: Asked
) -> "list[pd.DataFrame]":
    """One pass for what the networks say as they are, one for what their particles say."""
    from equivocal.suites import measure_words
    from equivocal.suites.posteriors import particles_of, sample_posteriors

    drawn = [measure for measure in measures if asked.needs_posterior(measure)]
    others = [measure for measure in measures if measure not in drawn]
    parts = []
    if others:
        parts.append(measure_words(run.networks, suites, others, by_role=asked.by_role))
    if drawn:
        with progress("posteriors") as advance:
            sample_posteriors(run, place, advance)
        particles = partial(particles_of, place)
        heard = measure_words(run.networks, suites, drawn, particles, by_role=asked.by_role)
        parts.append(heard)
    return parts


def _made_of(
    words: "pd.DataFrame", suites: "list[Suite]", asked: Asked, training: "TrainingSettings"
) -> dict[str, Any]:
    from equivocal.suites.settings import settings_of

    own = asked.measures or [suite.measure for suite in suites]
    sampled = any(map(asked.needs_posterior, own))
    measures = list(words["measure"].unique())
    return settings_of(suites, measures, str(asked.beliefs), training, sampled=sampled)


def _write(
    words: "pd.DataFrame", suites: "list[Suite]", folder: Path, made_of: dict[str, Any]
) -> None:
    """Tables and figures, and the findings on the screen."""
    import tomli_w

    from equivocal.files import write_text_atomically
    from equivocal.report import save_figure
    from equivocal.report.suite_figures import overview_figure, suite_figure
    from equivocal.study.word_measures import MEASURES
    from equivocal.suites import condition_table, finding_table, network_means, word_table
    from equivocal.suites.telling import told

    findings, means = finding_table(words, suites), network_means(words, suites)
    tables = {
        "words": words,
        "words_summary": word_table(words),
        "networks": means,
        "conditions": condition_table(words, suites),
        "findings": findings,
    }
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        write_text_atomically(folder / "tables" / f"{name}.csv", text)
    write_text_atomically(folder / "suites.toml", tomli_w.dumps(made_of))
    labels = {name: measure.title for name, measure in MEASURES.items()}
    for suite in suites:
        own = means[means["suite"] == suite.name]
        figure = suite_figure(own, list(suite.conditions), suite.title, labels)
        save_figure(figure, folder / "figures", suite.name)
    titles = {suite.name: suite.title for suite in suites}
    save_figure(overview_figure(findings, titles), folder / "figures", "overview")
    for text, style in told(findings):
        out.print(text, style=style, soft_wrap=True)
    out.print(f"wrote {folder / 'tables'} and {folder / 'figures'}", soft_wrap=True)
