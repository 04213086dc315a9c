"""`equivocal reproduce` and its stages: `infer`, `probe`, `analyse`, `report`; `study new`.

`equivocal multiverse` and `equivocal sweep` run many studies and compare what they found.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from equivocal.cli import console, worlds
from equivocal.cli.console import out, show_note, show_rows, show_summary, warn_quick
from equivocal.errors import UserError
from equivocal.progress import err, progress

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.study.cluster import Hire

PAPER, QUICK = Path("runs/paper"), Path("runs/quick")
LOADING_PAUSE = 1.0  # seconds; the imports take several, and Python has taken one to start

app = typer.Typer(no_args_is_help=True, help="Studies of your own.")
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Worker processes on this machine [one for each core]."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="A running Dask scheduler to use instead, such as tcp://10.0.0.1:8786."),
]


def reproduce(
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the results [runs/paper; --quick: runs/quick]."),
    ] = None,
    quick: console.Quick = False,
    preset: Annotated[str, typer.Option(help="A study of the package.")] = "paper",
    study: Annotated[
        Path | None, typer.Option(help="A study file of your own instead (see `study new`).")
    ] = None,
    networks: console.Networks = None,
    seed: console.Seed = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any setting of the study, as `nuts.draws=500`; repeatable."),
    ] = None,
    workers: Workers = None,
) -> None:
    """Run a whole study, by default the paper: networks, posteriors, tables, figures, report.

    Finished results are reused: an interrupted run is resumed, and a changed setting
    repeats only what depends on it.
    """
    from equivocal.experiments.studies import run_study
    from equivocal.study.settings import parse_changes

    changes = parse_changes(others or [])
    given = {"training.networks": networks, "training.seed": seed}
    changes |= {name: value for name, value in given.items() if value is not None}
    chosen = folder or (QUICK if quick else PAPER)
    how: dict[str, Any] = {"quick": quick, "changes": changes, "workers": workers}
    result = run_study(study or preset, chosen, **how)
    show_summary(result.summary)
    worlds.show_scores(result.run)
    out.print(f"wrote {chosen / 'tables'} and {chosen / 'figures'}", soft_wrap=True)
    out.print(f"the report is {result.report}", soft_wrap=True)


def infer(folder: console.Folder = PAPER) -> None:
    """Sample the posteriors of a study's trained networks."""
    from equivocal.experiments import studies

    studies.infer(folder)


def probe(folder: console.Folder = PAPER) -> None:
    """Compute activations of networks and posteriors, word by word; writes activations.nc."""
    from equivocal.experiments import studies

    studies.probe(folder)


def analyse(folder: console.Folder = PAPER) -> None:
    """Compute statistics of the activations; writes tables/ and claims.csv."""
    from equivocal.experiments import studies

    studies.analyse(folder)


def report(folder: console.Folder = PAPER) -> None:
    """Draw the figures and write report.html."""
    from equivocal.experiments import studies

    out.print(f"the report is {studies.report(folder).report}", soft_wrap=True)


@app.command("new")
def new(
    path: Annotated[Path, typer.Argument(help="The file to write, ending in .toml.")],
) -> None:
    """Write a commented example study and its stimulus file, to start from."""
    from equivocal.study.settings import write_example

    stimuli = write_example(path)
    out.print(
        f"wrote {path} and {stimuli}; run it with `equivocal reproduce --study {path} --out "
        f"runs/{path.stem}`",
        soft_wrap=True,
    )


def multiverse(
    grid: Annotated[
        str | None,
        typer.Option(
            help="small (minutes), full (hours; resumes), match (with --match), or a file.toml "
            "[small, or match]."
        ),
    ] = None,
    folder: console.Folder = Path("runs/multiverse"),
    networks: Annotated[
        int | None, typer.Option(min=1, help="How many networks [as the grid says].")
    ] = None,
    match: Annotated[
        bool, typer.Option("--match", help="Which specifications replicate which results?")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="With --match: only check that the command works, with small networks; do not "
            "report.",
        ),
    ] = False,
    trainings: Annotated[
        int | None, typer.Option(min=1, help="With --match: how many trainings are tried.")
    ] = None,
    posteriors: Annotated[
        int | None, typer.Option(min=1, help="With --match: how many posteriors for each.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=0, help="With --match: rounds of refinement.")
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Test whether the effect depends on a choice that the paper leaves open, over a grid of them.

    Writes multiverse.csv and the specification curves. With --match, tests instead which printed
    facts of the paper are met under which choices, and writes matches.csv. An interrupted run is
    resumed by the same command, also on another machine.
    """
    with progress("match" if match else "multiverse", begin="loading", pause=LOADING_PAUSE):
        from equivocal.experiments.grids import run_multiverse
        from equivocal.study.cluster import hire_workers
        from equivocal.study.grids import load_grid

    hire = hire_workers(folder, workers, scheduler)
    if match:
        numbers = {"trainings": trainings, "posteriors": posteriors, "rounds": rounds}
        _match(grid or "match", folder, hire, networks=networks, quick=quick, **numbers)
        return
    if quick or trainings or posteriors or rounds is not None:
        raise UserError("--quick, --trainings, --posteriors and --rounds go with --match; add it.")
    the_grid = load_grid(grid or "small", networks)
    with _exit_if_unfinished():
        result = run_multiverse(the_grid, folder, hire=hire)
    _show_effects(result.tables["effects"], len(result.tables["multiverse"]))
    _show_shares(result.tables["variance"])
    show_note("choices", counts=result.summary[0])
    out.print(f"wrote {folder / 'multiverse.csv'} and {folder / 'figures'}", soft_wrap=True)


def _match(grid: str, folder: Path, hire: "Hire", *, quick: bool, **numbers: int | None) -> None:
    """Run a design and print what was found, the answer first."""
    from equivocal.experiments.matching import match_paper
    from equivocal.study.designs import load_design

    design = load_design(grid, quick=quick, **numbers)
    with _exit_if_unfinished():
        result = match_paper(folder, design=design, hire=hire)
    for sentence in result.summary:
        out.print(sentence, soft_wrap=True)
    _show_shares(result.tables["variance"])
    out.print(f"wrote {folder / 'matches.csv'}, {folder / 'tables'} and {folder / 'figures'}")
    warn_quick(quick)


def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="A file.toml that says what is varied; or use --vary.")
    ] = None,
    folder: console.Folder = Path("runs/sweep"),
    preset: Annotated[
        str | None, typer.Option(help="A study of the package, or a file.toml [paper].")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Only check that the command works, with small studies; do not report."
        ),
    ] = False,
    vary: Annotated[
        list[str] | None,
        typer.Option(help="A setting and its values, as `training.seed=0,1,2`; repeatable."),
    ] = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Run a study many times, with some of its settings varied in all combinations.

    Writes sweep.csv, a row for every point and claim, all tables in tables/, and varied.toml, which
    says what was varied. An interrupted sweep is resumed by the same command, also on another
    machine.
    """
    with progress("sweep", begin="loading", pause=LOADING_PAUSE):
        from equivocal.experiments.grids import run_sweep
        from equivocal.study.cluster import hire_workers
        from equivocal.study.grids import load_sweep, make_sweep, parse_varied

    if file is None:
        grid = make_sweep(preset or "paper", parse_varied(vary or []), quick=quick)
    elif preset or quick or vary:
        raise UserError(f"{file} says what is varied; leave out --preset, --quick and --vary.")
    else:
        grid = load_sweep(file)
    with _exit_if_unfinished():
        result = run_sweep(grid, folder, hire=hire_workers(folder, workers, scheduler))
    _show_verdicts(result.tables["sweep"], len(grid.points))
    out.print(f"wrote {folder / 'sweep.csv'} and {folder / 'tables'}", soft_wrap=True)
    warn_quick(grid.quick)


@contextmanager
def _exit_if_unfinished() -> Iterator[None]:
    """Exit with code 1 and a sentence if some points failed."""
    from equivocal.study.tasks import UnfinishedError

    try:
        yield
    except UnfinishedError as error:
        err.print(Text.assemble(("not finished: ", "bold red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from None


def _show_effects(effects: "pd.DataFrame", specifications: int) -> None:
    """Show how the effect is distributed over specifications."""
    import pandas as pd

    columns = {
        f"indicated {found['role']}": {
            "positive": f"{found['share_positive']:.0%}",
            "interval above zero": f"{found['share_interval_above']:.0%}".replace("nan%", "–"),
            **{name: f"{found[name]:.2g}" for name in ("smallest", "median", "largest")},
        }
        for found in effects.to_dict("records")
    }
    title = f"the effect under {specifications} specifications"
    _show_frame(title, "activation, Bayesian − MLE", pd.DataFrame(columns))


def _show_shares(shares: "pd.DataFrame") -> None:
    """Show how much of the variance each choice explains."""
    rows = shares.to_dict("records")
    texts = ["{share:z.0%} [{low:z.0%}, {high:z.0%}]".format_map(row) for row in rows]  # no -0%
    texts = [text.removesuffix(" [nan%, nan%]") for text in texts]  # with few trainings
    wide = shares.assign(text=texts).pivot(index="choice", columns="outcome", values="text")
    wide = wide.loc[shares["choice"].unique(), shares["outcome"].unique()]
    wide.columns = wide.columns.str.replace("_", ", ")
    _show_frame("share of the variance that each choice explains alone", "choice", wide.fillna(""))
    show_note("shares")


def _show_verdicts(claims: "pd.DataFrame", points: int) -> None:
    """Show how often each claim received each verdict."""
    import pandas as pd

    number = f"{points} point{'s' if points > 1 else ''}"
    if "verdict" not in claims:
        out.print(f"{number}; only the paper's study has claims to judge")
        return
    counts = pd.crosstab(claims["id"], claims["verdict"]).astype(str).replace("0", "")
    shown = counts.loc[claims["id"].unique(), claims["verdict"].unique()]
    _show_frame(f"verdicts over {number}", "claim", shown)


def _show_frame(title: str, first: str, frame: "pd.DataFrame") -> None:
    """Show a table of texts, with the names of its rows in the first column."""
    rows = ([str(label), *cells] for label, cells in frame.iterrows())
    show_rows([first, *map(str, frame)], rows, title=title)
