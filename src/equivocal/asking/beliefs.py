"""What an ensemble of last layers believes: averages, intervals and doubt over its members.

For rows ψ and the members θ^j of one output unit, with y^j = σ(ψ·θ^j):

    bayes      mean of y^j                     low, high    5 % and 95 % quantile of y^j
    entropy    H(bayes), in nats               epistemic    H(bayes) − mean of H(y^j) ≥ 0

`epistemic` is the mutual information between the answer and the weights: what the ensemble does not
know, as against what cannot be known.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit

from equivocal.asking.listener import Floats
from equivocal.asking.settings import LEVEL

__all__ = ["Beliefs", "ensemble_beliefs", "member_logits", "semantic_update"]


class Beliefs(NamedTuple):
    """One number for each row and unit."""

    bayes: Floats
    low: Floats
    high: Floats
    entropy: Floats
    epistemic: Floats


def member_logits(psi: Floats, particles: Floats) -> Floats:
    """(rows, units, J): ψ·θ of rows (rows, D) and particles (units, J, D)."""
    units, members, size = particles.shape
    return (psi @ particles.reshape(-1, size).T).reshape(len(psi), units, members)


def ensemble_beliefs(logits: Floats) -> Beliefs:
    """(rows, units) of logits (rows, units, J), which are put in order."""
    logits.sort(axis=-1)  # σ is increasing, so the quantiles of y are read off those of logits
    low, high = (_quantile(logits, share) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    # e^−|a| serves the answer and its entropy H = |a| e/(1 + e) + log(1 + e) alike
    size_of = np.abs(logits)
    small = np.exp(-size_of)
    less_likely = small / (1 + small)
    bayes = np.where(logits > 0, 1 - less_likely, less_likely).mean(axis=-1)
    expected = (size_of * less_likely + np.log1p(small)).mean(axis=-1)
    total = entr(bayes) + entr(1 - bayes)
    return Beliefs(bayes, expit(low), expit(high), total, np.maximum(total - expected, 0))


def _quantile(ordered: Floats, share: float) -> Floats:
    """Linear between neighbours, as `np.quantile`, of values that are in order already."""
    place = share * (ordered.shape[-1] - 1)
    below = int(place)
    above = min(below + 1, ordered.shape[-1] - 1)
    part = np.float32(place - below)
    return ordered[..., below] * (1 - part) + ordered[..., above] * part


def semantic_update(gestalts: Floats) -> Floats:
    """(words,): how far each word moved the gestalt, Σ |g_t − g_{t−1}|, from silence on.

    The measure that Rabovsky, Hansen and McClelland (2018) link to the N400.
    """
    silence = np.zeros_like(gestalts[:1])
    moved: Floats = np.abs(np.diff(gestalts, axis=0, prepend=silence)).sum(axis=1)
    return moved
