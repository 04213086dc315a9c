"""`Comprehenders`: several networks in the place of one, whatever made them differ.

A posterior over weights, an ensemble of trained networks and dropout that stays on all come to the
same: M networks with the same layers. They are one `SentenceGestalt` whose arrays have an axis of
members in front. What they believe together is the mean of their beliefs,

    p̄ = E[y],     H(p̄) = E[H(y)] + I,

and I, the information that an answer would give about which member is right, is their doubt about
their own knowledge (Depeweg et al. 2018); E[H(y)] is doubt about the event.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from equivocal.gestalt import SentenceGestalt
from equivocal.gestalt.questions import Level, Questions, compute_features
from equivocal.world import Utterance, World, role_unit

__all__ = [
    "Comprehenders",
    "Together",
    "questions_about",
    "shared_by",
    "with_last_layers",
]


class Together(NamedTuple):
    """What all members believe of each question and unit; logarithms keep small beliefs."""

    log_yes: Float[np.ndarray, "pairs units"]  # log p̄
    log_no: Float[np.ndarray, "pairs units"]  # log (1 − p̄)
    own_entropy: Float[np.ndarray, "pairs units"]  # E[H(y)]

    @property
    def belief(self) -> Float[np.ndarray, "pairs units"]:
        """p̄."""
        return np.asarray(np.exp(self.log_yes))

    @property
    def entropy(self) -> Float[np.ndarray, "pairs units"]:
        """H(p̄)."""
        yes, no = self.log_yes, self.log_no
        return np.asarray(-(np.exp(yes) * yes + np.exp(no) * no))

    @property
    def information(self) -> Float[np.ndarray, "pairs units"]:
        """I; round-off below zero is none."""
        return np.asarray(np.maximum(self.entropy - self.own_entropy, 0))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comprehenders:
    """M networks of one world, and what it cost to have them instead of one."""

    kind: str
    models: SentenceGestalt  # every array (M, …)
    world: World
    seconds: float  # beyond the training of one network
    passes: int  # of a network over the training corpus, likewise; 0 where that is not counted
    message: str = ""  # whether to trust them
    converged: bool | None = None  # whether sampling came to rest; None where there was none
    bytes_each: int | None = None  # what makes a member of one network, if less than its arrays

    def __len__(self) -> int:
        return len(self.models.query.output_bias)

    def __repr__(self) -> str:
        return f"<{len(self)} comprehenders by {self.kind}; {self.message or 'nothing to add'}>"

    @property
    def bytes(self) -> int:
        """What there is to keep beyond one network; an array that all members share is no more."""
        if self.bytes_each is not None:
            return self.bytes_each * len(self)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.models)]
        return sum(leaf.nbytes - leaf[0].nbytes for leaf in leaves if leaf.strides[0])

    def some(self, members: Sequence[int]) -> "Comprehenders":
        """The same with some of the members."""
        chosen = jax.tree.map(lambda leaf: np.asarray(leaf)[list(members)], self.models)
        return replace(self, models=chosen)

    def beliefs(self, texts: Sequence[str | Utterance]) -> Float[np.ndarray, "M texts roles units"]:
        """What each member believes about every role after the last word of each text."""
        heard = [self.world.parse(text) for text in texts]
        questions = questions_about(self.world, heard, [len(text) for text in heard])
        found = np.stack(
            [np.asarray(_beliefs(_member(self.models, m), questions)) for m in range(len(self))]
        )
        return found.reshape(len(self), len(heard), len(self.world.roles), -1)

    def together(self, questions: Questions) -> Together:
        """What all of them believe, question by question."""
        found = _together(jax.tree.map(jnp.asarray, self.models), questions)
        return Together(*(np.asarray(part, np.float64) for part in found))


def with_last_layers(
    model: SentenceGestalt, particles: Float[np.ndarray, "units M D"]
) -> SentenceGestalt:
    """Members that differ in their last layer (ψ, 1) → units alone."""
    theta = np.asarray(particles, np.float32).transpose(1, 2, 0)  # M D units
    members: SentenceGestalt = eqx.tree_at(
        lambda each: (each.query.output_weight, each.query.output_bias),
        shared_by(model, len(theta)),
        (theta[:, :-1], theta[:, -1]),
    )
    return members


def shared_by(model: SentenceGestalt, members: int) -> SentenceGestalt:
    """The same arrays for all members, held once."""

    def repeated(leaf: Array) -> np.ndarray:
        return np.broadcast_to(np.asarray(leaf), (members, *leaf.shape))

    shared: SentenceGestalt = jax.tree.map(repeated, model)
    return shared


def _member(models: SentenceGestalt, number: int) -> SentenceGestalt:
    member: SentenceGestalt = jax.tree.map(lambda leaf: leaf[number], models)
    return member


@jax.jit
def _beliefs(model: SentenceGestalt, questions: Questions) -> Array:
    return jax.nn.sigmoid(model.query.logits(compute_features(model, questions)))


@jax.jit
def _together(models: SentenceGestalt, questions: Questions) -> tuple[Array, Array, Array]:
    """Member after member, so that only their sums are held."""

    def add(
        total: tuple[Array, Array, Array], model: SentenceGestalt
    ) -> tuple[tuple[Array, Array, Array], None]:
        a = model.query.logits(compute_features(model, questions))
        yes, no = jax.nn.log_sigmoid(a), jax.nn.log_sigmoid(-a)
        entropy = -(jnp.exp(yes) * yes + jnp.exp(no) * no)
        log_yes, log_no, own = total
        return (jnp.logaddexp(log_yes, yes), jnp.logaddexp(log_no, no), own + entropy), None

    M = len(models.query.output_bias)
    shape = (len(questions.node), models.query.output_bias.shape[1])
    nothing = jnp.full(shape, -jnp.inf)
    (log_yes, log_no, own), _ = jax.lax.scan(add, (nothing, nothing, jnp.zeros(shape)), models)
    # M equal beliefs add up to a little more than themselves; none is above one
    mean_yes, mean_no = (jnp.minimum(part - jnp.log(M), 0) for part in (log_yes, log_no))
    return mean_yes, mean_no, own / M


def questions_about(world: World, heard: Sequence[Utterance], position: Sequence[int]) -> Questions:
    """Every role, asked after the word at `position` (from 1) of each sentence.

    The sentences need not be of the world, so each is a branch of its own.
    """
    S, roles = len(heard), len(world.roles)
    tokens = np.full((max(position), S, 2), -1, np.int32)  # −1, no token, past the end
    for number, (utterance, last) in enumerate(zip(heard, position, strict=True)):
        tokens[:last, number] = world.encode(utterance)[:last]
    every = np.arange(S)
    parents = [np.zeros(S, int), *[every] * (len(tokens) - 1)]  # all begin in silence
    probes = np.stack([world.lexicon.unit_mask((role_unit(role),)) for role in world.roles])
    return Questions(
        levels=tuple(
            Level(jnp.asarray(parent), jnp.asarray(level))
            for parent, level in zip(parents, tokens, strict=True)
        ),
        probes=jnp.asarray(probes, jnp.float32),
        node=jnp.asarray(np.repeat((np.asarray(position) - 1) * S + every, roles)),
        probe=jnp.asarray(np.tile(np.arange(roles), S)),
    )
