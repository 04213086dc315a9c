"""`equivocal train`, and what `equivocal reproduce` shares with it."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from equivocal.cli.console import name_device, out, progress, show_table
from equivocal.errors import UserError, join_names

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.cli.console import Advance
    from equivocal.gestalt import EpochReport, OnEpoch, Run, TrainingSettings
    from equivocal.world import World

__all__ = [
    "TRAIN_EXAMPLES",
    "Folder",
    "Networks",
    "Quick",
    "Seed",
    "show_scores",
    "train",
    "train_or_reuse",
]

TRAIN_EXAMPLES = (
    "Examples: `equivocal train --world paper --networks 10 --seed 0 --out runs/ten`, "
    "`equivocal train --world my.toml --networks 2 --sentences 1000 --out runs/mine`, "
    "`equivocal train --folds 5 --networks 1 --set weight_decay=0.01 --out runs/folds`"
)

Folder = Annotated[Path, typer.Option("--out", help="Folder for the results; made if needed.")]
Networks = Annotated[
    int | None, typer.Option(min=1, help="How many networks, trained side by side [ten].")
]
Seed = Annotated[int | None, typer.Option(min=0, help="The same seed gives the same networks [0].")]
Quick = Annotated[
    bool, typer.Option("--quick", help="Two small networks: does it run? Not to be quoted.")
]


def train(
    world: Annotated[str, typer.Option(help="A world's name, or the path of a file.")] = "paper",
    networks: Networks = None,
    seed: Seed = None,
    folder: Folder = Path("runs/train"),
    sentences: Annotated[
        int | None, typer.Option(min=2, help="Sentences in the corpus [10,000].")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="At most so many epochs [60].")] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other training setting, as `hidden=50`; may be repeated."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(min=2, help="Cross-validate with so many folds instead.")
    ] = None,
) -> None:
    """Train networks in a world and save them.

    Writes weights (safetensors), settings (TOML), curves and scores (CSV). A run that is already
    there with the same settings is reused.
    """
    from equivocal.gestalt import TrainingSettings
    from equivocal.store.locks import hold_folder
    from equivocal.world import World

    named = {"networks": networks, "seed": seed, "sentences": sentences, "epochs": epochs}
    given = {name: value for name, value in named.items() if value is not None}
    more = TrainingSettings.parse(others or [])
    if twice := given.keys() & more.keys():
        raise UserError(f"{join_names(sorted(twice))} is given twice; give it once.")
    settings = TrainingSettings.from_dict(given | more)
    the_world = World.load(world)
    with hold_folder(folder):
        if folds is not None:
            _cross_validate(the_world, settings, folds, folder)
            return
        show_scores(train_or_reuse(the_world, settings, folder))
    out.print(
        f"saved in {folder}; `Network.load({str(folder)!r}, 0)` loads the first", soft_wrap=True
    )


def train_or_reuse(world: "World", settings: "TrainingSettings", folder: Path) -> "Run":
    """The run with these settings: found in the folder, or trained into it."""
    from equivocal.gestalt import Run, train

    found = Run.find(folder, world, settings)
    if found is not None:
        out.print(f"{folder} holds this run already; using it", soft_wrap=True)
        _mend_scores(found, folder)
        return found
    what = f"training {settings.networks} network{'s' if settings.networks > 1 else ''}"
    with progress(what) as advance:
        run = train(world, settings, on_epoch=_reporting(advance))
    run.save(folder)
    out.print(f"trained {settings.networks} in {run.seconds:.0f} s{name_device()}")
    return run


def _mend_scores(run: "Run", folder: Path) -> None:
    """Write scores.csv again if it is lost or says something else than the networks."""
    from pandas.testing import assert_frame_equal

    from equivocal.store import read_table

    path = folder / "scores.csv"
    if path.exists():
        try:
            table = read_table(path).set_index(run.scores.index.name)
            assert_frame_equal(table, run.scores, rtol=1e-3)  # another processor rounds otherwise
        except (ValueError, KeyError, AssertionError):
            warnings.warn(f"{path} is not as it was written; it is written again.", stacklevel=2)
        else:
            return
    run.write_scores(folder)


def _cross_validate(world: "World", settings: "TrainingSettings", folds: int, folder: Path) -> None:
    from equivocal.gestalt import cross_validate
    from equivocal.gestalt.storage import write_settings
    from equivocal.store.files import ensure_writable, write_text_atomically

    path = folder / "cross_validation.csv"
    if path.exists() or (folder / "run.toml").exists():
        raise UserError(f"{folder} holds results already; choose another folder.")
    ensure_writable(folder)
    with progress(f"{folds}-fold cross-validation") as advance:
        curves = cross_validate(
            world, settings, folds=folds, on_epoch=_reporting(advance, rounds=folds)
        )
    write_settings(folder / "cross_validation.toml", world, settings, folds=folds)
    write_text_atomically(path, curves.to_csv(index=False))
    best = curves.loc[curves.groupby(["fold", "network"])["test_loss"].idxmin()]
    _show_scores(
        best.groupby("fold")[["epoch", "train_loss", "test_loss", "test_accuracy"]].mean(),
        "best epoch of each fold, mean over networks",
    )
    out.print(f"wrote {path}", soft_wrap=True)


def _reporting(advance: "Advance", rounds: int = 1) -> "OnEpoch":
    """Epoch reports turned into progress; `rounds` trainings follow one another."""
    done_rounds, last = 0, 0

    def on_epoch(report: "EpochReport", epochs: int) -> None:
        nonlocal done_rounds, last
        done_rounds += report.epoch <= last  # a new round starts at epoch 1
        last = report.epoch
        state = f"held-out loss {report.test_loss.mean():.3f}"
        advance(done_rounds * epochs + report.epoch, rounds * epochs, state)

    return on_epoch


def show_scores(run: "Run") -> None:
    """A table of how well each network ended."""
    title = f"what the networks know of world {run.world.name}"
    _show_scores(run.scores, title, means=len(run.scores) > 1)
    out.print(
        "On held-out sentences: unit accuracy (all zeros for comparison) and exact match of "
        "whole answers (beside the score of always giving the likeliest). Against the exact "
        "probabilities: belief error, the mean distance over possible units, and certain right, "
        "every unit right where the truth is certain."
        + ("" if run.world.is_exact else " The world is too large to know its truth: nan."),
        style="dim",
    )


def _show_scores(frame: "pd.DataFrame", title: str, *, means: bool = False) -> None:
    table = Table(title=title, title_justify="left")
    for column in [frame.index.name, *frame.columns]:
        table.add_column(str(column).replace("_", "\n"), justify="right", vertical="bottom")
    for label, row in frame.iterrows():
        cells = (f"{v:.1f}" if name == "epoch" else f"{v:.4f}" for name, v in row.items())
        table.add_row(str(label), *cells)
    if means:
        table.add_section()
        table.add_row("mean", *(f"{value:.4f}" for value in frame.mean()))
    show_table(table)
