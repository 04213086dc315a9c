"""Equivocal: degrees of belief for neural models of language comprehension.

    >>> from equivocal import World
    >>> world = World.load("paper")
    >>> float(world.true_beliefs("During dinner, the woman eats", "patient")["pizza"])
    0.7

Names are imported when first used, so that `equivocal.sampling` needs no more than jax and numpy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equivocal.asking import ask
    from equivocal.errors import UserError
    from equivocal.world import World

__all__ = ["UserError", "World", "__version__", "ask"]


def __getattr__(name: str) -> Any:
    if name == "World":
        from equivocal.world import World

        return World
    if name == "ask":
        from equivocal.asking import ask

        return ask
    if name == "UserError":
        from equivocal.errors import UserError

        return UserError
    if name == "__version__":
        from importlib import metadata

        return metadata.version("equivocal")
    raise AttributeError(f"module 'equivocal' has no attribute {name!r}")
