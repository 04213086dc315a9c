"""A corpus, which is sentences with the events they describe, and exact beliefs computed from it.

Beliefs are conditional on the words so far. They are about the output units of the answer to a
probe, or about whole events. `World.true_beliefs` and `World.literal_beliefs` are beliefs about
units, of a listener who expects noise and of one who does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equivocal.store.files import write_text_atomically
from equivocal.world.derivations import Derivations, collapse
from equivocal.world.errors import ImpossibleSentenceError, require_exact
from equivocal.world.queries import (
    NO_NODE,
    PrefixTree,
    Queries,
    build_prefix_tree,
    build_queries,
    list_constituents,
)
from equivocal.world.spelling import Utterance
from lastlayer.errors import UserError, check_known, join_names

if TYPE_CHECKING:
    import pandas as pd

    from equivocal.world.world import World

__all__ = ["compute_meaning_beliefs"]


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Corpus:
    """Sentences of one world with the events they describe, one per row.

    A row stands for `weight` sentences; in `World.all_derivations` the weight is a probability.
    """

    world: "World"
    derivations: Derivations

    def __len__(self) -> int:
        return len(self.derivations)

    @property
    def weight(self) -> NDArray[np.float64]:
        """How often each row occurred, or its probability."""
        return self.derivations.weight

    def distinct(self) -> "Corpus":
        """Merge rows with the same words and event into one with a count.

        Returns
        -------
        Corpus
            Weights are summed over merged rows.
        """
        return Corpus(self.world, collapse(self.derivations))

    def split(self, held_out: NDArray[np.bool_]) -> tuple["Corpus", "Corpus"]:
        """Split the sentences into those to train on and those held out.

        Both parts have the same distinct rows: a sentence that occurs in one part only has count
        zero in the other, so that prefix trees and questions of the two have the same shape and
        numbering.

        Parameters
        ----------
        held_out : (rows,)
            A mask of the rows to hold out.

        Returns
        -------
        kept, held_out : Corpus
            The two parts.
        """
        kept, other = (
            Corpus(self.world, collapse(self.derivations.reweight(self.weight * part)))
            for part in (~held_out, held_out)
        )
        return kept, other

    def take(self, rows: NDArray[np.intp]) -> "Corpus":
        """Return some of the rows.

        Parameters
        ----------
        rows : (n,)
            Row numbers.

        Returns
        -------
        Corpus
            These rows, in this order.
        """
        return Corpus(self.world, self.derivations.take(rows))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The sentence of each row."""
        return self.world.spell(self.derivations)

    @cached_property
    def tree(self) -> PrefixTree:
        """All prefixes of these sentences."""
        return build_prefix_tree(list_constituents(self.derivations, self.world.grammar))

    @cached_property
    def node_weight(self) -> NDArray[np.float64]:
        """How often each prefix of `tree` occurred, or its probability."""
        row, position = np.nonzero(self.tree.node_of != NO_NODE)
        nodes = self.tree.node_of[row, position]
        return np.asarray(np.bincount(nodes, self.weight[row], len(self.tree.parent)), np.float64)

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """The input tokens of each node of `tree`, as text."""
        names = np.array([*self.world.tokens, ""], dtype=object)  # last: no marker is -1
        texts: list[str] = []
        for parent, (word, marker) in zip(self.tree.parent, self.tree.tokens, strict=True):
            before = texts[parent] if parent >= 0 else ""
            texts.append(" ".join(filter(None, [before, names[marker], names[word]])))
        return tuple(texts)

    @cached_property
    def queries(self) -> Queries:
        """The questions about these sentences, with their mean answers."""
        return build_queries(self.derivations, self.tree, self.world.grammar)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return the sentences as a table.

        Returns
        -------
        pandas.DataFrame
            `sentence`, `construction`, a column for each role, and `count` or `probability`. In a
            world with noise, `noise` names the noise that affected the sentence, if any.
        """
        import pandas as pd

        words = np.array([*self.world.lexicon.words, ""], dtype=object)  # last: NO_FILLER is -1
        constructions, rows = self.world.grammar.constructions, self.derivations
        names = np.array([each.name for each in constructions], dtype=object)
        table = {"sentence": self.texts, "construction": names[rows.construction]}
        table |= dict(zip(self.world.roles, words[rows.fillers.T], strict=True))
        if self.world.has_noise:
            noise = np.array([each.noise for each in constructions], dtype=object)
            table["noise"] = noise[rows.construction]
        counts = self.weight.astype(np.int64)
        if np.array_equal(counts, self.weight):
            return pd.DataFrame({**table, "count": counts})
        return pd.DataFrame({**table, "probability": self.weight})

    def to_csv(self, path: str | Path) -> None:
        """Write `to_dataframe` as CSV.

        Parameters
        ----------
        path : str or Path
            The CSV file.
        """
        write_text_atomically(path, self.to_dataframe().to_csv(index=False))


def compute_beliefs(
    everything: Corpus, text: str | Utterance, role: str | None, filler: str | None, *, exact: bool
) -> "pd.Series[float]":
    """Compute the beliefs of a listener who expects `everything` with its probabilities.

    Parameters
    ----------
    everything : Corpus
        All sentences of a world, with noise or without.
    text : str or Utterance
        The words so far.
    role, filler : str, optional
        The probe: one of the two.
    exact : bool
        Whether `everything` is an enumeration and not a sample.
    """
    import pandas as pd

    world = everything.world
    utterance, node = _find_node(everything, text, exact=exact)
    pair = everything.queries.find(node, _find_probe(world, everything.queries, role, filler))
    if pair is None:
        asked = everything.queries.list_probes(node)
        raise ImpossibleSentenceError(
            f"{role or filler!r} is never asked after {str(utterance)!r} in world "
            f"{world.name!r}; what is asked there: {join_names(asked)}."
        )
    (beliefs,) = everything.queries.targets(slice(pair, pair + 1))
    return pd.Series(beliefs, index=pd.Index(world.units, name="unit"), name=role or filler)


def compute_joint_belief(
    everything: Corpus, text: str | Utterance, fillers: Mapping[str, str], *, exact: bool
) -> float:
    """Compute the probability that all these `fillers` have their roles, given the words so far."""
    world, rows = everything.world, everything.derivations
    node = _find_node(everything, text, exact=exact)[1]
    fits = everything.tree.node_of[:, everything.tree.depth[node] - 1] == node
    heard = rows.weight[fits].sum()
    for role, filler in fillers.items():
        check_known(role, world.roles, "role", f"world {world.name!r}: ")
        check_known(filler, world.lexicon.words, "word", f"world {world.name!r}: ")
        number = world.lexicon.words.index(filler)
        fits &= rows.fillers[:, world.roles.index(role)] == number
    return float(rows.weight[fits].sum() / heard)


def _find_node(everything: Corpus, text: str | Utterance, *, exact: bool) -> tuple[Utterance, int]:
    """Parse a sentence prefix and find its node, or explain why there is none."""
    world = everything.world
    utterance = world.parse(text)
    node = everything.tree.find(world.encode(utterance))
    if node == NO_NODE:
        heard, where = repr(str(utterance)), f"in world {world.name!r} begins with"
        why = f"nothing that happens {where} {heard}, so there is no true belief about it; a "
        why += "trained network can still be asked"
        if not exact:
            why = f"no sentence sampled {where} {heard}, so its probabilities are not known"
        elif everything is not world.all_derivations:
            why = f"without noise nothing {where} {heard}; `true_beliefs` says what was meant"
        raise ImpossibleSentenceError(f"{why}.")
    return utterance, node


def _find_probe(world: "World", queries: Queries, role: str | None, filler: str | None) -> int:
    """Find the number of a probe in the world's queries; -1 for one that is never asked."""
    if role is None and filler is not None:
        fits = (queries.probe_units == world.find_filler_units(filler)).all(axis=1)
        return int(np.argmax(fits)) if fits.any() else -1
    if role is None or filler is not None:
        raise UserError("ask with a role or with filler=, one of the two.")
    check_known(role, world.roles, "role", f"world {world.name!r}: ")
    return world.roles.index(role)


def compute_meaning_beliefs(
    world: "World", text: str | Utterance, *, literal: bool = False
) -> NDArray[np.float64]:
    """Compute the exact probability of every event before the first word and after each word.

    Parameters
    ----------
    world : World
        The world, which must be small enough to enumerate.
    text : str or Utterance
        A sentence, or a prefix of one.
    literal : bool
        Whether the listener takes every sentence literally, as if there were no noise.

    Returns
    -------
    array (words + 1, events)
        In the order of `World.events`, row 0 before the first word. NaN from the first word with
        which no sentence begins like this.

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
