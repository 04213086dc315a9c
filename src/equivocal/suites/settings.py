"""All that shaped the tables of a run of suites: its `suites.toml`, the last file it writes.

A folder without that file holds no finished run. With it, it holds the results of one run, until
another replaces them and says so.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from equivocal import __version__
from equivocal.gestalt import TrainingSettings
from equivocal.machine import versions
from equivocal.suites.measuring import asked_measures
from equivocal.suites.posteriors import PARTICLES, ROWS, SAMPLER, VARIANCE
from equivocal.suites.suite import Suite

__all__ = ["COMPARED", "PACKAGES", "settings_of"]

PACKAGES = ("equivocal", "jax", "jaxlib", "numpy", "pandas", "scipy")
# what makes a run another one; versions and the time it took do not
COMPARED = ("suites", "measures", "beliefs", "worlds", "networks", "seed", "training", "posterior")


def settings_of(
    suites: Sequence[Suite],
    measures: Sequence[str],
    beliefs: str,
    training: TrainingSettings,
    *,
    by_role: bool,
    sampled: bool,
) -> dict[str, Any]:
    """Ready for TOML; the posterior is told of where one was `sampled`.

    Without `measures` they are those that the suites name.
    """
    told = [
        asked_measures(measures or [suite.measure], suite.world.roles if by_role else ())
        for suite in suites
    ]
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
        "measures": list(dict.fromkeys(name for names in told for name in names)),
        "beliefs": beliefs,
        "networks": training.networks,
        "seed": training.seed,
        "worlds": {suite.world.name: suite.world.fingerprint for suite in suites},
        "training": asdict(training),
        **({"posterior": posterior} if sampled else {}),
        "versions": versions(*PACKAGES),
    }
