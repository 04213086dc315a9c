"""A training run from end to end: sample, split, train, score, save."""

import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equivocal.errors import UserError, join_names
from equivocal.gestalt.network import SentenceGestalt
from equivocal.gestalt.probing import Network
from equivocal.gestalt.questions import answers_of, questions_of
from equivocal.gestalt.scoring import score
from equivocal.gestalt.settings import TrainingSettings
from equivocal.gestalt.storage import (
    AGAIN,
    clear_run,
    ensure_sound,
    foreign_files,
    load_model,
    read_run,
    save_network,
    write_run,
    write_world,
)
from equivocal.gestalt.training import EpochReport, OnEpoch, fit
from equivocal.store import UnreadableError, read_table
from equivocal.store.files import ensure_writable, write_text_atomically
from equivocal.store.runs import find_damaged_files
from equivocal.world import Corpus, World

__all__ = ["Run", "cross_validate", "split_corpus", "train"]


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Run:
    """Trained networks with all that is known about how they came to be."""

    world: World
    settings: TrainingSettings
    models: tuple[SentenceGestalt, ...]
    held_out: Corpus
    curves: pd.DataFrame  # network, epoch, train_loss, test_loss, train_accuracy, test_accuracy
    seconds: float

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The trained networks, ready to be asked."""
        return tuple(Network(model, self.world) for model in self.models)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """How well each network knows the world; see `equivocal.gestalt.scoring`."""
        return score(self.models, self.held_out)

    @classmethod
    def find(cls, directory: str | Path, world: World, settings: TrainingSettings) -> "Run | None":
        """The run with this world and these settings if `directory` holds it, None if it is free.

        A complete run with another world or other settings is an error: it would be overwritten.
        One with damaged files is named, and its folder is free: it can be trained again.
        """
        directory = Path(directory)
        if not (directory / "run.toml").exists():
            ensure_writable(directory)
            if taken := foreign_files(directory):
                raise UserError(
                    f"{directory} holds files that a run would overwrite ({join_names(taken)}); "
                    "choose another folder."
                )
            return None
        if damaged := find_damaged_files(directory):
            names = join_names(str(directory / name) for name in damaged)
            warnings.warn(
                f"{names} is missing or not as it was written; the networks are trained again.",
                stacklevel=2,
            )
            return None
        found = cls.load(directory)
        wanted, there = asdict(settings), asdict(found.settings)
        changed = [f"{name} {there[name]}" for name in wanted if wanted[name] != there[name]]
        if found.world.fingerprint != world.fingerprint:
            same = found.world.name == world.name
            changed.insert(0, f"{'another version of ' if same else ''}world {found.world.name}")
        if changed:
            raise UserError(
                f"{directory} holds another run ({join_names(changed)}); choose another folder for "
                "this one, or remove that one."
            )
        return found

    @classmethod
    def load(cls, directory: str | Path) -> "Run":
        """A saved run."""
        directory = Path(directory)
        world, settings, seconds = read_run(directory)
        ensure_sound(directory)
        models = [
            load_model(directory, index, world, settings) for index in range(settings.networks)
        ]
        return cls(
            world=world,
            settings=settings,
            models=tuple(models),
            held_out=split_corpus(world, settings)[1],
            curves=_read_curves(directory / "curves.csv", settings.networks),
            seconds=seconds,
        )

    def write_scores(self, directory: str | Path) -> None:
        """Write `scores.csv`."""
        write_text_atomically(Path(directory) / "scores.csv", self.scores.to_csv())

    def save(self, directory: str | Path) -> None:
        """Write the run; `Network.load(directory, index)` reads it back."""
        directory = Path(directory)
        clear_run(directory)
        write_world(directory, self.world)
        for index, model in enumerate(self.models):
            save_network(directory, index, model, self.world)
        write_text_atomically(directory / "curves.csv", self.curves.to_csv(index=False))
        self.write_scores(directory)
        write_run(directory, self.world, self.settings, self.seconds)


def train(
    world: World | str | Path,
    settings: TrainingSettings | None = None,
    *,
    on_epoch: OnEpoch | None = None,
    dropout: float = 0.0,
    **changes: Any,
) -> Run:
    """Train the networks of a study side by side, in a world or in one given by name or path.

    `changes` are settings by name: `train("paper", networks=2, epochs=10)`. `dropout` (see
    `training.fit`) is no setting of a run, so that runs are known by what they always were; whoever
    saves networks trained with it keeps them in a folder of their own.
    """
    world, settings = _prepare(world, settings, changes)
    began = perf_counter()
    kept, held_out = split_corpus(world, settings)
    models, reports = _fit(kept, held_out, settings, on_epoch, dropout)
    seconds = perf_counter() - began
    return Run(world, settings, models, held_out, _curves(reports), seconds)


def cross_validate(
    world: World | str | Path,
    settings: TrainingSettings | None = None,
    *,
    folds: int = 5,
    on_epoch: OnEpoch | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """Loss and accuracy curves with each fold of the corpus held out in turn (column `fold`)."""
    world, settings = _prepare(world, settings, changes)
    if not 2 <= folds <= settings.sentences:
        raise UserError(f"folds must be from 2 to the number of sentences, got {folds!r}.")
    corpus = world.sample(settings.sentences, seed=settings.seed)
    fold_of = _shuffled_ranks(settings) % folds
    parts = []
    for fold in range(folds):
        kept, held_out = corpus.split(fold_of == fold)
        _, reports = _fit(kept, held_out, settings, on_epoch)
        parts.append(_curves(reports).assign(fold=fold))
    return pd.concat(parts, ignore_index=True)


def _prepare(
    world: World | str | Path, settings: TrainingSettings | None, changes: dict[str, Any]
) -> tuple[World, TrainingSettings]:
    world = world if isinstance(world, World) else World.load(world)
    if settings is None:
        return world, TrainingSettings.from_dict(changes)
    return world, TrainingSettings.from_dict(asdict(settings) | changes)


def split_corpus(world: World, settings: TrainingSettings) -> tuple[Corpus, Corpus]:
    """The sentences to learn from and those held out."""
    corpus = world.sample(settings.sentences, seed=settings.seed)
    size = min(max(1, round(settings.held_out * settings.sentences)), settings.sentences - 1)
    return corpus.split(_shuffled_ranks(settings) < size)


def _shuffled_ranks(settings: TrainingSettings) -> NDArray[np.intp]:
    """A random rank for each sentence; a stream apart from the one that sampled the corpus."""
    return np.random.default_rng([settings.seed, 1]).permutation(settings.sentences)


def _fit(
    kept: Corpus,
    held_out: Corpus,
    settings: TrainingSettings,
    on_epoch: OnEpoch | None,
    dropout: float = 0.0,
) -> tuple[tuple[SentenceGestalt, ...], list[EpochReport]]:
    stacked, reports = fit(
        questions_of(kept),
        answers_of(kept),
        answers_of(held_out),
        settings,
        num_tokens=len(kept.world.tokens),
        on_epoch=on_epoch,
        dropout=dropout,
    )
    each = range(settings.networks)
    return tuple(jax.tree.map(lambda leaf, i=i: leaf[i], stacked) for i in each), reports


def _read_curves(path: Path, networks: int) -> pd.DataFrame:
    try:
        curves = read_table(path)
        epochs = curves.groupby("network")["epoch"].count()
        if len(epochs) != networks or epochs.nunique() != 1 or curves.isna().any(axis=None):
            raise ValueError("rows are missing")
    except UnreadableError as error:
        raise UserError(f"{path} cannot be read ({error.reason}); {AGAIN}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read ({error}); {AGAIN}") from None
    return curves


def _curves(reports: list[EpochReport]) -> pd.DataFrame:
    """The reports as a tidy table, one row per network and epoch."""
    frames = [
        pd.DataFrame(report._asdict()).rename_axis("network").reset_index() for report in reports
    ]
    return pd.concat(frames).sort_values(["network", "epoch"], ignore_index=True)
