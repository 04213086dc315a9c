"""Measures at each word where particles hold the beliefs: value, low and high.

surprise, entropy    value: of the mean belief E[y], E over particles, which is what the ensemble
                     predicts: KL(E[y_t] ‖ E[y_{t−1}]) and H(E[y_{t−1}]) − H(E[y_t]).
                     low, high: hold 95 % of the particles' own values. The divergence is
                     convex, so that the value is at most their mean, and may lie below low.
epistemic share      belongs to all particles together; `epistemic_share_interval`
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_expit, logsumexp

from equivocal.study.word_measures import WordMeasure, epistemic_share_interval

__all__ = ["INTERVAL", "Measured", "of_particles"]

INTERVAL = (0.025, 0.975)


class Measured(NamedTuple):
    """One measure of one network, each (sentences, words)."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def of_particles(
    measures: dict[str, WordMeasure],
    logits: Float[np.ndarray, "particles *others words roles units"],
) -> dict[str, Measured]:
    """Measures of beliefs, or of an ensemble, where particles hold them; see above."""
    found = {}
    if any(measure.reads == "beliefs" for measure in measures.values()):
        together = _mean_belief(logits)
    for name, measure in measures.items():
        if measure.reads == "beliefs":
            low, high = np.quantile(measure.of(logits), INTERVAL, axis=0)
            found[name] = Measured(measure.of(together), low, high)
        else:
            found[name] = Measured(measure.of(logits), *epistemic_share_interval(logits))
    return found


def _mean_belief(logits: np.ndarray) -> np.ndarray:
    """The logit of E[σ(a)], which stays exact where all are nearly certain."""
    a = np.asarray(logits, np.float64)
    yes, no = logsumexp(log_expit(a), axis=0), logsumexp(log_expit(-a), axis=0)
    return np.asarray(yes - no)
