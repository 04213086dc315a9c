"""Suites: experiments as data files, run with trained networks.

A paradigm (`load_suite`) is measured word by word: which findings about people hold for networks? A
construction (`load_construction`) has sentences with two readings: which do networks prefer? Both
have items in the format of `equivocal.world.items`. `equivocal.experiments.suites.run_suites` runs
them from end to end, and `equivocal.report.suite_figures` draws their tables.
"""

from equivocal.suites.findings import tabulate_findings
from equivocal.suites.measurement import measure_words
from equivocal.suites.noisy_channel import (
    judge_signals,
    load_reversals,
    measure_divergence,
    measure_ideal,
)
from equivocal.suites.reading import Reader, compute_exact_beliefs
from equivocal.suites.suite import (
    CONSTRUCTIONS,
    PARADIGMS,
    Construction,
    Suite,
    load_construction,
    load_published_means,
    load_suite,
)

__all__ = [
    "CONSTRUCTIONS",
    "PARADIGMS",
    "Construction",
    "Reader",
    "Suite",
    "compute_exact_beliefs",
    "judge_signals",
    "load_construction",
    "load_published_means",
    "load_reversals",
    "load_suite",
    "measure_divergence",
    "measure_ideal",
    "measure_words",
    "tabulate_findings",
]
