"""The networks that an experiment starts from: loaded from its folder, or trained into it.

`QUICK` may be changed. Runs of networks and their files are defined in `equivocal.network`.
"""

from pathlib import Path

from equivocal.machine import describe_device
from equivocal.network import EpochReport, OnEpoch, Run, TrainingSettings, runs
from equivocal.progress import Advance, announce, progress
from equivocal.world import World
from lastlayer.seeds import Seed, choose_seed

__all__ = ["choose_training", "report_epochs", "train_or_load"]

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


def train_or_load(world: World, settings: TrainingSettings, folder: Path) -> Run:
    """Load the run with these settings from a folder, or train it and save it there.

    Damaged networks are named in a warning and trained again.

    Parameters
    ----------
    world : World
        The world that the networks learn.
    settings : TrainingSettings
        The settings of training.
    folder : Path
        The folder of the run.

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
        return found
    what = f"training {settings.networks} network{'s' if settings.networks > 1 else ''}"
    with progress(what, begin="compiling") as advance:
        run = runs.train(world, settings, on_epoch=report_epochs(advance))
        run.save(folder)
    announce(f"trained {settings.networks} in {run.seconds:.0f} s{describe_device()}")
    return run


def report_epochs(advance: Advance) -> OnEpoch:
    """Return an `on_epoch` callback of `train` that reports training as progress.

    Parameters
    ----------
    advance : callable
        Called with the number of epochs done, the total, and the held-out loss as text.
    """

    def on_epoch(report: EpochReport, epochs: int) -> None:
        advance(report.epoch, epochs, f"held-out loss {report.test_loss.mean():.3f}")

    return on_epoch
