"""All that shaped the tables of a run of suites: its `suites.toml`, the last file it writes.

A folder without that file holds no finished run. With it, it holds the results of one run, which
the same command may write anew and another may not.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from equivocal import __version__
from equivocal.errors import UserError, listed
from equivocal.gestalt import TrainingSettings
from equivocal.machine import versions
from equivocal.reading import UnreadableError, parse_toml, read_toml
from equivocal.suites.measuring import asked_measures
from equivocal.suites.posteriors import PARTICLES, ROWS, SAMPLER, VARIANCE
from equivocal.suites.suite import Suite

__all__ = ["PACKAGES", "refuse_other_results", "settings_of"]

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


def refuse_other_results(path: Path, settings: dict[str, Any]) -> None:
    """Complain if the `suites.toml` at `path` is of another run than one with `settings`."""
    if not path.exists():
        return
    advice = f"choose another --out, or remove {path.name}, tables and figures there"
    try:
        found = read_toml(path)
    except UnreadableError as error:
        raise UnreadableError(path, error.reason, advice) from None
    wanted = parse_toml(tomli_w.dumps(settings))  # as it is read back
    changed = [
        name for name in COMPARED if _any_order(found.get(name)) != _any_order(wanted.get(name))
    ]
    if changed:
        told = f"{path.parent} holds the results of another run (other {listed(changed)})"
        raise UserError(f"{told}; {advice}.")


def _any_order(value: Any) -> Any:
    """Suites and measures are the same ones in whatever order they were asked for."""
    return set(map(str, value)) if isinstance(value, list) else value
