"""A trained network in NumPy: answers in milliseconds, without JAX.

The equations are those of `equivocal.gestalt.network`; a test compares the two. JAX takes a second
to import and compiles anew for every sentence length, which is too slow for one question.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.beliefs import Floats


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
    """A Sentence Gestalt network that is asked for roles and answers with some of its units.

    Its weights have the names that a network file gives them; of the probes' weights there is a
    row for each role, and of the last layer's a column for each unit that is shown.
    """

    weights: dict[str, Floats]

    @classmethod
    def select(
        cls, weights: dict[str, Floats], probes: Floats, units: NDArray[np.intp]
    ) -> "NumpyNetwork":
        """Return a network with what some probes, (probes, all units), and some units need."""
        kept = {
            "query.probe_weight": probes @ weights["query.probe_weight"],
            "query.output_weight": weights["query.output_weight"][:, units],
            "query.output_bias": weights["query.output_bias"][units],
        }
        return cls({**weights, **kept})

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

    def compute_features(self, gestalts: Floats) -> Floats:
        """Return (ψ, 1), the input of the last layer, as (words, roles, D)."""
        w = self.weights
        from_gestalt = gestalts @ w["query.gestalt_weight"]
        from_probe = w["query.probe_weight"] + w["query.hidden_bias"]
        psi = expit(from_gestalt[:, None] + from_probe)
        return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)

    @property
    def last_layer(self) -> Floats:
        """The trained weights and biases of the units, (units, D)."""
        weight, bias = self.weights["query.output_weight"], self.weights["query.output_bias"]
        return np.concatenate([weight, bias[None]]).T


def compute_semantic_update(gestalts: Floats) -> Floats:
    """Return how far each word moved the gestalt, Σ |g_t − g_{t−1}|, starting from zero.

    Rabovsky, Hansen and McClelland (2018) link this measure to the N400.
    """
    silence = np.zeros_like(gestalts[:1])
    return np.asarray(np.abs(np.diff(gestalts, axis=0, prepend=silence)).sum(axis=1))
