"""A trained network in NumPy: answers in milliseconds, without JAX.

The equations are those of `equivocal.gestalt.network`; a test compares the two. JAX takes a second
to import and compiles anew for every sentence length, which is too slow for one question.
"""

from collections.abc import Sequence
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
    row for each role, and of the last layer's a column for each unit that is shown. Several of the
    same sizes are one whose weights, and all that it computes, have a first axis more (`stack`).
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

    @classmethod
    def stack(cls, networks: "Sequence[NumpyNetwork]") -> "NumpyNetwork":
        """Return several networks as one."""
        names = networks[0].weights
        return cls({name: np.stack([one.weights[name] for one in networks]) for name in names})

    @property
    def silence(self) -> Floats:
        """The gestalt before the first word, (…, gestalt)."""
        return np.zeros_like(self.weights["update.gestalt_bias"])

    def compute_gestalts(self, tokens: NDArray[np.int32], before: Floats | None = None) -> Floats:
        """Return the gestalt after each constituent.

        Parameters
        ----------
        tokens : (words, 2)
            What is heard.
        before : (…, gestalt), optional
            The gestalt after what was heard earlier.

        Returns
        -------
        (…, words, gestalt)
        """
        w = self.weights
        each = w["update.token_weight"][..., tokens, :]
        heard = np.where(tokens[..., None] >= 0, each, 0).sum(axis=-2)
        heard += w["update.hidden_bias"][..., None, :]
        gestalt, bias = self.silence if before is None else before, w["update.gestalt_bias"]
        after = []
        for t in range(len(tokens)):
            hidden = expit(heard[..., t, :] + _multiply(gestalt, w["update.recurrent_weight"]))
            gestalt = expit(_multiply(hidden, w["update.gestalt_weight"]) + bias)
            after.append(gestalt)
        return np.stack(after, axis=-2)

    def compute_features(self, gestalts: Floats) -> NDArray[np.float64]:
        """Return (ψ, 1), the input of the last layer, as (…, words, roles, D)."""
        w = self.weights
        # in double precision, as the logits are: how single precision rounds depends on the number
        # of words, and an answer must not depend on what was recalled
        from_gestalt = gestalts.astype(np.float64) @ w["query.gestalt_weight"]
        from_probe = w["query.probe_weight"] + w["query.hidden_bias"][..., None, :]
        psi = expit(from_gestalt[..., None, :] + from_probe[..., None, :, :])
        return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)

    @property
    def last_layer(self) -> Floats:
        """The trained weights and biases of the units, (…, units, D)."""
        weight, bias = self.weights["query.output_weight"], self.weights["query.output_bias"]
        return np.concatenate([weight, bias[..., None, :]], axis=-2).swapaxes(-1, -2)


def _multiply(vector: Floats, matrix: Floats) -> Floats:
    """Return vector × matrix, for each network."""
    return np.asarray((vector[..., None, :] @ matrix)[..., 0, :])


def compute_semantic_update(gestalts: Floats, before: Floats | None = None) -> Floats:
    """Return how far each word moved the gestalt, Σ |g_t − g_{t−1}|, starting from zero.

    Rabovsky, Hansen and McClelland (2018) link this measure to the N400.

    Parameters
    ----------
    gestalts : (…, words, gestalt)
        After each word.
    before : (…, gestalt), optional
        Before the first of them; zero at the beginning of a sentence.
    """
    first = np.zeros_like(gestalts[..., :1, :]) if before is None else before[..., None, :]
    return np.asarray(np.abs(np.diff(gestalts, axis=-2, prepend=first)).sum(axis=-1))
