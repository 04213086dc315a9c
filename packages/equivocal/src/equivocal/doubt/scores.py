"""Scores of beliefs, about reversals or about all that can be asked, against exact ones.

About reversals, errors are those of `equivocal.truth`; the others say what an error alone does not,
of the 160 or so questions about reversals:

    skill              1 − kl_reversal / that of the best constant
    skill_counts       1 − kl_reversal / that of the learner who counted the same sentences
    reliability        Σ n_b (p̄_b − t̄_b)² / n, over ten bins of the belief in the literal reading
    resolution         Σ n_b (t̄_b − t̄)² / n: how far the bins' true beliefs lie apart
    slope, correlation of the predicted on the true logits of the literal reading
    aurc, aurc_entropy area under risk and coverage: the mean error of the k most certain questions,
                       averaged over k, by epistemic uncertainty and by entropy
    spread             median over questions of √I, I being the epistemic uncertainty
    spread_ratio       that over the counting learner's
    spread_rank        Spearman's correlation of √I with the counting learner's
    error_rank         Spearman's correlation of √I with the error

The last five are missing where beliefs have no epistemic uncertainty. For small spreads √I is
proportional to the standard deviation of the belief, (2 p (1 − p))^(−½) times it.

In other worlds beliefs are asked for all distinct pairs of a prefix and a role, each with its
probability w as weight; t is the true P(unit = 1), p the belief. Scores of a question are summed
over units:

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

A new score is an entry of `_score` of `ReversalScores` or `WorldQuestions`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata, spearmanr

from equivocal.network.questions import Questions
from equivocal.statistics.summaries import calibration_error
from equivocal.truth import (
    CONDITIONS,
    ROLES,
    PooledBeliefs,
    ReversalQuestions,
    build_role_questions,
)
from equivocal.world import Utterance, World
from equivocal.world.errors import require_exact, require_roles
from equivocal.world.queries import NO_NODE
from equivocal.world.reversals import find_heard, spell_reversed
from lastlayer.errors import UserError

__all__ = ["ReversalScores", "WorldQuestions", "ask_everything"]

BINS = 20
REVERSAL_BINS = 10  # of fewer questions
NONE = 1e-6  # epistemic uncertainty below it is due to single precision


@dataclass(frozen=True, eq=False)  # arrays have no truth value to compare by
class ReversalScores:
    """Scores beliefs about reversals beside those of a counting learner and the best constant."""

    asked: ReversalQuestions
    constant: PooledBeliefs  # each with one setting
    learner: PooledBeliefs

    def measure(self, beliefs: PooledBeliefs) -> dict[str, np.ndarray]:
        """Score the beliefs of each setting."""
        errors = self.asked.measure(beliefs)
        yardsticks = {"skill": self.constant, "skill_counts": self.learner}
        for name, yardstick in yardsticks.items():
            against = self.asked.measure(yardstick)["kl_reversal"]
            errors[name] = 1 - errors["kl_reversal"] / against
        rows = [self._score(PooledBeliefs(*own)) for own in zip(*beliefs, strict=True)]
        return errors | {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _score(self, beliefs: PooledBeliefs) -> dict[str, float]:
        """Score the beliefs of one setting, (questions, units)."""
        asked, heard = self.asked, self.asked.condition == CONDITIONS.index("reversal")
        own = PooledBeliefs(*(part[heard].astype(float) for part in asked.select_nouns(beliefs)))
        truth = asked.truth[heard]
        literal = (1 - asked.role[heard])[:, None]  # the item's patient is said to act
        t = np.take_along_axis(truth, literal, 1)[:, 0]
        p = np.take_along_axis(own.belief, literal, 1)[:, 0]
        logit = np.take_along_axis(own.log_yes - own.log_no, literal, 1)[:, 0]
        error = own.compute_divergence(truth).mean(axis=1)
        return {
            **_split_brier(p, t),
            **_compare_logits(logit, np.log(t / (1 - t))),
            "aurc_entropy": _compute_area(error, own.entropy.mean(axis=1)),
            **self._judge_spread(own, error, heard),
        }

    def _judge_spread(
        self, own: PooledBeliefs, error: np.ndarray, heard: np.ndarray
    ) -> dict[str, float]:
        """Compare epistemic uncertainty with errors, and with that of the counting learner."""
        spread = np.sqrt(own.epistemic.mean(axis=1))
        names = ("aurc", "spread", "spread_ratio", "spread_rank", "error_rank")
        if np.median(spread) < np.sqrt(NONE):
            return dict.fromkeys(names, np.nan)
        learner = PooledBeliefs(*(part[0, heard] for part in self.asked.select_nouns(self.learner)))
        warranted = np.sqrt(learner.epistemic.mean(axis=1))
        values = (
            _compute_area(error, spread),
            np.median(spread),
            np.median(spread) / np.median(warranted),
            spearmanr(spread, warranted).statistic,
            spearmanr(spread, error).statistic,
        )
        return dict(zip(names, map(float, values), strict=True))


def _split_brier(p: np.ndarray, t: np.ndarray) -> dict[str, float]:
    """Return reliability and resolution of beliefs p against true beliefs t."""
    number = np.minimum((p * REVERSAL_BINS).astype(int), REVERSAL_BINS - 1)
    n = np.maximum(np.bincount(number, minlength=REVERSAL_BINS), 1)
    mean_p, mean_t = (np.bincount(number, part, REVERSAL_BINS) / n for part in (p, t))
    share = np.bincount(number, minlength=REVERSAL_BINS) / len(p)
    return {
        "reliability": float(share @ (mean_p - mean_t) ** 2),
        "resolution": float(share @ (mean_t - t.mean()) ** 2),
    }


def _compare_logits(predicted: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Return slope and correlation of the predicted on the true logits."""
    if not predicted.std() > 1e-9:
        return {"slope": 0.0, "correlation": np.nan}
    slope = np.cov(predicted, true)[0, 1] / true.var(ddof=1)
    return {"slope": float(slope), "correlation": float(np.corrcoef(predicted, true)[0, 1])}


def _compute_area(error: np.ndarray, uncertainty: np.ndarray) -> float:
    """Return the area under risk and coverage; with equal uncertainties, the mean error."""
    if np.ptp(uncertainty) < NONE:
        return float(error.mean())
    ordered = error[np.argsort(uncertainty, kind="stable")]
    return float((np.cumsum(ordered) / np.arange(1, len(error) + 1)).mean())


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
