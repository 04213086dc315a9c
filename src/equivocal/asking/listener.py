"""A trained network in NumPy: it answers in milliseconds and starts without JAX.

The equations are those of `equivocal.gestalt.network`, and a test holds the two to each other.
JAX would take a second to import and compiles anew for every length of sentence, which is fine for
studies and too slow for a question.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["Floats", "Listener", "is_network"]

Floats = NDArray[np.float32]


def is_network(shapes: dict[str, tuple[int, ...]], tokens: int, units: int) -> bool:
    """Whether arrays of these shapes are those that a `Listener` needs."""
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
class Listener:
    """The weights by the names they have in a network file."""

    weights: dict[str, Floats]

    def gestalts(self, tokens: NDArray[np.int32]) -> Floats:
        """(words, gestalt): the gestalt after each constituent of (words, 2) tokens."""
        w = self.weights
        heard = np.where(tokens[..., None] >= 0, w["update.token_weight"][tokens], 0).sum(axis=1)
        before = np.zeros(len(w["update.gestalt_bias"]), np.float32)
        after = []
        for word in heard + w["update.hidden_bias"]:
            hidden = expit(word + before @ w["update.recurrent_weight"])
            before = expit(hidden @ w["update.gestalt_weight"] + w["update.gestalt_bias"])
            after.append(before)
        return np.stack(after)

    def features(self, gestalts: Floats, probes: Floats) -> Floats:
        """(words, probes, D): (ψ, 1), what the last layer is given."""
        w = self.weights
        from_gestalt = gestalts @ w["query.gestalt_weight"]
        from_probe = probes @ w["query.probe_weight"] + w["query.hidden_bias"]
        psi = expit(from_gestalt[:, None] + from_probe)
        return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)

    def last_layer(self, units: NDArray[np.intp]) -> Floats:
        """(units, D): the trained weights and biases of some output units."""
        weight = self.weights["query.output_weight"][:, units]
        return np.concatenate([weight, self.weights["query.output_bias"][None, units]]).T
