"""What shapes a run of suites, as its record says it.

If a run depends on something new, add it here: what is not recorded cannot be compared.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from equivocal.gestalt import TrainingSettings
from equivocal.study.word_measures import MEASURES
from equivocal.suites import Construction, Suite, reading
from equivocal.suites.measurement import ROWS, SAMPLER, VARIANCE, choose_measures

VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0)
HEARD = (100, 300, 1_000, 3_000, 10_000)  # sentences; no more than the networks were trained on


def is_from_particles(measure: str, beliefs: str) -> bool:
    """Return whether a measure is computed from particles, given whose `beliefs` are measured."""
    reads = MEASURES[measure].reads
    return reads == "ensemble" or (reads == "beliefs" and beliefs == "posterior")


def describe_suites(
    suites: Sequence[Suite],
    measures: Sequence[str],
    beliefs: str,
    training: TrainingSettings,
    *,
    by_role: bool,
) -> dict[str, Any]:
    """Return what shaped a run of paradigms; without `measures` they are the suites' own."""
    by_suite = [
        choose_measures(measures or [suite.measure], suite.world.roles if by_role else ())
        for suite in suites
    ]
    posterior = {
        "particles": SAMPLER.num_particles,
        "prior_variance": VARIANCE,
        "rows": ROWS,
        "seed": training.seed,  # of the first network; each has the next
        "sampler": SAMPLER.model_dump(exclude_none=True),
    }
    sampled = any(
        is_from_particles(name, beliefs) for suite in suites for name in measures or [suite.measure]
    )
    return {
        "suites": [suite.name for suite in suites],
        "measures": list(dict.fromkeys(name for chosen in by_suite for name in chosen)),
        "beliefs": beliefs,
        "networks": training.networks,
        "seed": training.seed,
        "worlds": {suite.world.name: suite.world.fingerprint for suite in suites},
        "training": asdict(training),
        **({"posterior": posterior} if sampled else {}),
    }


def list_posteriors(construction: Construction, sentences: int) -> list[tuple[float, int]]:
    """List prior variance and sentences heard of each posterior, the usual one first."""
    usual = [(VARIANCE, sentences)]
    if not construction.curves:
        return usual
    usual += [(variance, sentences) for variance in VARIANCES if variance != VARIANCE]
    return usual + [(VARIANCE, heard) for heard in HEARD if heard < sentences]


def describe_construction(
    construction: Construction, training: TrainingSettings, curve_networks: int
) -> dict[str, Any]:
    """Return what shaped the tables and figures of one construction."""
    posteriors = list_posteriors(construction, training.sentences)
    curves = {
        "conditions": list(construction.curves),
        "networks": curve_networks,  # the first ones
        "prior_variances": sorted(v for v, heard in posteriors if heard == training.sentences),
        "sentences_heard": sorted(heard for v, heard in posteriors if v == VARIANCE),
    }
    return {
        "world": construction.world.name,
        "fingerprint": construction.world.fingerprint,
        "items": len(construction.items),
        "prior_variance": VARIANCE,  # of all tables and figures but the curves
        **({"curves": curves} if construction.curves else {}),
        "training": asdict(training),
        "sampler": reading.SAMPLER.model_dump(exclude_none=True),
    }
