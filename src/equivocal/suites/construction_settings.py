"""Which posteriors a construction is read with, and all that shaped a result, for its TOML file."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from equivocal import __version__
from equivocal.errors import UserError
from equivocal.gestalt import TrainingSettings
from equivocal.machine import versions
from equivocal.progress import announce
from equivocal.store import UnreadableError, read_toml
from equivocal.store.files import write_text_atomically
from equivocal.suites.construction_items import SHIPPED, Construction
from equivocal.suites.posteriors import VARIANCE
from equivocal.suites.reading import SAMPLER
from equivocal.suites.settings import PACKAGES

__all__ = [
    "HEARD",
    "VARIANCES",
    "networks_in_curves",
    "posteriors_of",
    "settings_of",
    "write_settings",
]

VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0)
HEARD = (100, 300, 1_000, 3_000, 10_000)  # sentences; no more than the networks were trained on


def posteriors_of(construction: Construction, sentences: int) -> list[tuple[float, int]]:
    """Prior variance and sentences heard of each posterior, the usual one first."""
    usual = [(VARIANCE, sentences)]
    if not construction.curves:
        return usual
    usual += [(variance, sentences) for variance in VARIANCES if variance != VARIANCE]
    return usual + [(VARIANCE, heard) for heard in HEARD if heard < sentences]


def networks_in_curves(wanted: int | None, training: TrainingSettings) -> int:
    """How many networks the curves are drawn from: all, or as many of the first as are wanted."""
    if wanted is not None and wanted > training.networks:
        raise UserError(
            f"--curve-networks {wanted} is more than the {training.networks} networks that are "
            "trained; lower it, or raise --networks."
        )
    return wanted or training.networks


def settings_of(
    construction: Construction, training: TrainingSettings, curve_networks: int
) -> dict[str, Any]:
    """Everything that shaped the tables and figures of one construction."""
    posteriors = posteriors_of(construction, training.sentences)
    curves = {
        "conditions": list(construction.curves),
        "networks": curve_networks,  # the first ones
        "prior_variances": sorted(v for v, heard in posteriors if heard == training.sentences),
        "sentences_heard": sorted(heard for v, heard in posteriors if v == VARIANCE),
    }
    return {
        "version": __version__,
        "world": construction.world.name,
        "fingerprint": construction.world.fingerprint,
        "items": len(construction.items),
        "prior_variance": VARIANCE,  # of all tables and figures but the curves
        **({"curves": curves} if construction.curves else {}),
        "training": asdict(training),
        "sampler": SAMPLER.model_dump(exclude_none=True),
        "versions": versions(*PACKAGES),
    }


def write_settings(
    path: Path,
    construction: Construction,
    training: TrainingSettings,
    curve_networks: int,
    seconds: float,
) -> None:
    """Put one construction's settings in its table of the file; the others stay as they are.

    `seconds`: the time its results took.
    """
    try:
        found = read_toml(path) if path.exists() else {}
    except UnreadableError:
        announce(f"{path} cannot be read; what it said of other constructions is lost")
        found = {}
    tables = {name: table for name, table in found.items() if name in SHIPPED}
    own = settings_of(construction, training, curve_networks)
    tables[construction.name] = own | {"seconds": round(seconds, 3)}
    write_text_atomically(path, tomli_w.dumps(tables))
