"""Training runs: sample a corpus, split it, train, score, save and find a run.

Training itself is in `training`, the files of a run are in `storage`. `train_or_load` gives an
experiment its networks, from its folder or trained into it; `QUICK` may be changed.
"""

import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import pandas as pd

from equivocal.machine import describe_device
from equivocal.network import storage
from equivocal.network.probing import Network, score
from equivocal.network.sentence_gestalt import SentenceGestalt
from equivocal.network.settings import TrainingSettings, split_corpus
from equivocal.network.training import EpochReport, OnEpoch, fit
from equivocal.progress import Advance, announce, progress
from equivocal.store import Store, read_table
from equivocal.store.files import ensure_writable, write_text_atomically
from equivocal.store.folders import NETWORKS, TRAIN_AGAIN, check_run, refuse_foreign_files
from equivocal.world import Corpus, World
from lastlayer.errors import UserError, join_names
from lastlayer.seeds import Seed, choose_seed

__all__ = ["Run", "choose_training", "split_corpus", "train", "train_or_load"]

# only to check that a command works; results are not to be reported
QUICK = {"networks": 2, "epochs": 5, "sentences": 1_000, "hidden": 30, "gestalt": 30}


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Run:
    """Trained networks with the settings, held-out sentences and learning curves of their training.

    Attributes
    ----------
    world : World
        The world in which the networks were trained.
    settings : TrainingSettings
        Every setting that affects the result.
    models : tuple of SentenceGestalt
        The weights; `networks` has the same networks, ready to be asked.
    held_out : Corpus
        The sentences that were kept for early stopping and scoring.
    curves : DataFrame
        One row per network and epoch: losses and accuracies on both parts of the corpus.
    seconds : float
        How long the training took.
    """

    world: World
    settings: TrainingSettings
    models: tuple[SentenceGestalt, ...]
    held_out: Corpus
    curves: pd.DataFrame
    seconds: float

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The trained networks, ready to be asked."""
        return tuple(Network(model, self.world) for model in self.models)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The accuracy of each network; see `equivocal.network.probing`."""
        return score(self.models, self.held_out)

    @classmethod
    def find(cls, directory: str | Path, world: World, settings: TrainingSettings) -> "Run | None":
        """Find the run with this world and these settings in a folder.

        Parameters
        ----------
        directory : str or Path
            The folder to look in.
        world : World
            The world in which its networks must have been trained.
        settings : TrainingSettings
            The settings of their training.

        Returns
        -------
        Run or None
            None where the networks are to be trained: the folder holds no run, one with damaged
            files, or one that other code of the package trained; a warning names these.

        Raises
        ------
        UserError
            Where a run of another world or with other settings, or a user's own file, would be
            overwritten.
        """
        directory = Path(directory)
        store = Store(directory)
        key, known = store.find_key(NETWORKS), directory / "run.toml"
        if key is None:
            ensure_writable(directory)
            refuse_foreign_files(known, storage.WRITTEN)
        current = storage.hash_run(world, settings)
        if key != current and (key is not None or known.exists()):
            _refuse_changes(directory, world, settings)
        if key is None or store.find(NETWORKS) is None:
            return None
        if key != current:
            why = "were trained by another version of equivocal; training them again"
            warnings.warn(f"the networks in {directory} {why}.", stacklevel=2)
            return None
        return cls.load(directory)

    @classmethod
    def load(cls, directory: str | Path) -> "Run":
        """Load a run from its folder.

        Parameters
        ----------
        directory : str or Path
            A folder that `Run.save` or `equivocal train` has written.

        Returns
        -------
        Run
            The networks with their world, settings and learning curves.

        Raises
        ------
        UserError
            Where there is no complete run, or a file of it is damaged.
        """
        directory = Path(directory)
        world, settings, seconds = storage.read_run(directory)
        check_run(directory)
        each = range(settings.networks)
        models = tuple(storage.load_model(directory, index, world, settings) for index in each)
        held_out = split_corpus(world, settings)[1]
        curves = read_curves(directory / "curves.csv", settings.networks)
        return cls(world, settings, models, held_out, curves, seconds)

    def save(self, directory: str | Path) -> None:
        """Write the run to a folder, from which `Run.load` and `Network.load` read it back.

        Parameters
        ----------
        directory : str or Path
            The folder, created if necessary. The record, written last, marks the run as complete.
        """
        directory = Path(directory)
        storage.start_run(directory, self.world, self.settings, self.seconds)
        for index, model in enumerate(self.models):
            storage.save_network(directory, index, model, self.world)
        write_text_atomically(directory / "curves.csv", self.curves.to_csv(index=False))
        write_text_atomically(directory / "scores.csv", self.scores.to_csv())
        storage.finish_run(directory, self.world, self.settings)


def _refuse_changes(directory: Path, world: World, settings: TrainingSettings) -> None:
    """Refuse a folder whose run, complete or not, differs in more than the package's version."""
    try:
        trained, content = storage.read_settings(directory)
        origin = content["world"]
        name, fingerprint = str(origin["name"]), origin["fingerprint"]
    except (UserError, KeyError, TypeError):
        raise UserError(
            f"{directory} may hold another run: its run.toml is missing or damaged; choose "
            "another folder for this one, or remove that one."
        ) from None
    differing = asdict(trained).items() - asdict(settings).items()
    changed = [f"{setting} {value}" for setting, value in sorted(differing)]
    if fingerprint != world.fingerprint:
        changed.insert(0, f"another world {name!r:.60} or version of it")
    if changed:
        raise UserError(
            f"{directory} holds another run ({join_names(changed)}); choose another folder for "
            "this one, or remove that one."
        )


def train(
    world: World | str | Path,
    settings: TrainingSettings | None = None,
    *,
    seed: Seed | None = None,
    on_epoch: OnEpoch | None = None,
    **changes: Any,
) -> Run:
    """Train the networks of a study side by side.

    Parameters
    ----------
    world : World, str or Path
        A world, or the name or path of one.
    settings : TrainingSettings, optional
        By default those of the paper.
    seed : int or numpy.random.Generator, optional
        The same seed gives the same networks. From a generator a seed is drawn, which is recorded
        in the settings.
    on_epoch : callable, optional
        Called with an `EpochReport` and the largest number of epochs, after each epoch.
    **changes
        Settings by name: `train("paper", networks=2, epochs=10)`.

    Returns
    -------
    Run
        The networks, each at its best epoch, with their learning curves.

    Raises
    ------
    UserError
        For an unknown world or setting, a value out of range, or training that diverged.
    """
    world = world if isinstance(world, World) else World.load(world)
    given = changes if seed is None else changes | {"seed": choose_seed(seed)}
    settings = (settings or TrainingSettings()).change(given)
    began = perf_counter()
    kept, held_out = split_corpus(world, settings)
    stacked, reports = fit(kept, held_out, settings, on_epoch=on_epoch)
    each = range(settings.networks)
    models = tuple(jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in each)
    seconds = perf_counter() - began
    return Run(world, settings, models, held_out, tabulate_reports(reports), seconds)


def read_curves(path: Path, networks: int) -> pd.DataFrame:
    """Read `curves.csv`, which must have the same number of epochs for every network."""
    try:
        curves = read_table(path)
        epochs = curves.groupby("network")["epoch"].count()
        if len(epochs) != networks or epochs.nunique() != 1 or curves.isna().any(axis=None):
            raise ValueError("rows are missing")
    except (ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"{path} cannot be read ({reason}); {TRAIN_AGAIN}") from None
    return curves


def tabulate_reports(reports: list[EpochReport]) -> pd.DataFrame:
    """Return the reports as a table with one row per network and epoch."""
    frames = [
        pd.DataFrame(report._asdict()).rename_axis("network").reset_index() for report in reports
    ]
    return pd.concat(frames).sort_values(["network", "epoch"], ignore_index=True)


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
    return TrainingSettings(**(QUICK if quick else {}) | given)


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
    run = Run.find(folder, world, settings)
    if run is not None:
        announce(f"{folder} holds this run already; using it")
        return run
    what = f"training {settings.networks} network{'s' if settings.networks > 1 else ''}"
    with progress(what, begin="compiling") as advance:
        run = train(world, settings, on_epoch=report_epochs(advance))
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
