"""Scores of beliefs about reversals, each of which says something that an error alone does not.

Errors are those of `equivocal.truth`; the others concern the 160 or so questions about reversals:

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
proportional to the standard deviation of the belief, (2 p (1 − p))^(−½) times it. A new score is an
entry of `ReversalScores._score`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from equivocal.truth import CONDITIONS, PooledBeliefs, ReversalQuestions

__all__ = ["ReversalScores"]

BINS = 10
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
    number = np.minimum((p * BINS).astype(int), BINS - 1)
    n = np.maximum(np.bincount(number, minlength=BINS), 1)
    mean_p, mean_t = (np.bincount(number, part, BINS) / n for part in (p, t))
    share = np.bincount(number, minlength=BINS) / len(p)
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
