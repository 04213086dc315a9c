"""The networks that an experiment starts from: loaded from its folder, or trained into it.

`QUICK` may be changed. Runs of networks and their files are defined in `equivocal.network`.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from equivocal.machine import describe_device
from equivocal.network import EpochReport, OnEpoch, Run, TrainingSettings, runs
from equivocal.network.storage import write_settings
from equivocal.progress import Advance, announce, progress
from equivocal.store import read_table
from equivocal.store.folders import has_run
from equivocal.world import World
from lastlayer.errors import UserError
from lastlayer.files import ensure_writable, write_text_atomically
from lastlayer.seeds import Seed, choose_seed

__all__ = ["report_epochs", "save_cross_validation", "select_best_epochs", "train_or_load"]

# only to check that a command works; results are not to be reported
QUICK = {"networks": 2, "epochs": 5, "sentences": 1_000, "hidden": 30, "gestalt": 30}


def choose_training(
    networks: int | None = None,
    seed: Seed | None = None,
    *,
    recipe: str | None = None,
    quick: bool = False,
) -> TrainingSettings:
    """Return the settings of a recipe, or those of `QUICK`; arguments take precedence over both."""
    seed = None if seed is None else choose_seed(seed)
    named = {"networks": networks, "seed": seed, "recipe": recipe}
    given = {name: value for name, value in named.items() if value is not None}
    return TrainingSettings.from_dict((QUICK if quick else {}) | given)


def train_or_load(
    world: World, settings: TrainingSettings, folder: Path, *, dropout: float = 0.0
) -> Run:
    """Load the run with these settings from a folder, or train it and save it there.

    Damaged networks are named in a warning and trained again; a `scores.csv` that is missing or
    disagrees with the networks is written again.

    Parameters
    ----------
    world : World
        The world that the networks learn.
    settings : TrainingSettings
        The settings of training.
    folder : Path
        The folder of the run.
    dropout : float
        Rate of dropout during training; networks with dropout need a folder of their own.

    Returns
    -------
    Run
        The trained networks.

    Raises
    ------
    UserError
        If the folder holds a run with other settings, or files that do not belong to a run.
    """
    found = Run.find(folder, world, settings)
    if found is not None:
        announce(f"{folder} holds this run already; using it")
        _repair_scores(found, folder / "scores.csv")
        return found
    what = f"training {settings.networks} network{'s' if settings.networks > 1 else ''}"
    with progress(what, begin="compiling") as advance:
        run = runs.train(world, settings, on_epoch=report_epochs(advance), dropout=dropout)
        run.save(folder)
    announce(f"trained {settings.networks} in {run.seconds:.0f} s{describe_device()}")
    return run


def _repair_scores(run: Run, path: Path) -> None:
    """Write `scores.csv` again if it is missing or disagrees with the networks."""
    from pandas.testing import assert_frame_equal

    if path.exists():
        try:
            table = read_table(path).set_index(run.scores.index.name)
            assert_frame_equal(table, run.scores, rtol=1e-3)  # processors round differently
        except (ValueError, KeyError, AssertionError):
            warnings.warn(f"{path} disagrees with the networks; it is written again.", stacklevel=3)
        else:
            return
    run.write_scores(path.parent)


def save_cross_validation(
    folder: Path,
    world: World,
    settings: TrainingSettings,
    *,
    folds: int = 5,
    strengths: Sequence[float] | None = None,
) -> pd.DataFrame:
    """Cross-validate networks and write `cross_validation.csv` and `.toml` into a folder.

    With several strengths of weight decay, `weight_decay.csv` has the loss of each by fold.

    Parameters
    ----------
    folder : Path
        The folder to write to, which must hold no results yet.
    world, settings, folds, strengths
        As in `equivocal.network.cross_validate`.

    Returns
    -------
    DataFrame
        The curves of every fold, network and epoch.

    Raises
    ------
    UserError
        If the folder holds results already.
    """
    path = folder / "cross_validation.csv"
    if path.exists() or has_run(folder):
        raise UserError(f"{folder} holds results already; choose another folder.")
    ensure_writable(folder)
    with progress(f"{folds}-fold cross-validation") as advance:
        on_epoch = report_epochs(advance, rounds=folds)
        curves = runs.cross_validate(
            world, settings, folds=folds, strengths=strengths, on_epoch=on_epoch
        )
    write_settings(folder / "cross_validation.toml", world, settings, folds=folds)
    if strengths is not None:
        write_text_atomically(folder / "weight_decay.csv", runs.choose_decay(curves).table.to_csv())
    write_text_atomically(path, curves.to_csv(index=False))
    return curves


def select_best_epochs(curves: pd.DataFrame) -> pd.DataFrame:
    """Return, for each fold, the losses at each network's best epoch, as a mean over networks.

    Parameters
    ----------
    curves : DataFrame
        As `cross_validate` returns them.

    Returns
    -------
    DataFrame
        Indexed by fold: epoch, losses and accuracy.
    """
    best = curves.loc[curves.groupby(["fold", "network"])["test_loss"].idxmin()]
    return best.groupby("fold")[["epoch", "train_loss", "test_loss", "test_accuracy"]].mean()


def report_epochs(advance: Advance, rounds: int = 1) -> OnEpoch:
    """Return an `on_epoch` callback that reports training as progress.

    Parameters
    ----------
    advance : callable
        Called with the number of epochs done, the total, and the held-out loss as text.
    rounds : int
        How many trainings follow one another, as in cross-validation.

    Returns
    -------
    callable
        The argument `on_epoch` of `train` and `cross_validate`.
    """
    done_rounds, last = 0, 0

    def on_epoch(report: EpochReport, epochs: int) -> None:
        nonlocal done_rounds, last
        done_rounds += report.epoch <= last  # a new round starts at epoch 1
        last = report.epoch
        state = f"held-out loss {report.test_loss.mean():.3f}"
        advance(done_rounds * epochs + report.epoch, rounds * epochs, state)

    return on_epoch
