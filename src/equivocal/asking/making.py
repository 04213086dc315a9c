"""What takes JAX and half a minute: training the default network, sampling its ensembles.

The converged posterior is sampled by `exact-flow`. Beside it the paper's own sampler is watched on
its way from the prior, so that its time can be moved through.
"""

from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from equivocal.asking.settings import AskSettings
from equivocal.asking.source import Source
from equivocal.asking.vocabulary import Vocabulary
from equivocal.gestalt import EpochReport, Run, TrainingSettings, train
from equivocal.inference import LastLayer, SamplerSettings, collect_last_layer, infer_posterior
from equivocal.progress import Advance
from equivocal.sampling import Snapshot

__all__ = ["converging", "make_converged", "make_path", "train_default"]


def train_default(source: Source, advance: Advance) -> None:
    """Train the network behind questions to a world, into its folder.

    The run appears there by one rename. Where another process was faster, its run stays.
    """

    def on_epoch(report: EpochReport, epochs: int) -> None:
        advance(report.epoch, epochs, f"held-out loss {report.test_loss.mean():.3f}")

    settings = TrainingSettings.from_dict(dict(source.settings.training))
    with TemporaryDirectory(dir=source.folder, prefix=".run.") as made:
        train(source.world, settings, on_epoch=on_epoch).save(Path(made) / "run")
        with suppress(OSError):  # it is there already
            (Path(made) / "run").rename(source.run_folder)


def make_converged(source: Source, variance: float, advance: Advance) -> np.ndarray:
    """(fillers, J, D) particles where the equations come to rest."""
    layer, unit_of = _layer(source)
    advance(0, 1, "sampling")
    posterior = infer_posterior(layer, converging(source.settings), variance, source.settings.seed)
    advance(1, 1, "done")
    return np.asarray(posterior.particles[unit_of], np.float32)


def converging(settings: AskSettings) -> SamplerSettings:
    """The sampler of the converged posterior."""
    return SamplerSettings(
        method="exact-flow", num_particles=settings.particles, tolerance=settings.tolerance
    )


def make_path(source: Source, variance: float, advance: Advance) -> tuple[np.ndarray, np.ndarray]:
    """(steps, fillers, J, D) particles of the paper's sampler and the units' median τ, (steps,)."""
    settings = source.settings
    steps = settings.kept_steps
    layer, unit_of = _layer(source)
    units, size = layer.trained.shape
    particles = np.full((len(steps), units, settings.path_particles, size), np.nan, np.float32)
    time = np.full((len(steps), units), np.nan)

    def observe(snapshot: Snapshot) -> None:
        done = snapshot.outputs.start * steps[-1] + len(snapshot.outputs) * snapshot.step
        whole = units * steps[-1]
        advance(round(100 * done / whole), 100, "per cent")
        if snapshot.step in steps:
            at = steps.index(snapshot.step)
            outputs = slice(snapshot.outputs.start, snapshot.outputs.stop)
            particles[at, outputs], time[at, outputs] = snapshot.particles, snapshot.time

    sampler = SamplerSettings(
        method="dropout-deterministic",
        num_particles=settings.path_particles,
        num_steps=steps[-1],
        options={"dropout_rate": settings.dropout_rate},
    )
    infer_posterior(layer, sampler, variance, settings.seed, observe)
    for at in range(1, len(steps)):  # an output that came to rest early stays where it was
        rested = np.isnan(time[at])
        particles[at, rested], time[at, rested] = particles[at - 1, rested], time[at - 1, rested]
    return particles[:, unit_of], np.median(time, axis=1)


@lru_cache(maxsize=1)
def _layer(source: Source) -> tuple[LastLayer, np.ndarray]:
    """Rows and trained weights of the fillers' units, and the unit of each filler among them."""
    run = Run.load(source.run_folder)
    units, unit_of = np.unique(Vocabulary.of(source.world).units, return_inverse=True)
    layer = collect_last_layer(run, run.networks[source.network], "every word")
    return layer.select(units.tolist()), unit_of
