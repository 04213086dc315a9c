"""`equivocal suites`: experiments as data, heard by trained networks."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich import box
from rich.table import Table

from equivocal.cli.console import out, progress
from equivocal.cli.experiments import Quick, tell_written, training_of, write_tables
from equivocal.cli.training import Networks, Seed
from equivocal.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from equivocal.gestalt import Run, TrainingSettings
    from equivocal.suites import Suite

__all__ = ["app"]

RUN_EXAMPLES = (
    "Examples: `equivocal suites run`, `equivocal suites run --suite reversal_anomaly --measure "
    "all --out runs/reversal`, `equivocal suites run --suite my_suite.toml --networks 4 --out "
    "runs/mine`"
)
USUAL, QUICK = Path("runs/suites"), Path("runs/suites-quick")
FINISHED = "suites.toml"  # written last

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
    networks: Networks = None,
    seed: Seed = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for networks, tables and figures [runs/suites; "
            "-quick is added with --quick].",
        ),
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
    quick: Quick = False,
) -> None:
    """Hear suites with trained networks, and say which findings held.

    Trains the networks first, or uses those that are there. Writes tables/ and figures/, and last
    suites.toml: a folder that has it holds one whole run.
    """
    from equivocal.store.locks import hold_folder
    from equivocal.store.overwrite import announce_overwrite
    from equivocal.suites import SHIPPED, load_suite
    from equivocal.suites.measuring import SURPRISE
    from equivocal.suites.settings import COMPARED
    from equivocal.suites.telling import told

    wanted = _measures(measures or [])
    suites = [load_suite(name) for name in dict.fromkeys(names or SHIPPED)]
    if by_role and SURPRISE not in (wanted or [suite.measure for suite in suites]):
        raise UserError(f"--by-role is of {SURPRISE}; add --measure {SURPRISE}.")
    if len({suite.name for suite in suites}) < len(suites):
        raise UserError("two suites have the same name; rename the file of one.")
    training, asked = training_of(networks, seed, quick=quick), Asked(wanted, beliefs, by_role)
    made_of, began = _made_of(suites, asked, training), perf_counter()
    chosen = folder or (QUICK if quick else USUAL)
    with hold_folder(chosen):
        words = _heard(suites, asked, training, chosen)
        announce_overwrite(chosen / FINISHED, made_of, COMPARED)
        findings = _write(words, suites, chosen)
        _finish(chosen, made_of | {"seconds": round(perf_counter() - began, 3)})
    for text, style in told(findings):
        out.print(text, style=style, soft_wrap=True)
    tell_written(chosen, quick=quick)


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

    from equivocal.experiments.networks import train_or_load
    from equivocal.store import is_plain_name

    parts = []
    for world in {suite.world.fingerprint: suite.world for suite in suites}.values():
        if not is_plain_name(world.name):
            raise UserError(f"the world's name {world.name!r:.80} cannot name a folder; rename it.")
        place = folder / "networks" / world.name
        run = train_or_load(world, training, place)
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


def _made_of(suites: "list[Suite]", asked: Asked, training: "TrainingSettings") -> dict[str, Any]:
    from equivocal.suites.settings import settings_of

    own = asked.measures or [suite.measure for suite in suites]
    return settings_of(
        suites,
        asked.measures,
        str(asked.beliefs),
        training,
        by_role=asked.by_role,
        sampled=any(map(asked.needs_posterior, own)),
    )


def _write(words: "pd.DataFrame", suites: "list[Suite]", folder: Path) -> "pd.DataFrame":
    """Tables and figures; gives the findings."""
    from equivocal.report import save_figure
    from equivocal.report.suite_figures import overview_figure, suite_figure
    from equivocal.suites import condition_table, finding_table, network_means, word_table

    findings, means = finding_table(words, suites), network_means(words, suites)
    tables = {
        "words": words,
        "words_summary": word_table(words),
        "networks": means,
        "conditions": condition_table(words, suites),
        "findings": findings,
    }
    titles = {suite.name: suite.title for suite in suites}
    figures = {"overview": overview_figure(findings, titles)}
    for suite in suites:
        own = means[means["suite"] == suite.name]
        figures[suite.name] = suite_figure(own, list(suite.conditions), suite.title)
    _clear(folder, tables)
    write_tables(folder / "tables", tables)
    for name, figure in figures.items():
        save_figure(figure, folder / "figures", name)
    return findings


def _clear(folder: Path, tables: "Iterable[str]") -> None:
    """Remove what an earlier run wrote, its mark first, so that a stop leaves nothing mixed.

    Figures of a user's own suites stay: they cannot be told from other pictures.
    """
    from equivocal.report.style import KINDS
    from equivocal.store.files import explain_write_errors
    from equivocal.suites import SHIPPED

    old = [folder / FINISHED]
    old += [folder / "tables" / f"{name}.csv" for name in tables]
    old += [folder / "figures" / f"{name}.{kind}" for name in SHIPPED for kind in KINDS]
    for path in old:
        with explain_write_errors(path):
            path.unlink(missing_ok=True)


def _finish(folder: Path, made_of: dict[str, Any]) -> None:
    """The mark of a finished run."""
    import tomli_w

    from equivocal.store.files import write_text_atomically

    write_text_atomically(folder / FINISHED, tomli_w.dumps(made_of))
