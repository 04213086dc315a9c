"""`equivocal multiverse`: run studies that differ in what the paper leaves open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from equivocal import console
from equivocal.console import out, show_note, show_rows, warn_quick
from equivocal.progress import err, progress
from lastlayer.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.multiverse.cluster import Hire

LOADING_PAUSE = 1.0  # seconds; the imports take several, and Python has taken one to start

Scheduler = Annotated[
    str | None,
    typer.Option(help="A running Dask scheduler to use instead, such as tcp://10.0.0.1:8786."),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this feature."""
    app.command(epilog=console.list_examples("multiverse"))(multiverse)


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
    workers: console.Workers = None,
    scheduler: Scheduler = None,
) -> None:
    """Test whether the effect depends on a choice that the paper leaves open, over a grid of them.

    Writes multiverse.csv and the specification curves. With --match, tests instead which printed
    facts of the paper are met under which choices, and writes matches.csv. An interrupted run is
    resumed by the same command, also on another machine.
    """
    with progress("match" if match else "multiverse", begin="loading", pause=LOADING_PAUSE):
        from equivocal.multiverse.cluster import hire_workers
        from equivocal.multiverse.grid import load_grid
        from equivocal.multiverse.run import run_multiverse

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
    from equivocal.multiverse.designs import load_design
    from equivocal.multiverse.run_match import match_paper

    design = load_design(grid, quick=quick, **numbers)
    with _exit_if_unfinished():
        result = match_paper(folder, design=design, hire=hire)
    for sentence in result.summary:
        out.print(sentence, soft_wrap=True)
    _show_shares(result.tables["variance"])
    out.print(f"wrote {folder / 'matches.csv'}, {folder / 'tables'} and {folder / 'figures'}")
    warn_quick(quick)


@contextmanager
def _exit_if_unfinished() -> Iterator[None]:
    """Exit with code 1 and a sentence if some points failed."""
    from equivocal.multiverse.tasks import UnfinishedError

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


def _show_frame(title: str, first: str, frame: "pd.DataFrame") -> None:
    """Show a table of texts, with the names of its rows in the first column."""
    rows = ([str(label), *cells] for label, cells in frame.iterrows())
    show_rows([first, *map(str, frame)], rows, title=title)
