"""Cross-validation of the strength of the weight decay, for `python -m benchmarks.recipes`.

Networks of all strengths train from the same weights and on the same batches; only the decay
differs between them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from equivocal.network import TrainingSettings
from equivocal.network.runs import tabulate_reports
from equivocal.network.training import OnEpoch, fit
from equivocal.world import World
from lastlayer.errors import UserError
from lastlayer.seeds import Seed, choose_seed

__all__ = ["STRENGTHS", "choose_decay", "cross_validate"]

# for a loss averaged over output units; a loss summed over 176 units needs 176 times the strength
STRENGTHS = (0.0, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 1e-4, 1e-3)


class DecayChoice(NamedTuple):
    """The strength of the weight decay that cross-validation chooses."""

    best: float  # lowest mean held-out loss
    strongest: float  # the strongest whose mean is within one standard error of the lowest
    table: pd.DataFrame  # a row for each strength: loss by fold, `mean`, `standard_error`


def cross_validate(
    world: World | str | Path,
    settings: TrainingSettings | None = None,
    *,
    folds: int = 5,
    strengths: Sequence[float] | None = None,
    seed: Seed | None = None,
    on_epoch: OnEpoch | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """Train with each fold of the corpus held out in turn.

    Parameters
    ----------
    world, settings, seed, on_epoch, **changes
        As in `train`.
    folds : int
        How many parts the corpus is cut into, at random.
    strengths : sequence of float, optional
        Strengths of the weight decay to compare; by default that of the settings alone.

    Returns
    -------
    DataFrame
        The curves of `Run`, with columns `fold` and `weight_decay`.

    Raises
    ------
    UserError
        Where there are too few or too many folds, or a strength is out of range.
    """
    world = world if isinstance(world, World) else World.load(world)
    given = changes if seed is None else changes | {"seed": choose_seed(seed)}
    settings = (settings or TrainingSettings()).change(given)
    if not 2 <= folds <= settings.sentences:
        raise UserError(f"folds must be from 2 to the number of sentences, got {folds!r}.")
    compared = [settings.weight_decay] if strengths is None else list(dict.fromkeys(strengths))
    for strength in compared:
        settings.change({"weight_decay": strength})  # refuses one that is out of range
    corpus = world.sample(settings.sentences, seed=settings.seed)
    ranks = np.random.default_rng([settings.seed, 1]).permutation(settings.sentences)
    fold_of = ranks % folds
    parts = []
    for fold in range(folds):
        kept, held_out = corpus.split(fold_of == fold)
        for strength in compared:
            chosen = settings.change({"weight_decay": strength})
            _, reports = fit(kept, held_out, chosen, on_epoch=on_epoch)
            parts.append(tabulate_reports(reports).assign(fold=fold, weight_decay=strength))
    return pd.concat(parts, ignore_index=True)


def choose_decay(curves: pd.DataFrame) -> DecayChoice:
    """Choose the strength with the lowest held-out loss, and the strongest that is as good.

    Parameters
    ----------
    curves : DataFrame
        As returned by `cross_validate`. The loss of a fold is the mean over networks, each at its
        best epoch. The standard error is that of a mean over folds.

    Returns
    -------
    DecayChoice
    """
    best = curves.groupby(["weight_decay", "fold", "network"])["test_loss"].min()
    table = best.groupby(["weight_decay", "fold"]).mean().unstack("fold")
    mean, strengths = table.mean(axis=1).to_numpy(), table.index.to_numpy(float)
    error = table.std(axis=1, ddof=1).to_numpy() / np.sqrt(table.shape[1])
    lowest = int(np.argmin(mean))
    strongest = strengths[mean <= mean[lowest] + error[lowest]].max()
    table = table.add_prefix("fold_").rename_axis(columns=None)
    table = table.assign(mean=mean, standard_error=error)
    return DecayChoice(float(strengths[lowest]), float(strongest), table)
