"""Exact beliefs given the words so far: about units of answers to a probe, and about whole events.

`World.true_beliefs` and `World.literal_beliefs` are the first, of a listener who expects noise and
of one who does not.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equivocal.errors import UserError, check_known, join_names
from equivocal.world.corpus import Corpus
from equivocal.world.errors import ImpossibleSentenceError, require_exact
from equivocal.world.queries import NO_NODE, Queries
from equivocal.world.spelling import Utterance

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.world.world import World

__all__ = ["compute_meaning_beliefs"]


def compute_beliefs(
    everything: Corpus, text: str | Utterance, role: str | None, filler: str | None, *, exact: bool
) -> "pd.Series[float]":
    """Compute the beliefs of a listener who expects `everything` with its probabilities.

    Parameters
    ----------
    everything : Corpus
        Whatever is said in a world, with noise or without.
    text : str or Utterance
        The words so far.
    role, filler : str, optional
        The probe: one of the two.
    exact : bool
        Whether `everything` is enumerated, or else a sample.
    """
    import pandas as pd

    world = everything.world
    utterance = world.parse(text)
    node = everything.tree.find(world.encode(utterance))
    if node == NO_NODE:
        literal = everything is not world.all_derivations
        raise ImpossibleSentenceError(_explain_unheard(world.name, utterance, exact, literal))
    pair = everything.queries.find(node, _find_probe(world, everything.queries, role, filler))
    if pair is None:
        asked = everything.queries.list_probes(node)
        raise ImpossibleSentenceError(
            f"{role or filler!r} is never asked after {str(utterance)!r} in world "
            f"{world.name!r}; what is asked there: {join_names(asked)}."
        )
    (beliefs,) = everything.queries.targets(slice(pair, pair + 1))
    return pd.Series(beliefs, index=pd.Index(world.units, name="unit"), name=role or filler)


def _explain_unheard(name: str, utterance: Utterance, exact: bool, literal: bool) -> str:
    """Explain why there is no belief about words that never begin a sentence."""
    heard = repr(str(utterance))
    if not exact:
        return (
            f"no sentence sampled from world {name!r} begins with {heard}; it may be possible all "
            "the same, but what is true of it is not known."
        )
    if literal:
        return (
            f"without noise nothing in world {name!r} begins with {heard}, so there is no literal "
            "belief about it; `true_beliefs` tells what was meant."
        )
    return (
        f"nothing that happens in world {name!r} begins with {heard}, so there is no true belief "
        "about it; a trained network can still be asked."
    )


def _find_probe(world: "World", queries: Queries, role: str | None, filler: str | None) -> int:
    """Find the number of a probe in the world's queries; -1 for one that is never asked."""
    if (role is None) == (filler is None):
        raise UserError("ask with a role or with filler=, one of the two.")
    if role is None:
        units = world.find_filler_units("" if filler is None else filler)
        fits = (queries.probe_units == units).all(axis=1)
        return int(np.argmax(fits)) if fits.any() else -1
    check_known(role, world.roles, "role", f"world {world.name!r}: ")
    return world.roles.index(role)


def compute_meaning_beliefs(
    world: "World", text: str | Utterance, *, literal: bool = False
) -> NDArray[np.float64]:
    """Compute the exact probability of every event before the first word and after each word.

    Parameters
    ----------
    world : World
        What can happen and how it is said.
    text : str or Utterance
        The words.
    literal : bool
        Whether the listener takes every sentence literally, as if there were no noise.

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
    pairs = world.encode(utterance)
    for size in range(len(pairs) + 1):
        node = everything.tree.find(pairs[:size])
        if size and node == NO_NODE:
            break
        fits = everything.tree.node_of[:, size - 1] == node if size else np.ones(len(rows), bool)
        weight = np.bincount(event.ravel()[fits], rows.weight[fits], len(events))
        beliefs[size] = weight / weight.sum()
    return beliefs
