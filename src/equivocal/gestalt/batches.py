"""A pass over the corpus in batches of sentences, as arrays for a scan over steps.

A step asks every question about every sentence of its batch, as a plain loop would. A question (a
prefix and a probe) that several sentences of the batch share is answered once and counted as
often as it is asked. That leaves the gradient as it is: in Σ_n [log(1 + exp z) − t_n z] the logit z
is one and the same, and the answers t_n enter by their sum.

All arrays are made on the host, once per pass, and serve every network of a study. Long passes come
in chunks, so that memory does not grow with the corpus.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from equivocal.gestalt.network import SentenceGestalt
from equivocal.world import Corpus
from equivocal.world.grammar import NO_FILLER
from equivocal.world.prefixes import NO_NODE, list_constituents

__all__ = ["Batch", "BatchPlan", "add_answers", "compute_batch_features"]

CHUNK = 1_000  # steps; more in one scan save nothing
ROUND_UP = 64  # numbers of questions are padded to multiples, so that passes share a program


class Batch(NamedTuple):
    """The sentences of a step and what is asked; in a pass every array has an axis over steps."""

    tokens: Int[Array, "*steps sentences words 2"]  # -1: no token
    place: Int[Array, "*steps questions"]  # sentence · words + position of the prefix
    probe: Int[Array, "*steps questions"]
    times: Float[Array, "*steps questions"]  # how often it is asked; 0: padding
    answered: Int[Array, "*steps answers"]  # the question, for each time that it is asked
    role: Int[Array, "*steps answers"]  # probe of the answer's role
    filler: Int[Array, "*steps answers"]  # probe of the answer's filler
    sentences: Float[Array, "*steps"]  # how many; the last batch of a pass may be smaller


def compute_batch_features(
    network: SentenceGestalt, batch: Batch, probes: Float[Array, "probes units"], through_time: bool
) -> Float[Array, "questions hidden"]:
    """Compute ψ for the questions of a batch."""
    gestalts = network.listen(batch.tokens, through_time=through_time)
    gestalts = gestalts.reshape(-1, gestalts.shape[-1])
    return network.query.features(gestalts, probes, batch.place, batch.probe)


def add_answers(
    batch: Batch, probes: Float[Array, "probes units"]
) -> Float[Array, "questions units"]:
    """Return the sum of all answers to each question; an answer is a role and its filler."""
    answers = jnp.maximum(probes[batch.role], probes[batch.filler])
    total = jnp.zeros((len(batch.probe), probes.shape[1]))
    return total.at[batch.answered].add(answers, mode="drop")  # padding points past the end


class BatchPlan:
    """Cuts shuffled passes over a corpus into batches.

    Parameters
    ----------
    corpus : Corpus
        What is heard; a row of weight n is heard n times in a pass.
    size : int
        Sentences in a batch.
    """

    def __init__(self, corpus: Corpus, size: int) -> None:
        self.size = size
        self.sentences = np.repeat(np.arange(len(corpus)), corpus.weight.astype(np.intp))
        self._tokens = list_constituents(corpus.derivations, corpus.world.grammar)
        self._list_questions(corpus)
        self._num_questions = 0  # the padded size, which only grows
        self._num_answers = size * int(np.diff(self._start).max())

    @property
    def num_steps(self) -> int:
        """The number of batches in a pass."""
        return -(-len(self.sentences) // self.size)

    def _list_questions(self, corpus: Corpus) -> None:
        """List what is asked about each row: position, node, probe, and the answer's two probes."""
        rows, grammar = corpus.derivations, corpus.world.grammar
        adds = np.stack([construction.adds for construction in grammar.constructions])
        pattern = rows.fillers * len(grammar.added_features) + adds[rows.construction]
        has = rows.fillers != NO_FILLER
        num_roles = has.shape[1]
        # numbered as the probes of `corpus.queries`: roles, then what fills them, sorted
        filler = np.zeros_like(pattern)
        filler[has] = num_roles + np.unique(pattern[has], return_inverse=True)[1]
        node_of = corpus.tree.node_of
        row, position, role = np.nonzero(has[:, None, :] & (node_of != NO_NODE)[:, :, None])
        both = np.stack([role, filler[row, role]], axis=1)  # asked by role, then by filler
        self._start = np.searchsorted(row, np.arange(len(rows) + 1)) * 2
        self._position = np.repeat(position, 2)
        self._probe = both.ravel()
        self._answer = np.repeat(both, 2, axis=0)
        self._code = np.repeat(node_of[row, position], 2) * (int(filler.max()) + 1) + self._probe

    def shuffle(self, rng: np.random.Generator, chunk: int = CHUNK) -> Iterator[Batch]:
        """Yield a pass in which every sentence is used once, in random order.

        It comes in parts of at most `chunk` steps.
        """
        order = self.sentences[rng.permutation(len(self.sentences))]
        chunks = -(-self.num_steps // chunk)
        for steps in np.array_split(np.arange(self.num_steps), chunks):
            yield self._stack(order[steps[0] * self.size : (steps[-1] + 1) * self.size], len(steps))

    def _stack(self, order: NDArray[np.intp], num_steps: int) -> Batch:
        """Build the batches of some steps from the rows that are heard in them."""
        asked = np.diff(self._start)[order]
        heard = np.repeat(np.arange(len(order)), asked)  # the sentence of each answer
        first = np.cumsum(asked) - asked
        own = np.arange(len(heard)) + (self._start[order] - first)[heard]
        step, slot = np.divmod(heard, self.size)
        code = step * (int(self._code.max()) + 1) + self._code[own]
        _, example, question, count = np.unique(
            code, return_index=True, return_inverse=True, return_counts=True
        )
        asks, answers = _Layout(step[example], num_steps), _Layout(step, num_steps)
        self._num_questions = max(self._num_questions, -(-asks.width // ROUND_UP) * ROUND_UP)
        wide, long = self._num_questions, self._num_answers
        words = self._tokens.shape[1]
        tokens = np.full((num_steps * self.size, words, 2), NO_FILLER, dtype=np.int32)
        tokens[: len(order)] = self._tokens[order]
        sentences = np.bincount(np.arange(len(order)) // self.size).astype(np.float32)
        role, filler = self._answer[own].T
        return Batch(
            tokens=jnp.asarray(tokens.reshape(num_steps, self.size, words, 2)),
            place=asks.lay_out(slot[example] * words + self._position[own[example]], wide),
            probe=asks.lay_out(self._probe[own[example]], wide),
            times=asks.lay_out(count.astype(np.float32), wide),
            answered=answers.lay_out(asks.rank[question], long, empty=wide),
            role=answers.lay_out(role, long),
            filler=answers.lay_out(filler, long),
            sentences=jnp.asarray(sentences),
        )


class _Layout:
    """Turns values that are sorted by step into a table with a row for each step."""

    def __init__(self, step: NDArray[np.intp], num_steps: int) -> None:
        self.step, self.num_steps = step, num_steps
        self.rank = np.arange(len(step)) - np.searchsorted(step, np.arange(num_steps))[step]
        self.width = int(self.rank.max()) + 1

    def lay_out(self, values: NDArray[Any], width: int, empty: int = 0) -> Array:
        kind = np.float32 if values.dtype.kind == "f" else np.int32
        table = np.full((self.num_steps, width), empty, dtype=kind)
        table[self.step, self.rank] = values
        return jnp.asarray(table)
