"""Scores of each kind of uncertainty: distance from the truth, and detection of reversals.

Beliefs are scored against the exact beliefs of the world, over everything that can be asked in it:
all distinct pairs of a prefix and a role, each with its probability w as weight; t is the true
P(unit = 1), p the belief. Scores of a question are summed over units:

    NLL      Σ w Σ_k −t log p − (1−t) log(1−p)         at least Σ w Σ_k H(t), the NLL of the truth
    Brier    Σ w Σ_k (p − t)²                          without the variance of sampled answers

Calibration is judged for each role over the units that the role can have in this world:

    calibration error   Σ_bins |Σ w (p − t)| / Σ w      twenty equal bins of p; signs cancel in them
    distance            Σ w |p − t| / Σ w               signs do not cancel

The first is the usual expected calibration error with true probabilities in the place of outcomes.
The epistemic share is Σ w I / Σ w H(p̄) (`comprehenders`).

A new score is an entry of the rows in `compute_role_scores`; `compute_scores` averages it over
roles.

Does uncertainty distinguish reversed from congruent sentences? A sentence of the world is cut after
agent and patient have both been named, and reversed by exchanging the two: "in the evening, the
woman drinks the tea" / "… the tea drinks the woman". Sentences whose reversal is also possible in
the world are left out. The training corpus contains nothing like the reversal, so epistemic
uncertainty should be larger there. At the last word, over roles and units,

    uncertainty = Σ I,   or Σ H(p̄) for a single network, which has no epistemic uncertainty,

and AUROC is the probability that a reversal drawn at random is more uncertain than a congruent
sentence drawn at random (ties count half): 0.5 where uncertainty does not distinguish them.

How far are beliefs from the exact ones, on reversals that have a true answer? In a world where
reversals are possible, the speaker of "during dinner, the pizza eats the woman" may mean it or make
a slip, each with a probability that the world defines. After every word, agent and patient are
queried, and the units of the two nouns are compared with the truth:

    KL = ½ Σ_{u ∈ two nouns} t_u log(t_u / p_u) + (1 − t_u) log((1 − t_u) / (1 − p_u))          (1)

in nats per unit: the mean of two Bernoulli divergences, since output units are independent of each
other given the question. t_u is the exact P(unit = 1 | words so far, role), p_u the mean belief of
all members. A divergence of sentences is the mean of (1) over sentences and the two roles, at the
last word unless another is named. Only the units of these nouns are needed, so a posterior is
sampled for some 26 of 176 outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import entr, log_expit, logsumexp
from scipy.stats import rankdata

from equivocal.doubt.comprehenders import Comprehenders, PooledBeliefs, build_role_questions
from equivocal.network import Network
from equivocal.network.questions import Questions, collect_questions, compute_features
from equivocal.statistics.calibration import calibration_error
from equivocal.world import RoleReversal, Utterance, World
from equivocal.world.errors import require_exact, require_roles
from equivocal.world.items import find_shipped_items, load_stimuli
from equivocal.world.queries import NO_NODE
from equivocal.world.reversals import find_heard, spell_reversed
from lastlayer import Posterior
from lastlayer.errors import UserError
from lastlayer.logits import compute_moments

__all__ = ["Beliefs", "RoleQuestions", "ask_about_roles", "pool_members"]

BINS = 20
ROLES = ("agent", "patient")
CONDITIONS = ("congruent", "reversal")


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class Truth:
    """Every question of a world about a role, with the exact answer."""

    questions: Questions
    targets: Float[np.ndarray, "pairs units"]
    weight: Float[np.ndarray, " pairs"]  # sums to one
    role: Int[np.ndarray, " pairs"]
    roles: tuple[str, ...]

    def find_possible_units(self, role: int) -> Bool[np.ndarray, " units"]:
        """Return for each unit whether a role can have it in this world."""
        return np.asarray((self.targets[self.role == role] > 0).any(axis=0))


def enumerate_truth(world: World) -> Truth:
    """Enumerate every question of a world about a role, with its exact answer.

    Parameters
    ----------
    world : World
        Small enough to be enumerated.

    Returns
    -------
    Truth
        The questions, their exact answers and how often each is asked.

    Raises
    ------
    UserError
        Where the world is too large, so that it can only be sampled.
    """
    require_exact(world, "nothing is known to score beliefs against")
    everything = world.all_derivations
    queries, questions = everything.queries, collect_questions(everything)
    asked = np.flatnonzero(queries.find_role_probes())
    return Truth(
        questions=questions._replace(
            node=jnp.asarray(queries.node[asked]), probe=jnp.asarray(queries.probe[asked])
        ),
        targets=queries.targets()[asked],
        weight=queries.weight[asked] / queries.weight[asked].sum(),
        role=queries.probe[asked],
        roles=world.roles,
    )


def compute_scores(found: PooledBeliefs, truth: Truth) -> dict[str, float]:
    """Compute all scores, averaged over roles by how often each is asked about."""
    w, by_role = truth.weight, compute_role_scores(found, truth)
    names = [name for name in by_role[0] if name not in ("role", "weight")]
    return {name: sum(row["weight"] * row[name] for row in by_role) for name in names} | {
        "epistemic_share": float(w @ found.epistemic.sum(axis=1) / (w @ found.entropy.sum(axis=1)))
    }


def compute_role_scores(found: PooledBeliefs, truth: Truth) -> list[dict[str, Any]]:
    """Compute the scores of each role, in the order of the world's roles.

    NLL and Brier are over all units, so that their weighted mean over roles is the score of all
    questions; calibration and distance are over the units that the role can have.
    """
    rows = []
    for number, name in enumerate(truth.roles):
        here, units = np.flatnonzero(truth.role == number), truth.find_possible_units(number)
        p, t = (x[np.ix_(here, units)] for x in (found.belief, truth.targets))
        w = truth.weight[here]
        true, yes, no = (x[here] for x in (truth.targets, found.log_yes, found.log_no))
        nll = -(true * yes + (1 - true) * no)
        excess = nll - entr(true) - entr(1 - true)
        square = (found.belief[here] - true) ** 2
        rows.append(
            {
                "role": name,
                "weight": float(w.sum()),
                "nll": float(w @ nll.sum(axis=1) / w.sum()),
                "nll_excess": float(w @ excess.sum(axis=1) / w.sum()),
                "brier": float(w @ square.sum(axis=1) / w.sum()),
                "calibration_error": calibration_error(t, p, bins=BINS, weights=w),
                "distance": float(w @ np.abs(p - t).mean(axis=1) / w.sum()),
            }
        )
    return rows


class Pairs(NamedTuple):
    """Congruent sentences and their reversals, each up to its critical word."""

    congruent: tuple[Utterance, ...]
    reversed: tuple[Utterance, ...]


def find_reversals(world: World) -> Pairs:
    """Find all pairs of a congruent sentence and its reversal, in the order of the sentences.

    Parameters
    ----------
    world : World
        Must have the roles agent and patient.

    Returns
    -------
    Pairs
        Both sentences of every pair, up to the critical word.

    Raises
    ------
    UserError
        Where the world has no such roles, or no sentence becomes impossible when reversed.
    """
    require_roles(world, ROLES, "reversals exchange agent and patient")
    everything = world.all_derivations
    both = [world.roles.index(role) for role in ROLES]
    fillers = everything.derivations.fillers
    reversed_texts = spell_reversed(world, everything.derivations)
    found: dict[tuple[tuple[str, ...], ...], tuple[Utterance, Utterance]] = {}
    for text, back, each in zip(everything.texts, reversed_texts, fillers[:, both], strict=True):
        names = [world.lexicon.words[filler] for filler in each if filler >= 0]
        utterance = world.parse(text)
        words = [part.word for part in utterance]
        if len(set(names)) < 2 or any(words.count(name) != 1 for name in names):
            continue
        last = max(words.index(name) for name in names) + 1
        congruent, turned = utterance.first(last), world.parse(back).first(last)
        if find_heard(world, turned) == NO_NODE:
            found.setdefault(congruent.tokens, (congruent, turned))
    if not found:
        raise UserError(
            f"no sentence of world {world.name!r} names agent and patient and becomes impossible "
            "when they change places; use another world."
        )
    return Pairs(*zip(*found.values(), strict=True))


def find_study_pairs(world: World) -> Pairs | None:
    """Find the first and last condition of the paper's stimuli; None in other worlds."""
    if World.load("paper").fingerprint != world.fingerprint:
        return None
    stimuli = load_stimuli(find_shipped_items("paper"), world)
    both = (stimuli.conditions[0], stimuli.conditions[-1])
    rows = ([stimuli.rows[condition, item] for item in stimuli.items] for condition in both)
    return Pairs(*(tuple(row.utterance.first(row.critical) for row in own) for own in rows))


def sum_uncertainty(
    comprehenders: Comprehenders, pairs: Pairs
) -> dict[str, Float[np.ndarray, "2 sentences"]]:
    """Sum epistemic uncertainty and entropy at the last word, over all roles and units.

    In each array the first row holds congruent sentences, the second their reversals.
    """
    heard = [*pairs.congruent, *pairs.reversed]
    pooled = comprehenders.pool(build_role_questions(comprehenders.world, heard))
    both = {"epistemic": pooled.epistemic, "entropy": pooled.entropy}
    shape = (2, len(pairs.congruent), -1)
    return {name: values.reshape(shape).sum(axis=-1) for name, values in both.items()}


def compute_auroc(uncertainty: Float[np.ndarray, "2 sentences"]) -> float:
    """Compute how often an entry of the second row exceeds one of the first, over all pairs.

    >>> compute_auroc(np.array([[1.0, 2.0], [3.0, 2.0]]))
    0.875
    """
    n = uncertainty.shape[1]
    ranks = rankdata(uncertainty.ravel())[n:]
    return float((ranks.sum() - n * (n + 1) / 2) / n**2)


class Beliefs(NamedTuple):
    """Mean beliefs in the two nouns, as logarithms, which do not underflow."""

    log_yes: Float[np.ndarray, "*settings questions 2"]  # log p
    log_no: Float[np.ndarray, "*settings questions 2"]  # log (1 − p)


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class RoleQuestions:
    """Questions about agent and patient after every word of every item, with the exact answers."""

    questions: Questions
    units: tuple[int, ...]  # of all nouns, by number in the world
    nouns: Int[np.ndarray, "questions 2"]  # positions of the item's two nouns in `units`
    truth: Float[np.ndarray, "questions 2"]
    condition: Int[np.ndarray, " questions"]  # number in CONDITIONS
    item: Int[np.ndarray, " questions"]
    place: Int[np.ndarray, " questions"]  # number of words still to come

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
        A world in which both sentences of each item are possible.
    items : sequence of RoleReversal
        The items of `find_role_reversals`.
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
    """Average beliefs over last layers θ; `nouns` are the units that each question is about."""
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
    """Average the beliefs of several networks, each of which may be an average itself."""
    parts = zip(*beliefs, strict=True)
    return Beliefs(*(logsumexp(np.stack(part), axis=0) - np.log(len(beliefs)) for part in parts))
