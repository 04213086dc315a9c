"""The networks that an experiment starts from: found in its folder, or trained into it."""

from pathlib import Path
from typing import TYPE_CHECKING

from equivocal.gestalt import Run, TrainingSettings, train
from equivocal.progress import announce, progress

if TYPE_CHECKING:
    from equivocal.gestalt import EpochReport, OnEpoch
    from equivocal.progress import Advance
    from equivocal.world import World

__all__ = ["QUICK", "choose_training", "report_epochs", "train_or_load"]

QUICK = {"networks": 2, "epochs": 10, "sentences": 1_000}  # does it run? Not to be quoted


def choose_training(
    networks: int | None = None, seed: int | None = None, *, quick: bool = False
) -> TrainingSettings:
    """Return the usual settings, or those of `QUICK`; what is given takes precedence."""
    given = {"networks": networks, "seed": seed}
    return TrainingSettings.from_dict(
        (QUICK if quick else {})
        | {name: value for name, value in given.items() if value is not None}
    )


def train_or_load(
    world: "World", settings: TrainingSettings, folder: Path, *, dropout: float = 0.0
) -> Run:
    """Load the run with these settings from a folder, or train it and save it there.

    Parameters
    ----------
    world : World
        Where the networks learn.
    settings : TrainingSettings
        How they learn.
    folder : Path
        Where the run is, or will be.
    dropout : float
        Rate of dropout during training; such networks need a folder of their own.

    Raises
    ------
    UserError
        Where the folder holds a run with other settings, or files that are not of a run.
    """
    found = Run.find(folder, world, settings)
    if found is not None:
        announce(f"{folder} holds this run already; using it")
        return found
    what = f"training {settings.networks} network{'s' if settings.networks > 1 else ''}"
    with progress(what) as advance:
        run = train(world, settings, on_epoch=report_epochs(advance), dropout=dropout)
    run.save(folder)
    announce(f"trained {settings.networks} in {run.seconds:.0f} s")
    return run


def report_epochs(advance: "Advance", rounds: int = 1) -> "OnEpoch":
    """Turn reports of epochs into progress; `rounds` trainings follow one another."""
    done_rounds, last = 0, 0

    def on_epoch(report: "EpochReport", epochs: int) -> None:
        nonlocal done_rounds, last
        done_rounds += report.epoch <= last  # a new round starts at epoch 1
        last = report.epoch
        state = f"held-out loss {report.test_loss.mean():.3f}"
        advance(done_rounds * epochs + report.epoch, rounds * epochs, state)

    return on_epoch
