"""Constructions: sentences with two readings, and which of them networks and their doubt prefer.

Passives, word order and attachment, each as a data file in a world whose exact beliefs are known.
`load_construction` loads one, a `Reader` is a network that has heard it, and `share_table` and
`belief_table` say what came of it, with intervals.
"""

from equivocal.suites.construction_items import (
    SHIPPED,
    Construction,
    Item,
    Question,
    load_construction,
)
from equivocal.suites.construction_tables import belief_table, share_table
from equivocal.suites.reading import READINGS, Reader

__all__ = [
    "READINGS",
    "SHIPPED",
    "Construction",
    "Item",
    "Question",
    "Reader",
    "belief_table",
    "load_construction",
    "share_table",
]
