"""Sentences as sequences of constituents, and the tree of all their prefixes.

A constituent switches on one or two input tokens: a word and, where the construction has one, its
marker (`during` + `dinner`). Equal prefixes are one node of the tree, however many sentences
share it, so whatever is computed per prefix is computed once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equivocal.world.derivations import Derivations
from equivocal.world.grammar import NO_FILLER, Grammar

__all__ = ["NO_NODE", "list_constituents"]

NO_NODE = -1


def list_constituents(derivations: Derivations, grammar: Grammar) -> NDArray[np.int32]:
    """Return (rows, positions, 2): word and marker token at each position, or NO_FILLER."""
    longest = max(len(c.order) + (c.inserted is not None) for c in grammar.constructions)
    tokens = np.full((len(derivations), longest, 2), NO_FILLER, dtype=np.int32)
    length = np.zeros(len(derivations), dtype=np.intp)
    for number, construction in enumerate(grammar.constructions):
        told_so = derivations.construction == number
        for role in construction.order:
            rows = np.flatnonzero(told_so & derivations.said[:, role])
            fillers = derivations.fillers[rows, role]
            heard = [(fillers, construction.find_markers(role, fillers))]
            if construction.inserted is not None and construction.inserted[0] == role:
                _, word, before = construction.inserted
                extra = np.full_like(fillers, word), np.full_like(fillers, NO_FILLER)
                heard.insert(0 if before else 1, extra)
            for words, markers in heard:
                tokens[rows, length[rows], 0] = words
                tokens[rows, length[rows], 1] = markers
                length[rows] += 1
    return tokens[:, : max(1, length.max(initial=1))]


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class PrefixTree:
    """All distinct prefixes of some sentences. Nodes are sorted by depth, parents first."""

    parent: NDArray[np.int32]  # (nodes,): node without the last constituent, NO_NODE at depth one
    tokens: NDArray[np.int32]  # (nodes, 2): the last constituent
    depth: NDArray[np.int32]  # (nodes,): number of constituents
    node_of: NDArray[np.int32]  # (rows, positions): node after each constituent, or NO_NODE

    def find(self, constituents: ArrayLike) -> int:
        """Find the node of a sentence prefix.

        Parameters
        ----------
        constituents : array-like (constituents, 2)
            Word and marker of each constituent, as `World.encode` numbers them.

        Returns
        -------
        int
            The node, or NO_NODE where no sentence has this prefix.
        """
        node = NO_NODE
        for word, marker in np.asarray(constituents).tolist():
            node = self._following.get((node, word, marker), NO_NODE)
            if node == NO_NODE:
                break
        return node

    @cached_property
    def _following(self) -> dict[tuple[int, int, int], int]:
        """The node after a node and a constituent."""
        heard = zip(self.parent.tolist(), self.tokens.tolist(), strict=True)
        return {(parent, word, marker): node for node, (parent, (word, marker)) in enumerate(heard)}


def build_prefix_tree(tokens: NDArray[np.int32]) -> PrefixTree:
    """Build the tree of the sentences in `tokens`, as from `list_constituents`."""
    rows, positions, _ = tokens.shape
    node_of = np.full((rows, positions), NO_NODE, dtype=np.int32)
    parents, lasts, depths = [], [], []
    known = 0
    before = np.full(rows, NO_NODE, dtype=np.int32)
    for position in range(positions):
        live = np.flatnonzero(tokens[:, position, 0] != NO_FILLER)
        keys = np.column_stack([before[live], tokens[live, position]])
        distinct, group = np.unique(keys, axis=0, return_inverse=True)
        node_of[live, position] = known + group.ravel()
        parents.append(distinct[:, 0])
        lasts.append(distinct[:, 1:])
        depths.append(np.full(len(distinct), position + 1, dtype=np.int32))
        known += len(distinct)
        before = node_of[:, position]
    return PrefixTree(
        np.concatenate(parents), np.concatenate(lasts), np.concatenate(depths), node_of
    )
