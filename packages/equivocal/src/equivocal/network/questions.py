"""A corpus as arrays for the network, and the loss of its answers.

Each distinct prefix and question is computed exactly once. Sentences form a tree of prefixes
(`equivocal.world.queries`). `compute_gestalts` walks it level by level, so a prefix shared by a
thousand sentences is processed once. `Questions` then pairs the nodes of the tree with probes;
equal pairs carry their number as a weight and their mean answer as target, which leaves every
cross-entropy unchanged (maths.md, "The network").

`BatchPlan` cuts a pass over the corpus into batches of sentences, for a scan over steps. A step
asks every question about every sentence of its batch, as a plain loop would. A question that
several sentences of the batch share is answered once and counted as often as it is asked. That
leaves the gradient as it is: in Σ_n [log(1 + exp z) − t_n z] the logit z is one and the same, and
the answers t_n enter by their sum. All arrays are made on the host, once per pass, and are shared
by all networks of a study. Long passes are cut into chunks, so that memory does not grow with the
corpus.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key
from numpy.typing import NDArray

from equivocal.network.sentence_gestalt import SentenceGestalt
from equivocal.network.settings import TrainingSettings
from equivocal.world import Corpus
from equivocal.world.grammar import NO_FILLER
from equivocal.world.queries import NO_NODE, PrefixTree, list_constituents, number_fillers
from lastlayer.errors import UserError

__all__ = ["Level", "Questions", "collect_questions", "compute_features", "compute_gestalts"]

MAX_TARGET_BYTES = 2 * 2**30
CHUNK = 1_000  # steps in a scan; longer scans are no faster
ROUND_UP = 64  # questions are padded to a multiple of it, so that passes share a compiled program


class Level(NamedTuple):
    """All prefixes of one length."""

    parent: Int[Array, " nodes"]  # position in the level before
    tokens: Int[Array, "nodes 2"]


class Questions(NamedTuple):
    """The questions about a corpus: everything that a forward pass reads."""

    levels: tuple[Level, ...]
    probes: Float[Array, "probes units"]
    node: Int[Array, " pairs"]
    probe: Int[Array, " pairs"]


class Answers(NamedTuple):
    """The target of each question, and how often it is asked."""

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
    """Collect the questions about a corpus."""
    queries = corpus.queries
    return Questions(
        levels=_split_levels(corpus.tree),
        probes=jnp.asarray(queries.probe_units, dtype=jnp.float32),
        node=jnp.asarray(queries.node),
        probe=jnp.asarray(queries.probe),
    )


def collect_answers(corpus: Corpus) -> Answers:
    """Collect the targets of `collect_questions`, in the same order."""
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
    before = jnp.zeros((1, *network.update.gestalt_bias.shape))  # parent of the first level
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


def score_answers(
    logits: Float[Array, "pairs units"], answers: Answers
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return L(w), and the share of units on the right side of ½, over all questions.

    With a mean answer t, an output above ½ is right in a share t of the cases, one below in 1−t.
    """
    loss = compute_cross_entropy(logits, answers.target)
    right = jnp.where(logits > 0, answers.target, 1 - answers.target).mean(axis=1)
    return answers.weight @ loss, answers.weight @ right


def compute_cross_entropy(
    logits: Float[Array, "rows units"], target: Float[Array, "rows units"]
) -> Float[Array, " rows"]:
    """Return the cross-entropy of each row, summed over units."""
    return (jax.nn.softplus(logits) - target * logits).sum(axis=1)


def estimate_loss(
    network: SentenceGestalt,
    batch: Questions,
    target: Float[Array, "batch units"],
    kept: Float[Array, "batch hidden"] | None,
    settings: TrainingSettings,
) -> Float[Array, ""]:
    """Estimate L(w) from questions drawn in proportion to their weight.

    `kept` scales ψ: 0 where a unit is dropped, 1/(1−ρ) elsewhere.
    """
    psi = compute_features(network, batch)
    loss = compute_cross_entropy(
        network.query.logits(psi if kept is None else psi * kept), target
    ).mean()
    return loss / target.shape[1] if settings.loss == "mean" else loss


def draw_rows(
    key: Key[Array, ""], cumulative: Float[Array, " pairs"], size: int
) -> Int[Array, " batch"]:
    """Draw rows by systematic sampling: `size` evenly spaced points with one random offset."""
    points = (jnp.arange(size, dtype=jnp.float32) + jax.random.uniform(key)) / size
    return jnp.searchsorted(cumulative, points * cumulative[-1])


class Batch(NamedTuple):
    """The sentences of a step and their questions; in a pass, arrays have an axis over steps."""

    tokens: Int[Array, "*steps sentences words 2"]  # -1: no token
    place: Int[Array, "*steps questions"]  # sentence · words + position of the prefix
    probe: Int[Array, "*steps questions"]
    times: Float[Array, "*steps questions"]  # how often it is asked; 0: padding
    answered: Int[Array, "*steps answers"]  # the question that each answer belongs to
    role: Int[Array, "*steps answers"]  # probe of the answer's role
    filler: Int[Array, "*steps answers"]  # probe of the answer's filler
    sentences: Float[Array, "*steps"]  # how many sentences; fewer in the last batch of a pass


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
        The sentences; a row of weight n occurs n times in a pass.
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
        """List the questions about each row: position, node, probe, and the answer's two probes."""
        rows = corpus.derivations
        pattern, has = number_fillers(rows, corpus.world.grammar), rows.fillers != NO_FILLER
        num_roles = has.shape[1]
        # numbered as the probes of `corpus.queries`: roles, then fillers, sorted
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
        """Build the batches of some steps from the corpus rows of their sentences, in order."""
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


def compute_batch_loss(
    network: SentenceGestalt,
    batch: Batch,
    probes: Float[Array, "probes units"],
    answers: Float[Array, "questions units"],
    kept: Float[Array, "questions hidden"] | None,
    settings: TrainingSettings,
) -> Float[Array, ""]:
    """Compute the loss of a batch of sentences from its distinct questions."""
    gestalts = network.listen(batch.tokens, through_time=settings.through_time)
    gestalts = gestalts.reshape(-1, gestalts.shape[-1])
    psi = network.query.features(gestalts, probes, batch.place, batch.probe)
    logits = network.query.logits(psi if kept is None else psi * kept)
    total = batch.times @ jax.nn.softplus(logits).sum(axis=1) - (answers * logits).sum()
    units = answers.shape[1] if settings.loss == "mean" else 1
    return total / (batch.sentences if settings.loss == "total" else batch.times.sum() * units)
