"""Networks and their ensembles in NumPy, from a sentence to logits.

The equations of a network are those of `equivocal.network.sentence_gestalt`; a test compares the
two. JAX takes a second to import and compiles anew for every sentence length, which is too slow for
one question. `static/network.js` is the same in JavaScript.

The weights of output unit k are N(θ_k + δ_k, v (I − Σ_j l_j d_j d_jᵀ)): θ_k are trained, δ_k is
their `shift` by the data, v the prior's variance and l_j the share of it that the data removed
along `directions` d_j, few of them where the data say little. A feature vector ψ has the logit

    N( (θ_k + δ_k)·ψ,  v (|ψ|² − Σ_j l_j (d_j·ψ)²) )

The difference is taken in double precision: near the posterior it is small.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from equivocal.asking.closed_form import Floats

__all__ = ["LastLayers", "Listener", "Logits", "NumpyNetwork", "compute_semantic_update"]


@dataclass(frozen=True, eq=False)
class NumpyNetwork:
    """A Sentence Gestalt network that is asked for roles and answers with some of its units.

    Its weights are named as in a network file; the probes' weights have a row for each role, the
    last layer's a column for each unit that is shown.
    """

    weights: dict[str, Floats]

    @classmethod
    def select(
        cls, weights: dict[str, Floats], probes: Floats, units: NDArray[np.intp]
    ) -> "NumpyNetwork":
        """Return a network with the weights of some probes, (probes, all units), and some units."""
        kept = {
            "query.probe_weight": probes @ weights["query.probe_weight"],
            "query.output_weight": weights["query.output_weight"][:, units],
            "query.output_bias": weights["query.output_bias"][units],
        }
        return cls({**weights, **kept})

    def compute_gestalts(self, tokens: NDArray[np.int32]) -> Floats:
        """Return the gestalt after each constituent.

        Parameters
        ----------
        tokens : (words, 2)
            Tokens of the word and the marker of each constituent; -1 where there is none.

        Returns
        -------
        (words, gestalt)
        """
        w = self.weights
        gestalt, gestalts = np.zeros_like(w["update.gestalt_bias"]), []
        for pair in tokens:
            heard = w["update.token_weight"][pair[pair >= 0]].sum(axis=0)
            hidden = expit(heard + w["update.hidden_bias"] + gestalt @ w["update.recurrent_weight"])
            gestalt = expit(hidden @ w["update.gestalt_weight"] + w["update.gestalt_bias"])
            gestalts.append(gestalt)
        return np.stack(gestalts)

    def compute_features(self, gestalts: Floats) -> NDArray[np.float64]:
        """Return (ψ, 1), the input of the last layer, as (words, roles, D)."""
        w = self.weights
        from_gestalt = gestalts.astype(np.float64) @ w["query.gestalt_weight"]
        from_probe = w["query.probe_weight"] + w["query.hidden_bias"]
        psi = expit(from_gestalt[:, None] + from_probe)
        return np.concatenate([psi, np.ones_like(psi[..., :1])], axis=-1)

    @property
    def last_layer(self) -> Floats:
        """The trained weights and biases of the units, (units, D)."""
        return np.vstack([self.weights["query.output_weight"], self.weights["query.output_bias"]]).T


def compute_semantic_update(gestalts: Floats) -> Floats:
    """Return how far each word moved the gestalt, Σ |g_t − g_{t−1}|, starting from zero.

    Rabovsky, Hansen and McClelland (2018) link this measure to the N400.
    """
    return np.asarray(np.abs(np.diff(gestalts, axis=0, prepend=0)).sum(axis=1))


class Logits(NamedTuple):
    """Logits of each unit, (…, units)."""

    trained: Floats
    mean: Floats  # over the ensemble
    sd: Floats


@dataclass(frozen=True, eq=False)
class LastLayers:
    """The ensemble of last layers of one network, for the units that are shown, in their order."""

    variance: float  # v, the prior's variance
    shift: Floats  # δ, (units, D)
    loss: list[NDArray[np.float64]]  # l, (rank,) for each unit
    directions: list[NDArray[np.float64]]  # d, (rank, D) for each unit
    time: float | None  # τ of the paper's sampler; None where it has converged

    def compute_logits(self, psi: NDArray[np.float64], trained: Floats) -> Logits:
        """Return the logits of features (…, D) of a network whose trained last layer is given."""
        rows = psi.reshape(-1, psi.shape[-1])
        along = (rows @ np.concatenate(self.directions).T) ** 2 * np.concatenate(self.loss)
        each = np.split(along, np.cumsum([len(loss) for loss in self.loss])[:-1], axis=1)
        removed = np.stack([unit.sum(axis=1) for unit in each], axis=1)
        left = (rows**2).sum(axis=1)[:, None] - removed
        sd = np.sqrt(self.variance * np.maximum(left, 0))
        moments = rows @ trained.T, rows @ (trained + self.shift).T, sd
        return Logits(*(each.reshape(*psi.shape[:-1], -1) for each in moments))


@dataclass(frozen=True, eq=False)
class Listener:
    """A network, and a function that loads its last layers at a prior variance and a step."""

    network: NumpyNetwork
    load: Callable[[float, int | str], LastLayers]
