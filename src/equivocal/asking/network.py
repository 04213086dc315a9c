"""A trained network and an ensemble of last layers in NumPy: answers in milliseconds, without JAX.

The network's equations are those of `equivocal.gestalt.network`; a test compares the two. JAX takes
a second to import and compiles anew for every sentence length, which is too slow for one question.

For rows ψ and the members θ^j of one output unit's ensemble, with y^j = σ(ψ·θ^j):

    bayes      mean of y^j                     low, high    5 % and 95 % quantile of y^j
    entropy    H(bayes), in nats               epistemic    H(bayes) − mean of H(y^j) ≥ 0

`epistemic` is the mutual information between the answer and the weights.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

LEVEL = 0.9  # of the credible intervals
Floats = NDArray[np.float32]


def has_network_shapes(weights: dict[str, np.ndarray], tokens: int, units: int) -> bool:
    """Return whether arrays have the shapes of the weights of a network of a world."""
    shapes = {name: array.shape for name, array in weights.items()}
    hidden, gestalt, asked = (
        shapes.get(name, (0,))[0]
        for name in ("update.hidden_bias", "update.gestalt_bias", "query.hidden_bias")
    )
    return shapes == {
        "update.token_weight": (tokens, hidden),
        "update.hidden_bias": (hidden,),
        "update.recurrent_weight": (gestalt, hidden),
        "update.gestalt_weight": (hidden, gestalt),
        "update.gestalt_bias": (gestalt,),
        "query.gestalt_weight": (gestalt, asked),
        "query.probe_weight": (units, asked),
        "query.hidden_bias": (asked,),
        "query.output_weight": (asked, units),
        "query.output_bias": (units,),
    }


@dataclass(frozen=True, eq=False)
class NumpyNetwork:
    """A Sentence Gestalt network; its weights have the names that a network file gives them."""

    weights: dict[str, Floats]

    def compute_gestalts(self, tokens: NDArray[np.int32]) -> Floats:
        """Return the gestalt after each constituent, (words, gestalt), of (words, 2) tokens."""
        w = self.weights
        heard = np.where(tokens[..., None] >= 0, w["update.token_weight"][tokens], 0).sum(axis=1)
        before = np.zeros(len(w["update.gestalt_bias"]), np.float32)
        after = []
        for word in heard + w["update.hidden_bias"]:
            hidden = expit(word + before @ w["update.recurrent_weight"])
            before = expit(hidden @ w["update.gestalt_weight"] + w["update.gestalt_bias"])
            after.append(before)
        return np.stack(after)

    def compute_features(self, gestalts: Floats, probes: Floats) -> Floats:
        """Return (ψ, 1), the input of the last layer, as (words, probes, D)."""
        w = self.weights
        from_gestalt = gestalts @ w["query.gestalt_weight"]
        from_probe = probes @ w["query.probe_weight"] + w["query.hidden_bias"]
        psi = expit(from_gestalt[:, None] + from_probe)
        return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)

    def get_last_layer(self, units: NDArray[np.intp]) -> Floats:
        """Return the trained weights and biases of some output units, (units, D)."""
        weight = self.weights["query.output_weight"][:, units]
        return np.concatenate([weight, self.weights["query.output_bias"][None, units]]).T


class Beliefs(NamedTuple):
    """The beliefs of an ensemble, one number for each row and unit."""

    bayes: Floats
    low: Floats
    high: Floats
    entropy: Floats
    epistemic: Floats


def compute_logits(psi: Floats, particles: Floats) -> Floats:
    """Return ψ·θ, (rows, units, J), of rows (rows, D) and particles (units, J, D)."""
    units, members, size = particles.shape
    return (psi @ particles.reshape(-1, size).T).reshape(len(psi), units, members)


def compute_beliefs(logits: Floats) -> Beliefs:
    """Return the beliefs (rows, units) of logits (rows, units, J), which are sorted in place."""
    logits.sort(axis=-1)  # σ is increasing, so the quantiles of y are read off those of logits
    low, high = (_interpolate(logits, share) for share in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    # e^−|a| serves the answer and its entropy H = |a| e/(1 + e) + log(1 + e) alike
    magnitude = np.abs(logits)
    small = np.exp(-magnitude)
    less_likely = small / (1 + small)
    bayes = np.where(logits > 0, 1 - less_likely, less_likely).mean(axis=-1)
    expected = (magnitude * less_likely + np.log1p(small)).mean(axis=-1)
    total = entr(bayes) + entr(1 - bayes)
    return Beliefs(bayes, expit(low), expit(high), total, np.maximum(total - expected, 0))


def _interpolate(ordered: Floats, share: float) -> Floats:
    """Return a quantile of sorted values as `np.quantile` does, in a twentieth of its time."""
    place = share * (ordered.shape[-1] - 1)
    below = int(place)
    above = min(below + 1, ordered.shape[-1] - 1)
    part = np.float32(place - below)
    return ordered[..., below] * (1 - part) + ordered[..., above] * part


def compute_semantic_update(gestalts: Floats) -> Floats:
    """Return how far each word moved the gestalt, Σ |g_t − g_{t−1}|, starting from zero.

    Rabovsky, Hansen and McClelland (2018) link this measure to the N400.
    """
    silence = np.zeros_like(gestalts[:1])
    return np.asarray(np.abs(np.diff(gestalts, axis=0, prepend=silence)).sum(axis=1))
