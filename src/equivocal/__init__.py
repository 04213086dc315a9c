"""Equivocal: degrees of belief for neural models of language comprehension.

    >>> from equivocal import World
    >>> world = World.load("paper")
    >>> float(world.true_beliefs("During dinner, the woman eats", "patient")["pizza"])
    0.7

Names are imported when first used, so that `equivocal.sampling` needs no more than jax and numpy.
Worlds, networks, studies and commands need the extra `model`: pip install 'equivocal[model]'.
A new public name is added to `_HOME` and to the imports for type checkers.
"""

from typing import TYPE_CHECKING, Any

from equivocal.errors import import_name

if TYPE_CHECKING:
    from equivocal.asking import ask
    from equivocal.errors import UserError
    from equivocal.experiments.people import compare_people
    from equivocal.experiments.studies import reproduce, run_study
    from equivocal.experiments.suites import run_suites
    from equivocal.experiments.uncertainty import compare_uncertainty
    from equivocal.gestalt import train
    from equivocal.sampling import sample_posterior
    from equivocal.world import World

__all__ = [
    "UserError",
    "World",
    "__version__",
    "ask",
    "compare_people",
    "compare_uncertainty",
    "reproduce",
    "run_study",
    "run_suites",
    "sample_posterior",
    "train",
]

_HOME = {
    "UserError": "errors",
    "World": "world",
    "ask": "asking",
    "compare_people": "experiments.people",
    "compare_uncertainty": "experiments.uncertainty",
    "reproduce": "experiments.studies",
    "run_study": "experiments.studies",
    "run_suites": "experiments.suites",
    "sample_posterior": "sampling",
    "train": "gestalt",
}  # the module of each public name


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("equivocal")
    return import_name(__name__, _HOME, name)
