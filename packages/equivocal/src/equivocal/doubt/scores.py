"""All that can be asked in a world, scored against its exact beliefs; detection of reversals.

Beliefs are asked for all distinct pairs of a prefix and a role, each with its probability w as
weight; t is the true P(unit = 1), p the belief. Scores of a question are summed over units:

    above truth   Σ w Σ_k t log(t/p) + (1−t) log((1−t)/(1−p))    NLL minus that of the truth
    Brier         Σ w Σ_k (p − t)²                               without the variance of answers

Calibration is judged for each role over the units that the role can have in this world, and
averaged over roles by how often each is asked about:

    calibration error   Σ_bins |Σ w (p − t)| / Σ w      twenty equal bins of p; signs cancel in them
    distance            Σ w |p − t| / Σ w               signs do not cancel

The first is the usual expected calibration error with true probabilities in the place of outcomes.
The epistemic share is Σ w I / Σ w H(p̄) (`equivocal.truth`).

Does uncertainty distinguish reversed from congruent sentences? A sentence of the world is cut after
agent and patient have both been named, and reversed by exchanging the two: "in the evening, the
woman drinks the tea" / "… the tea drinks the woman". Sentences whose reversal is also possible in
the world are left out. The training corpus contains nothing like the reversal, so epistemic
uncertainty should be larger there. At the last word I, or H(p̄), is summed over roles and units,
and AUROC is the probability that a reversal drawn at random is more uncertain than a congruent
sentence drawn at random (ties count half): 0.5 where uncertainty does not distinguish them.

A new score is an entry of `WorldQuestions._score`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from equivocal.network.questions import Questions
from equivocal.statistics.summaries import calibration_error
from equivocal.truth import ROLES, PooledBeliefs, build_role_questions
from equivocal.world import Utterance, World
from equivocal.world.errors import require_exact, require_roles
from equivocal.world.queries import NO_NODE
from equivocal.world.reversals import find_heard, spell_reversed
from lastlayer.errors import UserError

__all__ = ["WorldQuestions", "ask_everything"]

BINS = 20


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class WorldQuestions:
    """Every question of a world about a role, with its exact answer, and pairs of reversals.

    Questions with an answer come first; those about congruent sentences and about their reversals
    follow, as many of the one as of the other, all roles of a sentence together.
    """

    questions: Questions
    units: tuple[int, ...]
    targets: Float[np.ndarray, "pairs units"]
    weight: Float[np.ndarray, " pairs"]  # sums to one
    role: Int[np.ndarray, " pairs"]

    def measure(self, beliefs: PooledBeliefs) -> dict[str, Float[np.ndarray, "*settings"]]:
        """Score the beliefs of each setting."""
        rows = [self._score(PooledBeliefs(*own)) for own in zip(*beliefs, strict=True)]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _score(self, beliefs: PooledBeliefs) -> dict[str, float]:
        """Score the beliefs of one setting, (questions, units)."""
        w, t, n = self.weight, self.targets, len(self.weight)
        asked = PooledBeliefs(*(np.asarray(part[:n], float) for part in beliefs))
        excess = asked.compute_divergence(t).sum(axis=1)
        entropy, epistemic = asked.entropy, asked.epistemic
        # a single network has no epistemic uncertainty; single precision leaves 1e-7
        share = float(w @ epistemic.sum(axis=1) / (w @ entropy.sum(axis=1)))
        by_entropy, by_epistemic = (
            self._compute_auroc(kind[n:].sum(axis=1))
            for kind in (beliefs.entropy, beliefs.epistemic)
        )
        return {
            "nll_excess": float(w @ excess),
            "brier": float(w @ ((asked.belief - t) ** 2).sum(axis=1)),
            **self._judge_calibration(asked.belief),
            "epistemic_share": share,
            "auroc_entropy": by_entropy,
            "auroc": by_epistemic if share > 1e-5 else by_entropy,
        }

    def _judge_calibration(self, belief: Float[np.ndarray, "pairs units"]) -> dict[str, float]:
        """Average the calibration error of each role, and its distance from the truth."""
        found = {"calibration_error": 0.0, "distance": 0.0}
        for role in np.unique(self.role):
            here = np.flatnonzero(self.role == role)
            p, t = (x[np.ix_(here, self.find_possible_units(role))] for x in (belief, self.targets))
            w = self.weight[here]
            found["calibration_error"] += w.sum() * calibration_error(t, p, bins=BINS, weights=w)
            found["distance"] += float(w @ np.abs(p - t).mean(axis=1))
        return found

    def find_possible_units(self, role: int) -> Bool[np.ndarray, " units"]:
        """Return for each unit whether a role can have it in this world."""
        return np.asarray((self.targets[self.role == role] > 0).any(axis=0))

    def _compute_auroc(self, uncertainty: Float[np.ndarray, " questions"]) -> float:
        """Compute how often a reversal is more uncertain than a congruent sentence."""
        sums = uncertainty.reshape(-1, len(self.questions.probes)).sum(axis=1)
        n = len(sums) // 2
        ranks = rankdata(sums)[n:]
        return float((ranks.sum() - n * (n + 1) / 2) / n**2)


def ask_everything(world: World) -> WorldQuestions:
    """Enumerate every question of a world about a role, and its reversals.

    Raises
    ------
    UserError
        Where the world is too large, lacks a role, or has no reversals.
    """
    require_exact(world, "nothing is known to score beliefs against")
    pairs, everything = find_reversals(world), world.all_derivations
    queries = everything.queries
    asked = np.flatnonzero(queries.find_role_probes())
    nodes, place = np.unique(queries.node[asked], return_inverse=True)
    questions = build_role_questions(
        world, [*_spell_nodes(world, nodes), *pairs.congruent, *pairs.reversed]
    )
    own = place * len(world.roles) + queries.probe[asked]
    rest = np.arange(len(nodes) * len(world.roles), len(questions.node))
    kept = np.concatenate([own, rest])
    return WorldQuestions(
        questions=questions._replace(node=questions.node[kept], probe=questions.probe[kept]),
        units=tuple(range(len(world.units))),
        targets=queries.targets()[asked],
        weight=queries.weight[asked] / queries.weight[asked].sum(),
        role=queries.probe[asked],
    )


def _spell_nodes(world: World, nodes: Int[np.ndarray, " nodes"]) -> list[Utterance]:
    """Spell the prefix of each node of the tree of all sentences."""
    everything = world.all_derivations
    node_of = everything.tree.node_of  # (sentences, words)
    first = {node: at for at, node in reversed([*enumerate(node_of.ravel().tolist())])}
    places = [divmod(first[node], node_of.shape[1]) for node in nodes.tolist()]
    return [world.parse(everything.texts[row]).first(word + 1) for row, word in places]


class Pairs(NamedTuple):
    """Congruent sentences and their reversals, each up to its critical word."""

    congruent: tuple[Utterance, ...]
    reversed: tuple[Utterance, ...]


def find_reversals(world: World) -> Pairs:
    """Find all pairs of a congruent sentence and its reversal, in the order of the sentences.

    Raises
    ------
    UserError
        Where the world has no agents and patients, or no sentence becomes impossible when reversed.
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
