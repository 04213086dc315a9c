"""The same world with other values of its parameters.

Other values of parameters change how often something happens or is misheard, but not what is
possible. So a world is enumerated once, and only its weights are computed anew: in a few
milliseconds, for listeners who do not know the values.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equivocal.world.derivations import Derivations, enumerate_derivations
from equivocal.world.errors import require_exact
from equivocal.world.grammar import build_grammar
from equivocal.world.loading import parse_whole_world, validate_world
from equivocal.world.noise import add_noise
from equivocal.world.schema import WorldFile
from equivocal.world.world import World
from lastlayer.errors import UserError

__all__ = ["Reweighting"]


INSIDE = 1e-9  # least distance from the ends of a range, where some derivations have probability 0


class Reweighting:
    """The derivations of a world, enumerated once, with weights for any values of its parameters.

    Parameters
    ----------
    world : World
        Small enough to be enumerated. Values at the ends of a range are moved inside by 1e-9.

    Attributes
    ----------
    world : World
        The world with its values moved inside.
    """

    def __init__(self, world: World) -> None:
        if not world.parameters:
            raise UserError(
                f"world {world.name!r} has no parameters to vary; use a world that declares some, "
                "such as `both_ways`, or add [parameters] to its file."
            )
        require_exact(world, "its probabilities cannot be recomputed")
        self._specs = world.file.parameters
        inside = self._move_inside(world.parameters)
        self.world = World.from_toml(world.text, world.source, inside)
        self._tables = parse_whole_world(self.world.text, world.source)

    def compute_weights(self, parameters: Mapping[str, float]) -> NDArray[np.float64]:
        """Compute the probability of every derivation of `world` under other values.

        Parameters
        ----------
        parameters : mapping of str to float
            The values that differ from those of `world`.

        Returns
        -------
        array (derivations,)
            In the order of `world.all_derivations`.

        Raises
        ------
        UserError
            Where other sentences are possible with these values, or a value is out of range.
        """
        file, world = self._validate(parameters), self.world
        grammar = build_grammar(file, world.lexicon, world.source)
        rows = enumerate_derivations(add_noise(grammar, file))
        base = self.world.all_derivations.derivations
        if not _are_alike(rows, base):
            raise UserError(
                f"with {dict(parameters)} other sentences are possible in world "
                f"{self.world.name!r} than with its own values; keep probabilities above zero."
            )
        return rows.weight

    def _validate(self, parameters: Mapping[str, float]) -> WorldFile:
        given = self._move_inside(parameters)
        return validate_world(self._tables, self.world.source, given)[0]

    def _move_inside(self, parameters: Mapping[str, float]) -> dict[str, float]:
        """Keep values off the ends of their ranges."""
        moved = {}
        for name, value in parameters.items():
            least, most = self._specs[name].least, self._specs[name].most
            moved[name] = float(np.clip(value, least + INSIDE, most - INSIDE))
        return moved


def _are_alike(one: Derivations, other: Derivations) -> bool:
    """Return whether two enumerations have the same rows, in the same order."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("fillers", "construction", "said")
    )
