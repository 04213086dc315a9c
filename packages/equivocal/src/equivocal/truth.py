"""Beliefs about role reversals, against the exact beliefs of a world in which they are possible.

In the world `slips` the speaker of "during dinner, the pizza eats the woman" may mean it or make a
slip, each with a probability that the world defines. At the last word agent and patient are
queried, and the units of the two nouns are compared with the truth:

    KL = ½ Σ_{u ∈ two nouns} t_u log(t_u / p_u) + (1 − t_u) log((1 − t_u) / (1 − p_u))          (1)

in nats per unit: the mean of two Bernoulli divergences, since output units are independent of each
other given the question. t_u is the exact P(unit = 1 | words so far, role), p_u the mean belief of
all members. An error is the mean of (1) over sentences and the two roles. Only the units of the
nouns are needed, so a posterior is sampled for some 26 of 176 outputs:

    asked = ask_about_reversals(world)
    rows = collect_rows(network, corpus).select(asked.units)
    beliefs = pool_particles(asked.compute_psi(network), posterior.particles)
    asked.measure(beliefs)                              {"kl_reversal": …, "kl_congruent": …}

A posterior, an ensemble of networks and dropout masks are all sets of members that answer together:
their belief is the mean of their beliefs, and its entropy is the sum of aleatoric uncertainty
(about the event) and epistemic uncertainty (about the weights; Depeweg et al. 2018),

    p̄ = E[y],     H(p̄) = E[H(y)] + I.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int
from scipy.special import entr

from equivocal.network import Network
from equivocal.network.questions import Level, Questions, compute_features
from equivocal.world import Utterance, World, find_role_reversals
from equivocal.world.grammar import name_role_unit
from equivocal.world.reversals import RoleReversal
from lastlayer import Posterior

__all__ = [
    "PooledBeliefs",
    "ReversalQuestions",
    "ask_about_reversals",
    "average_beliefs",
    "divide_logits",
    "pool_gaussian",
    "pool_logits",
    "pool_members",
    "pool_particles",
]

ROLES = ("agent", "patient")
CONDITIONS = ("congruent", "reversal")
# A trapezoid rule misses by exp(−2π²/h), where h is its spacing in logits (the logistic function's
# nearest pole is at iπ): with at most 1.3, by 3e-7.
WIDEST, FEWEST_NODES = 1.3, 33


class PooledBeliefs(NamedTuple):
    """The mean belief of all members in each question and unit; logarithms do not underflow."""

    log_yes: Float[np.ndarray, "*settings questions units"]  # log p̄
    log_no: Float[np.ndarray, "*settings questions units"]  # log (1 − p̄)
    aleatoric: Float[np.ndarray, "*settings questions units"]  # E[H(y)]

    @property
    def belief(self) -> Float[np.ndarray, "*settings questions units"]:
        """The mean belief p̄."""
        return np.asarray(np.exp(self.log_yes))

    @property
    def entropy(self) -> Float[np.ndarray, "*settings questions units"]:
        """The total uncertainty H(p̄)."""
        yes, no = self.log_yes, self.log_no
        return np.asarray(-(np.exp(yes) * yes + np.exp(no) * no))

    @property
    def epistemic(self) -> Float[np.ndarray, "*settings questions units"]:
        """The epistemic uncertainty I; values below zero, due to round-off, count as zero."""
        return np.asarray(np.maximum(self.entropy - self.aleatoric, 0))

    def compute_divergence(
        self, truth: Float[np.ndarray, "questions units"]
    ) -> Float[np.ndarray, "*settings questions units"]:
        """Compute the divergence from true probabilities, unit by unit, in nats."""
        cross = -(truth * self.log_yes + (1 - truth) * self.log_no)
        return np.asarray(cross - entr(truth) - entr(1 - truth))


@jax.jit
def _pool(logits: Any, members: Any, log_weights: Array) -> tuple[Array, Array, Array]:
    """Sum over members one by one, so that only the sums are in memory."""

    def add(total: tuple[Array, Array, Array], one: Any) -> tuple[tuple[Array, Array, Array], None]:
        log_yes, log_no, entropy = total
        member, log_w = one
        a = logits(member).astype(log_w.dtype)
        yes, no = jax.nn.log_sigmoid(a), jax.nn.log_sigmoid(-a)
        own = -(jnp.exp(yes) * yes + jnp.exp(no) * no)
        yes, no = jnp.logaddexp(log_yes, log_w + yes), jnp.logaddexp(log_no, log_w + no)
        return (yes, no, entropy + jnp.exp(log_w) * own), None

    shape = jax.eval_shape(logits, jax.tree.map(lambda leaf: leaf[0], members))
    nothing = jnp.full(shape.shape, -jnp.inf, log_weights.dtype)
    start = (nothing, nothing, jnp.zeros_like(nothing))
    (log_yes, log_no, entropy), _ = jax.lax.scan(add, start, (members, log_weights))
    # by round-off the mean of equal beliefs may exceed one
    return jnp.minimum(log_yes, 0), jnp.minimum(log_no, 0), entropy


def pool_members(
    logits: Any, members: Any, log_weights: Float[np.ndarray, " M"] | None = None
) -> PooledBeliefs:
    """Average the beliefs of members.

    Parameters
    ----------
    logits : jax.tree_util.Partial
        Takes a member and returns its logits, (questions, units).
    members : tree of arrays
        Whose first axis is that of the M members.
    log_weights : (M,), optional
        Logarithms of weights that sum to one; equal ones unless given.
    """
    if log_weights is None:
        M = len(jax.tree.leaves(members)[0])
        log_weights = np.full(M, -np.log(M))
    with jax.enable_x64(True):
        parts = _pool(logits, jax.tree.map(jnp.asarray, members), jnp.asarray(log_weights))
    return PooledBeliefs(*(np.asarray(part, np.float64) for part in parts))


def pool_particles(
    psi: Float[np.ndarray, "questions D"], theta: Float[np.ndarray, "units J D"]
) -> PooledBeliefs:
    """Average the beliefs of last layers θ."""
    logits = Partial(_apply_layer, psi.astype(np.float64))  # type: ignore[no-untyped-call]
    return pool_members(logits, theta.swapaxes(0, 1).astype(np.float64))


def _apply_layer(psi: Array, theta: Array) -> Array:
    return psi @ theta.T


def pool_gaussian(psi: Float[np.ndarray, "questions D"], posterior: Posterior) -> PooledBeliefs:
    """Average beliefs over a Gaussian posterior of last layers, by quadrature along each logit."""
    return pool_logits(*posterior.logits(psi.astype(posterior.mean.dtype)))


def pool_logits(
    mean: Float[np.ndarray, "questions units"], sd: Float[np.ndarray, "questions units"]
) -> PooledBeliefs:
    """Average beliefs over Gaussian logits, by quadrature."""
    logits = Partial(_follow_logit, mean.astype(np.float64), sd.astype(np.float64))  # type: ignore[no-untyped-call]
    count = FEWEST_NODES
    while sd.max() * 16 / (count - 1) > WIDEST:
        count = 2 * count - 1  # doubled, so that few sizes are compiled
    nodes = np.linspace(-8, 8, count)
    weights = np.exp(-(nodes**2) / 2)
    return pool_members(logits, nodes, np.log(weights / weights.sum()))


def _follow_logit(mean: Array, sd: Array, node: Array) -> Array:
    return mean + sd * node


def average_beliefs(parts: Sequence[PooledBeliefs]) -> PooledBeliefs:
    """Average beliefs, each of which may be an average itself, with equal weights."""
    yes, no, aleatoric = (np.stack(part) for part in zip(*parts, strict=True))
    yes, no = (
        np.minimum(np.logaddexp.reduce(part, axis=0) - np.log(len(parts)), 0) for part in (yes, no)
    )
    return PooledBeliefs(yes, no, aleatoric.mean(axis=0))


def divide_logits(beliefs: PooledBeliefs, temperature: float) -> PooledBeliefs:
    """Divide logits by a temperature; in the limit ∞ every belief is ½."""
    logits = (beliefs.log_yes - beliefs.log_no) / temperature
    yes, no = -np.logaddexp(0, -logits), -np.logaddexp(0, logits)
    return PooledBeliefs(yes, no, -(np.exp(yes) * yes + np.exp(no) * no))


def compute_psi(network: Network, questions: Questions) -> Float[np.ndarray, "questions D"]:
    """Compute (ψ, 1) for every question."""
    psi = np.asarray(_compute_features(network.model, questions), np.float64)
    return np.concatenate([psi, np.ones_like(psi[:, :1])], axis=1)


_compute_features = jax.jit(compute_features)


def build_role_questions(world: World, heard: Sequence[Utterance]) -> Questions:
    """Build the questions about every role after the last word of each utterance.

    The utterances need not be possible in the world, so they share no prefixes.
    """
    S, roles = len(heard), len(world.roles)
    lengths = np.array([len(utterance) for utterance in heard])
    tokens = np.full((max(lengths), S, 2), -1, np.int32)  # −1, no token, past the end
    for number, utterance in enumerate(heard):
        tokens[: len(utterance), number] = world.encode(utterance)
    every = np.arange(S)
    parents = [np.zeros(S, int), *[every] * (len(tokens) - 1)]  # all begin in silence
    probes = np.stack([world.lexicon.mark_units((name_role_unit(role),)) for role in world.roles])
    return Questions(
        levels=tuple(
            Level(jnp.asarray(parent), jnp.asarray(level))
            for parent, level in zip(parents, tokens, strict=True)
        ),
        probes=jnp.asarray(probes, jnp.float32),
        node=jnp.asarray(np.repeat((lengths - 1) * S + every, roles)),
        probe=jnp.asarray(np.tile(np.arange(roles), S)),
    )


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class ReversalQuestions:
    """Who is agent and who is patient, after the last word of every item, with the exact answers.

    Beliefs about these questions have a column for each of `units`.
    """

    items: tuple[RoleReversal, ...]
    questions: Questions
    units: tuple[int, ...]  # of all nouns, by number in the world
    nouns: Int[np.ndarray, "questions 2"]  # positions in `units` of the item's agent and patient
    truth: Float[np.ndarray, "questions 2"]
    condition: Int[np.ndarray, " questions"]  # number in CONDITIONS
    role: Int[np.ndarray, " questions"]  # number in ROLES
    item: Int[np.ndarray, " questions"]

    def compute_psi(self, network: Network) -> Float[np.ndarray, "questions D"]:
        """Compute (ψ, 1) of a network for every question."""
        return compute_psi(network, self.questions)

    def select_nouns(self, beliefs: PooledBeliefs) -> PooledBeliefs:
        """Select the two nouns of each question, its agent first."""
        return PooledBeliefs(
            *(
                np.take_along_axis(part, self.nouns.reshape((1,) * (part.ndim - 2) + (-1, 2)), -1)
                for part in beliefs
            )
        )

    def measure(self, beliefs: PooledBeliefs) -> dict[str, Float[np.ndarray, "*settings"]]:
        """Measure the error of beliefs in each condition, as kl_reversal and kl_congruent."""
        divergence = self.select_nouns(beliefs).compute_divergence(self.truth).mean(axis=-1)
        return {
            f"kl_{name}": divergence[..., self.condition == number].mean(axis=-1)
            for number, name in [*enumerate(CONDITIONS)][::-1]
        }

    def find_question(self, item: int, condition: str, role: str = "agent") -> int:
        """Find the number of the question about one sentence and role."""
        wanted = (self.item == item) & (self.condition == CONDITIONS.index(condition))
        return int(np.flatnonzero(wanted & (self.role == ROLES.index(role)))[0])


def ask_about_reversals(
    world: World, items: Sequence[RoleReversal] | None = None
) -> ReversalQuestions:
    """Build the questions about congruent sentences and their reversals.

    Parameters
    ----------
    world : World
        A world in which both sentences of each item are possible.
    items : sequence of RoleReversal, optional
        By default all that `find_role_reversals` finds.

    Raises
    ------
    UserError
        Where no reversal of the world can be read in two ways.
    """
    items = tuple(find_role_reversals(world) if items is None else items)
    find_truth = cache(lambda heard, role: world.true_beliefs(heard, role).to_numpy(float))
    heard, rows = [], []
    for number, item in enumerate(items):
        units = [world.lexicon.find_word_unit(noun) for noun in (item.agent, item.patient)]
        for condition, utterance in enumerate((item.congruent, item.reversal)):
            heard.append(utterance)
            for role, name in enumerate(ROLES):
                rows.append((units, find_truth(utterance, name)[units], condition, role, number))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    needed = np.unique(columns[0])
    asked = build_role_questions(world, heard)
    # in the order of `heard`, and for each the roles in the order of the world
    place = [world.roles.index(role) for role in ROLES]
    kept = (np.arange(len(heard))[:, None] * len(world.roles) + place).ravel()
    return ReversalQuestions(
        items=items,
        questions=asked._replace(node=asked.node[kept], probe=asked.probe[kept]),
        units=tuple(needed.tolist()),
        nouns=np.searchsorted(needed, columns[0]),
        truth=columns[1],
        condition=columns[2],
        role=columns[3],
        item=columns[4],
    )
