"""A corpus as arrays for the network: each distinct prefix and question exactly once.

Sentences form a tree of prefixes (`equivocal.world.prefixes`). `compute_gestalts` walks it level
by level, so a prefix shared by a thousand sentences is processed once. `Questions` then pairs
the nodes of the tree with probes; equal pairs carry their number as a weight and their mean answer
as target, which leaves every cross-entropy unchanged (docs/network.md, "Each question once").
"""

from itertools import pairwise
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from equivocal.errors import UserError
from equivocal.gestalt.network import SentenceGestalt
from equivocal.world import Corpus, PrefixTree

__all__ = ["Level", "Questions", "collect_questions", "compute_features", "compute_gestalts"]

MAX_TARGET_BYTES = 2 * 2**30


class Level(NamedTuple):
    """All prefixes of one length."""

    parent: Int[Array, " nodes"]  # position in the level before
    tokens: Int[Array, "nodes 2"]


class Questions(NamedTuple):
    """What is asked: everything a forward pass over a corpus reads."""

    levels: tuple[Level, ...]
    probes: Float[Array, "probes units"]
    node: Int[Array, " pairs"]
    probe: Int[Array, " pairs"]


class Answers(NamedTuple):
    """What should be answered, and how often it is asked."""

    weight: Float[Array, " pairs"]  # sums to one
    target: Float[Array, "pairs units"]  # mean answer


def _split_levels(tree: PrefixTree) -> tuple[Level, ...]:
    """Cut the tree by depth, with parents renumbered within their level."""
    start = np.searchsorted(tree.depth, np.arange(1, tree.depth[-1] + 2))
    return tuple(
        Level(
            jnp.asarray(tree.parent[first:last] - (start[depth - 1] if depth else -1)),
            jnp.asarray(tree.tokens[first:last]),
        )
        for depth, (first, last) in enumerate(pairwise(start))
    )


def collect_questions(corpus: Corpus) -> Questions:
    """Collect the questions to a corpus."""
    queries = corpus.queries
    return Questions(
        levels=_split_levels(corpus.tree),
        probes=jnp.asarray(queries.probe_units, dtype=jnp.float32),
        node=jnp.asarray(queries.node),
        probe=jnp.asarray(queries.probe),
    )


def collect_answers(corpus: Corpus) -> Answers:
    """Collect the answers to the same corpus, in the same order."""
    queries = corpus.queries
    size = len(queries) * queries.answer_units.shape[1] * 4
    if size > MAX_TARGET_BYTES:
        raise UserError(
            f"{len(queries):,} distinct questions about {queries.answer_units.shape[1]:,} units "
            f"need {size / 2**30:.1f} GiB; at most {MAX_TARGET_BYTES >> 30} GiB are taken. "
            "Use fewer sentences or a smaller world."
        )
    return Answers(
        weight=jnp.asarray(queries.weight / queries.weight.sum(), dtype=jnp.float32),
        target=jnp.asarray(queries.targets(), dtype=jnp.float32),
    )


def compute_gestalts(
    network: SentenceGestalt, levels: tuple[Level, ...]
) -> Float[Array, "nodes gestalt"]:
    """Compute the gestalt of every prefix, in the order of the tree's nodes."""
    before = jnp.zeros((1, *network.update.gestalt_bias.shape))  # silence, parent of all
    every = []
    for level in levels:
        before = network.update(level.tokens, before[level.parent])
        every.append(before)
    return jnp.concatenate(every)


def compute_features(
    network: SentenceGestalt, questions: Questions
) -> Float[Array, "pairs hidden"]:
    """Compute ψ for every pair of a node and a probe."""
    gestalts = compute_gestalts(network, questions.levels)
    return network.query.features(gestalts, questions.probes, questions.node, questions.probe)
