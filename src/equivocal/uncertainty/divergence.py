"""How far beliefs are from the exact ones, on reversals that have a true answer.

In a world where reversals are possible, the speaker of "during dinner, the pizza eats the woman"
may mean it or make a slip, each with a probability that the world defines. After every word, agent
and patient are queried, and the units of the two nouns are compared with the truth:

    KL = ½ Σ_{u ∈ two nouns} t_u log(t_u / p_u) + (1 − t_u) log((1 − t_u) / (1 − p_u))          (1)

in nats per unit: the mean of two Bernoulli divergences, since output units are independent of each
other given the question. t_u is the exact P(unit = 1 | words so far, role), p_u the mean belief of
all members. A divergence of sentences is the mean of (1) over sentences and the two roles, at the
last word unless another is named.

Only the units of these nouns are needed, so a posterior is sampled for some 26 of 176 outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.special import entr, log_expit, logsumexp

from equivocal.gestalt import Network
from equivocal.gestalt.questions import Questions, compute_features
from equivocal.sampling import Posterior
from equivocal.sampling.engine.expectations import compute_moments
from equivocal.uncertainty.comprehenders import Comprehenders, build_role_questions
from equivocal.world import RoleReversal, World

__all__ = ["Beliefs", "RoleQuestions", "ask_about_roles", "pool_members"]

ROLES = ("agent", "patient")
CONDITIONS = ("congruent", "reversal")


class Beliefs(NamedTuple):
    """Mean beliefs in the two nouns, as logarithms, which keep what is too small for p itself."""

    log_yes: Float[np.ndarray, "*settings questions 2"]  # log p
    log_no: Float[np.ndarray, "*settings questions 2"]  # log (1 − p)


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class RoleQuestions:
    """Who did it, and to whom? Asked after every word of every item, with the exact answers."""

    questions: Questions
    units: tuple[int, ...]  # of all nouns, by number in the world
    nouns: Int[np.ndarray, "questions 2"]  # places of the item's two nouns in `units`
    truth: Float[np.ndarray, "questions 2"]
    condition: Int[np.ndarray, " questions"]  # of CONDITIONS
    item: Int[np.ndarray, " questions"]
    place: Int[np.ndarray, " questions"]  # words before the last

    def average(
        self, divergence: Float[np.ndarray, "*settings questions"], condition: str, place: int = 0
    ) -> Float[np.ndarray, "*settings"]:
        """Average divergences over the items of a condition and both roles."""
        at = (self.condition == CONDITIONS.index(condition)) & (self.place == place)
        return np.asarray(divergence[..., at].mean(axis=-1))


def ask_about_roles(world: World, items: Sequence[RoleReversal]) -> RoleQuestions:
    """Build the questions about congruent sentences and their reversals.

    Parameters
    ----------
    world : World
        In which both sentences of each item are possible.
    items : sequence of RoleReversal
        As `find_role_reversals` returns them.
    """
    find_truth = cache(lambda heard, role: world.true_beliefs(heard, role).to_numpy(float))
    heard, rows = [], []
    for item, each in enumerate(items):
        units = [world.lexicon.find_word_unit(noun) for noun in (each.agent, each.patient)]
        for condition, utterance in enumerate((each.congruent, each.reversal)):
            for length in range(1, len(utterance) + 1):
                heard.append(utterance.first(length))
                for role in ROLES:
                    truth = find_truth(heard[-1], role)[units]
                    rows.append((units, truth, condition, item, len(utterance) - length))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    needed = np.unique(columns[0])
    asked = build_role_questions(world, heard)
    kept = np.isin(np.asarray(asked.probe), [world.roles.index(role) for role in ROLES])
    return RoleQuestions(
        questions=asked._replace(node=asked.node[kept], probe=asked.probe[kept]),
        units=tuple(needed.tolist()),
        nouns=np.searchsorted(needed, columns[0]),
        truth=columns[1],
        condition=columns[2],
        item=columns[3],
        place=columns[4],
    )


def compute_divergence(
    beliefs: Beliefs, truth: Float[np.ndarray, "questions 2"]
) -> Float[np.ndarray, "*settings questions"]:
    """Compute (1), in nats.

    >>> half = Beliefs(np.log([[0.5, 0.5]]), np.log([[0.5, 0.5]]))
    >>> compute_divergence(half, np.array([[1.0, 0.0]])).round(4).tolist()
    [0.6931]
    """
    cross = -(truth * beliefs.log_yes + (1 - truth) * beliefs.log_no)
    return np.asarray((cross - entr(truth) - entr(1 - truth)).mean(axis=-1))


# ---- beliefs of each kind


def compute_psi(network: Network, questions: Questions) -> Float[np.ndarray, "questions D"]:
    """Compute (ψ, 1) for every question."""
    psi = np.asarray(_compute_features(network.model, questions), np.float64)
    return np.concatenate([psi, np.ones_like(psi[:, :1])], axis=1)


_compute_features = jax.jit(compute_features)


def pool_particles(
    theta: Float[np.ndarray, "units J D"],
    psi: Float[np.ndarray, "questions D"],
    nouns: Int[np.ndarray, "questions k"],
) -> Beliefs:
    """Average beliefs over last layers θ; `nouns` says which units each question is about."""
    logits = np.einsum("qd,kjd->qkj", psi, theta.astype(np.float64), optimize=True)
    chosen = np.take_along_axis(logits, nouns[:, :, None], axis=1)
    log_J = np.log(theta.shape[1])
    yes, no = (logsumexp(log_expit(sign * chosen), axis=-1) - log_J for sign in (1, -1))
    return Beliefs(np.minimum(yes, 0), np.minimum(no, 0))


def pool_gaussian(
    posterior: Posterior,
    psi: Float[np.ndarray, "questions D"],
    nouns: Int[np.ndarray, "questions k"],
) -> Beliefs:
    """Average beliefs over a Gaussian posterior, by quadrature along each logit."""
    mean, sd = posterior.logits(psi.astype(posterior.mean.dtype))
    mean, sd = (np.take_along_axis(part.astype(np.float64), nouns, axis=1) for part in (mean, sd))
    with jax.enable_x64(True):
        tail = np.asarray(compute_moments(jnp.asarray(mean), jnp.asarray(sd**2)).tail)
    small, large = np.log(np.maximum(tail, 1e-300)), np.log1p(-tail)
    return Beliefs(np.where(mean > 0, large, small), np.where(mean > 0, small, large))


def pool_members(members: Comprehenders, asked: RoleQuestions) -> Beliefs:
    """Average beliefs over whole networks."""
    pooled = members.pool(asked.questions)
    units = np.array(asked.units)[asked.nouns]
    return Beliefs(*(np.take_along_axis(part, units, axis=1) for part in pooled[:2]))


def pool_networks(beliefs: Sequence[Beliefs]) -> Beliefs:
    """Average the beliefs of several networks, each already an average over its own members."""
    parts = zip(*beliefs, strict=True)
    return Beliefs(*(logsumexp(np.stack(part), axis=0) - np.log(len(beliefs)) for part in parts))
