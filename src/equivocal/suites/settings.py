"""All that shaped the tables of a run of suites, for its `suites.toml`."""

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from equivocal import __version__
from equivocal.gestalt import TrainingSettings
from equivocal.suites.posteriors import PARTICLES, ROWS, SAMPLER, VARIANCE
from equivocal.suites.suite import Suite

__all__ = ["settings_of"]

PACKAGES = ("equivocal", "jax", "jaxlib", "numpy", "pandas", "scipy")


def settings_of(
    suites: Sequence[Suite],
    measures: Sequence[str],
    beliefs: str,
    training: TrainingSettings,
    *,
    sampled: bool,
) -> dict[str, Any]:
    """Ready for TOML; the posterior is told of where one was `sampled`."""
    posterior = {
        "particles": PARTICLES,
        "prior_variance": VARIANCE,
        "rows": ROWS,
        "seed": training.seed,  # of the first network; each has the next
        "sampler": SAMPLER.model_dump(exclude_none=True),
    }
    return {
        "version": __version__,
        "suites": [suite.name for suite in suites],
        "measures": list(measures),
        "beliefs": beliefs,
        "networks": training.networks,
        "seed": training.seed,
        "worlds": {suite.world.name: suite.world.fingerprint for suite in suites},
        "training": asdict(training),
        **({"posterior": posterior} if sampled else {}),
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in PACKAGES},
    }
