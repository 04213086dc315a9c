"""Beliefs of each network after every word, and of all networks together.

Index 0 of an axis of voices is all networks together; the others are single networks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.beliefs import Floats, compute_beliefs, join_beliefs
from equivocal.asking.ensembles import Ensembles
from equivocal.asking.network import NumpyNetwork, compute_semantic_update
from equivocal.asking.vocabulary import Vocabulary

__all__ = ["Heard", "listen", "spread"]


class Heard(NamedTuple):
    """What networks made of one word, or of several (then the last axis but one counts them)."""

    shown: Floats  # (4, voices, pairs): mle, bayes, low, high; pairs as in `Logits`
    doubt: Floats  # (2, voices, roles): entropy and its epistemic part, summed over candidates
    update: Floats  # (voices, 1): the semantic update
    gestalts: Floats  # (networks, gestalt)

    @classmethod
    def join(cls, words: "list[Heard]") -> "Heard":
        """Put words together."""
        return cls(*(np.stack(each, axis=-2) for each in zip(*words, strict=True)))

    def split(self) -> "list[Heard]":
        """Return the words one by one."""
        number = self.shown.shape[-2]
        return [Heard(*(each[..., t, :].copy() for each in self)) for t in range(number)]


def listen(
    network: NumpyNetwork,
    ensembles: Ensembles,
    tokens: NDArray[np.int32],
    words: Vocabulary,
    before: Floats | None = None,
) -> Heard:
    """Let networks hear (words, 2) tokens, perhaps after what made the gestalts `before`."""
    gestalts = network.compute_gestalts(tokens, before)
    logits = ensembles.compute_logits(network.compute_features(gestalts))
    alone = compute_beliefs(logits.mean, logits.sd)
    together = join_beliefs(alone, logits.mean, logits.sd)
    trained = expit(logits.trained)
    moved = compute_semantic_update(gestalts, before)
    each = np.stack([trained, *alone])
    all_ = np.stack([trained.mean(axis=0), *together])
    whole = np.concatenate([all_[:, None], each], axis=1)  # (6, voices, words, pairs)
    number = words.candidates.sum(axis=1)
    return Heard(
        shown=whole[:4],
        doubt=np.add.reduceat(whole[4:], np.cumsum(number) - number, axis=-1),
        update=np.concatenate([moved.mean(axis=0, keepdims=True), moved])[..., None],
        gestalts=gestalts,
    )


def spread(shown: Floats, words: Vocabulary) -> Floats:
    """Put (…, pairs) into (…, role, filler), NaN for what is no candidate."""
    candidates = words.candidates
    whole = np.full((*shown.shape[:-1], candidates.size), np.nan, np.float32)
    whole[..., np.flatnonzero(candidates)] = shown
    return whole.reshape(*shown.shape[:-1], *candidates.shape)
