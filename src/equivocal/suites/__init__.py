"""Paradigm suites: experiments as data files, heard by trained networks and judged word by word.

Knows nothing of drawing; `equivocal.report.suite_figures` draws its tables.
"""

from equivocal.suites.findings import (
    condition_table,
    finding_table,
    network_means,
    word_table,
)
from equivocal.suites.measuring import measure_words
from equivocal.suites.reference import published_means
from equivocal.suites.suite import SHIPPED, Finding, Suite, load_suite

__all__ = [
    "SHIPPED",
    "Finding",
    "Suite",
    "condition_table",
    "finding_table",
    "load_suite",
    "measure_words",
    "network_means",
    "published_means",
    "word_table",
]
