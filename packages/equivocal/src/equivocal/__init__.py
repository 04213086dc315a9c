"""Equivocal: degrees of belief for neural models of language comprehension.

    >>> from equivocal import World
    >>> world = World.load("paper")
    >>> float(world.true_beliefs("During dinner, the woman eats", "patient")["pizza"])
    0.7

Names are imported when first used, so that the command line starts at once. A new public name is
added to `_HOME` and to the imports for type checkers.
"""

from typing import TYPE_CHECKING, Any

from lastlayer.errors import UserError, import_name

if TYPE_CHECKING:
    from equivocal.asking.listeners import ask
    from equivocal.doubt.run import compare_uncertainty
    from equivocal.measuring.run import measure
    from equivocal.network import train
    from equivocal.paper.run import reproduce, run_study
    from equivocal.people.published import compare_people
    from equivocal.world import World

__all__ = [
    "UserError",
    "World",
    "__version__",
    "ask",
    "compare_people",
    "compare_uncertainty",
    "measure",
    "reproduce",
    "run_study",
    "train",
]

_HOME = {
    "World": "world",
    "ask": "asking.listeners",
    "compare_people": "people.published",
    "compare_uncertainty": "doubt.run",
    "measure": "measuring.run",
    "reproduce": "paper.run",
    "run_study": "paper.run",
    "train": "network",
}  # the module of each public name


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("equivocal")
    return import_name(__name__, _HOME, name)
