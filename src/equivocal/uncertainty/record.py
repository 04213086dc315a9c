"""All that shaped the tables of a comparison, for its `doubt.toml`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from equivocal import __version__
from equivocal.machine import versions
from equivocal.suites.settings import PACKAGES
from equivocal.uncertainty.keeping import Kept, seconds_each

__all__ = ["record_of"]


def record_of(kept: Kept, kinds: Sequence[str], answer: str, seconds: float) -> dict[str, Any]:
    """Ready for TOML; `seconds` is what this call took, in which what was found again cost none."""
    run = kept.run
    return {
        "version": __version__,
        "world": run.world.name,
        "fingerprint": run.world.fingerprint,
        "networks": len(run.networks),
        "kinds": list(kinds),
        "training_seconds_per_network": round(seconds_each(run), 3),
        "seconds": round(seconds, 3),
        "answer": answer,
        "settings": asdict(kept.settings),
        "training": asdict(run.settings),
        "versions": versions(*PACKAGES),
    }
