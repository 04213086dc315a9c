"""Readings of the ideal comprehender as a function of the parameters of a world."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equivocal.human_data.plausibility import AskedItems
from equivocal.world import World
from equivocal.world.prefixes import NO_NODE

__all__ = ["IdealReadings"]


class IdealReadings:
    """What the noisy-channel comprehender reads if derivations have other weights.

    Parameters
    ----------
    world : World
        The world whose derivations are weighed, as by `Reweighting.compute_weights`.
    asked : AskedItems
        The sentences.
    """

    def __init__(self, world: World, asked: AskedItems) -> None:
        everything = world.all_derivations
        agent = everything.derivations.fillers[:, world.roles.index("agent")]
        nodes = [everything.tree.find(world.encode(item.sentence)) for item in asked.items]
        heard = np.array([(everything.tree.node_of == node).any(axis=1) for node in nodes])
        heard[np.array(nodes) == NO_NODE] = False
        last = everything.tree.node_of.max(axis=1)  # nodes are numbered by depth
        word = world.lexicon.words.index
        self._heard = csr_array(heard.astype(float))
        self._whole = csr_array((heard & (last == np.array(nodes)[:, None])).astype(float))
        self._literal, self._reversed = (
            _select(heard, agent, [word(name) for name in names])
            for names in zip(*((item.agent, item.patient) for item in asked.items), strict=True)
        )

    def read(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (items, 3): probabilities of the readings; NaN where a sentence is never heard."""
        total = self._heard @ weights
        total[total == 0] = np.nan
        literal, reversed_ = (acts @ weights / total for acts in (self._literal, self._reversed))
        other = np.maximum(1 - literal - reversed_, 0)
        return np.stack([literal, reversed_, other], axis=1)

    def hear(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (items,): how probable each sentence is, whoever acts."""
        return np.asarray(self._whole @ weights)


def _select(heard: np.ndarray, agent: np.ndarray, words: Sequence[int]) -> csr_array:
    """Return (items, derivations): whether a sentence is heard and the item's word acts."""
    return csr_array((heard & (agent == np.array(words)[:, None])).astype(float))
