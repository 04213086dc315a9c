"""Beliefs about whole events, word by word: P(event | words so far), with noise or without."""

import numpy as np
from numpy.typing import NDArray

from equivocal.world.parsing import Utterance
from equivocal.world.prefixes import NO_NODE
from equivocal.world.requirements import require_exact
from equivocal.world.world import World

__all__ = ["compute_meaning_beliefs"]


def compute_meaning_beliefs(
    world: World, text: str | Utterance, *, literal: bool = False
) -> NDArray[np.float64]:
    """Compute the exact probability of every event before the first word and after each word.

    Parameters
    ----------
    world : World
        What can happen and how it is said.
    text : str or Utterance
        The words.
    literal : bool
        Whether the listener takes every sentence as it was meant, and knows of no noise.

    Returns
    -------
    array (words + 1, events)
        In the order of `World.events`, row 0 before the first word. NaN from the word on at which
        no sentence begins like this.

    Raises
    ------
    UserError
        Where the world is too large to enumerate.
    """
    require_exact(world, "beliefs about its events are not known exactly")
    everything = world.literal_derivations if literal else world.all_derivations
    utterance, rows = world.parse(text), everything.derivations
    events, event = np.unique(rows.fillers, axis=0, return_inverse=True)
    beliefs = np.full((len(utterance) + 1, len(events)), np.nan)
    pairs = [tuple(pair) for pair in world.encode(utterance).tolist()]
    for size in range(len(pairs) + 1):
        node = everything.tree.find(pairs[:size])
        if size and node == NO_NODE:
            break
        fits = everything.tree.node_of[:, size - 1] == node if size else np.ones(len(rows), bool)
        weight = np.bincount(event.ravel()[fits], rows.weight[fits], len(events))
        beliefs[size] = weight / weight.sum()
    return beliefs
