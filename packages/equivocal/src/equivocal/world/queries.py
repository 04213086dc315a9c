"""Sentences as a tree of prefixes, the questions asked after each prefix, and their answers.

A constituent switches on one or two input tokens: a word and, where the construction has one, its
marker (`during` + `dinner`). Equal prefixes are one node of the tree, however many sentences share
it, so that computations per prefix are done once.

After every constituent, each role the event has is asked twice: once with the role as probe, once
with its filler. The answer is always role + filler. Many sentences share a prefix, so a (node,
probe) pair has a distribution over answers; its mean is P(unit = 1 | words so far, probe), exactly,
and for cross-entropy that mean with the pair's weight stands for all the single answers:
Σ_n CE(t_n, y) = n · CE(mean t, y).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equivocal.world.derivations import Derivations, sum_by_group
from equivocal.world.grammar import NO_FILLER, Grammar
from equivocal.world.schema import PLUS

__all__ = ["NO_NODE", "PrefixTree", "Queries", "list_constituents", "number_fillers"]


Ints = NDArray[np.int32]

NO_NODE = -1
ROUND_OFF = 1e-12


def list_constituents(derivations: Derivations, grammar: Grammar) -> NDArray[np.int32]:
    """Return (rows, positions, 2): word and marker token at each position, or NO_FILLER."""
    longest = max(len(construction.order) for construction in grammar.constructions)
    tokens = np.full((len(derivations), longest, 2), NO_FILLER, dtype=np.int32)
    length = np.zeros(len(derivations), dtype=np.intp)
    for number, construction in enumerate(grammar.constructions):
        in_construction = derivations.construction == number
        for role in construction.order:
            rows = np.flatnonzero(in_construction & derivations.said[:, role])
            fillers = derivations.fillers[rows, role]
            tokens[rows, length[rows], 0] = fillers
            tokens[rows, length[rows], 1] = construction.find_markers(role, fillers)
            length[rows] += 1
    return tokens[:, : max(1, length.max(initial=1))]


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class PrefixTree:
    """All distinct prefixes of some sentences. Nodes are sorted by depth, parents first."""

    parent: NDArray[np.int32]  # (nodes,): node without the last constituent, NO_NODE at depth one
    tokens: NDArray[np.int32]  # (nodes, 2): the last constituent
    depth: NDArray[np.int32]  # (nodes,): number of constituents
    node_of: NDArray[np.int32]  # (rows, positions): node after each constituent, or NO_NODE

    @cached_property
    def ends(self) -> NDArray[np.int32]:
        """The node of each whole sentence: its last, as nodes are numbered by depth."""
        return np.asarray(self.node_of.max(axis=1))

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
            node = self._next_nodes.get((node, word, marker), NO_NODE)
            if node == NO_NODE:
                break
        return node

    @cached_property
    def _next_nodes(self) -> dict[tuple[int, int, int], int]:
        """The node that follows a node and a constituent, a word and a marker."""
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


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Queries:
    """Distinct (node, probe) pairs, sorted by node then probe, with their answers.

    Probe p is a role for p < number of roles and a filler pattern otherwise; `probe_units` holds
    the units each switches on. Answers are kept sparse, as (pair, pattern, weight) triples, because
    (pairs × units) does not fit in memory for large worlds.
    """

    node: Ints  # (pairs,)
    probe: Ints  # (pairs,)
    weight: NDArray[np.float64]  # (pairs,)
    probe_units: NDArray[np.bool_]  # (probes, units)
    probe_names: tuple[str, ...]  # (probes,): a role, a word, or "word + what a construction adds"
    answer_units: NDArray[np.bool_]  # (answers, units)
    triple_pair: Ints  # (triples,), sorted
    triple_answer: Ints  # (triples,)
    triple_weight: NDArray[np.float64]  # (triples,)
    num_roles: int

    def __len__(self) -> int:
        return len(self.node)

    def targets(self, pairs: slice = slice(None)) -> NDArray[np.float64]:
        """Compute the mean answer to each pair, P(unit = 1 | words, probe).

        Parameters
        ----------
        pairs : slice
            Which pairs; by default all.

        Returns
        -------
        array (pairs, units)
            A pair of weight zero has no answer; its row is zero.
        """
        start, stop, _ = pairs.indices(len(self))
        inside = slice(*np.searchsorted(self.triple_pair, [start, stop]))
        total = self.weight[self.triple_pair[inside]]
        share = self.triple_weight[inside] / np.where(total > 0, total, 1.0)
        # one entry for each unit of each answer, which are few; SciPy's sparse arrays take a tenth
        # of a second to import
        size, units = self.answer_units.sum(axis=1), np.nonzero(self.answer_units)[1]
        answer, pair = self.triple_answer[inside], self.triple_pair[inside] - start
        number, first = size[answer], np.cumsum(size)[answer]
        entry = np.arange(number.sum()) + np.repeat(first - np.cumsum(number), number)
        shape = stop - start, self.answer_units.shape[1]
        place = np.ravel_multi_index((np.repeat(pair, number), units[entry]), shape)
        target = np.bincount(place, np.repeat(share, number), shape[0] * shape[1]).reshape(shape)
        target[target > 1 - ROUND_OFF] = 1.0  # shares of a certain answer sum to 1, nearly
        return np.asarray(target)

    def find_role_probes(self) -> NDArray[np.bool_]:
        """Return a mask of the pairs whose probe is a role.

        Returns
        -------
        array (pairs,)
            False where the probe is a filler.
        """
        return self.probe < self.num_roles

    def list_probes(self, node: int) -> list[str]:
        """List the names of the probes that are asked after a sentence prefix.

        Parameters
        ----------
        node : int
            The node of the prefix in the tree.

        Returns
        -------
        list of str
            Roles come first, then fillers.
        """
        return [self.probe_names[probe] for probe in self.probe[self.node == node]]

    def find(self, node: int, probe: int) -> int | None:
        """Find the pair of a node and a probe.

        Parameters
        ----------
        node : int
            The node of a sentence prefix in the tree.
        probe : int
            The number of the probe, an index of `probe_names`.

        Returns
        -------
        int or None
            The number of the pair; None where it is never asked.
        """
        hits = np.flatnonzero((self.node == node) & (self.probe == probe))
        return int(hits[0]) if len(hits) else None


def build_queries(derivations: Derivations, tree: PrefixTree, grammar: Grammar) -> Queries:
    """Build the questions about all sentences, weighted by the rows' weights."""
    lexicon = grammar.lexicon
    sets, filler = len(grammar.added_features), number_fillers(derivations, grammar)
    nodes, roles, fillers, weights = _list_questions(derivations, tree, filler)
    patterns, pattern = np.unique(fillers, return_inverse=True)
    num_roles, num_patterns = len(lexicon.roles), len(patterns)
    meaning = lexicon.features[patterns // sets] | grammar.added_features[patterns % sets]
    role_units = np.eye(num_roles, len(lexicon.units), dtype=bool)

    answer_codes, answer = np.unique(roles * num_patterns + pattern, return_inverse=True)
    node = np.concatenate([nodes, nodes])
    probe = np.concatenate([roles, num_roles + pattern]).astype(np.int64)
    answer = np.concatenate([answer, answer])
    num_probes, num_answers = num_roles + num_patterns, len(answer_codes)

    codes = (node.astype(np.int64) * num_probes + probe) * num_answers + answer
    triples, group = np.unique(codes, return_inverse=True)
    triple_weight = sum_by_group(group, np.concatenate([weights, weights]))
    pairs, triple_pair = np.unique(triples // num_answers, return_inverse=True)
    return Queries(
        node=(pairs // num_probes).astype(np.int32),
        probe=(pairs % num_probes).astype(np.int32),
        weight=sum_by_group(triple_pair, triple_weight),
        probe_units=np.concatenate([role_units, meaning]),
        probe_names=(*lexicon.roles, *_name_fillers(patterns, grammar)),
        answer_units=role_units[answer_codes // num_patterns]
        | meaning[answer_codes % num_patterns],
        triple_pair=triple_pair.astype(np.int32),
        triple_answer=(triples % num_answers).astype(np.int32),
        triple_weight=triple_weight,
        num_roles=num_roles,
    )


def number_fillers(derivations: Derivations, grammar: Grammar) -> Ints:
    """Return (rows, roles): a number for each word with the features its construction adds to it.

    A passive adds a feature to its agent. Where the event lacks a role, the number has no meaning.
    """
    adds = np.stack([construction.adds for construction in grammar.constructions])
    return derivations.fillers * len(grammar.added_features) + adds[derivations.construction]


def _name_fillers(patterns: Ints, grammar: Grammar) -> Iterator[str]:
    lexicon = grammar.lexicon
    for pattern in patterns:
        word, added = divmod(int(pattern), len(grammar.added_features))
        units = np.flatnonzero(grammar.added_features[added])
        yield PLUS.join([lexicon.words[word], *(lexicon.units[unit] for unit in units)])


def _list_questions(
    derivations: Derivations, tree: PrefixTree, filler: Ints
) -> tuple[Ints, Ints, Ints, NDArray[np.float64]]:
    """Return (node, role, filler, weight) of every question about every row."""
    parts = []
    for role in range(derivations.fillers.shape[1]):
        has = derivations.fillers[:, role] != NO_FILLER
        row, position = np.nonzero(has[:, None] & (tree.node_of != NO_NODE))
        parts.append((tree.node_of[row, position], np.full(len(row), role), filler[row, role], row))
    nodes, roles, fillers, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    return nodes, roles.astype(np.int32), fillers, derivations.weight[rows]
