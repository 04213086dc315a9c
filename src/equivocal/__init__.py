"""Equivocal: degrees of belief for neural models of language comprehension.

>>> from equivocal import World
>>> world = World.load("paper")
>>> float(world.true_beliefs("During dinner, the woman eats", "patient")["pizza"])
0.7
"""

from importlib import metadata

from equivocal.errors import UserError
from equivocal.world import World

__all__ = ["UserError", "World", "__version__"]

__version__ = metadata.version("equivocal")
