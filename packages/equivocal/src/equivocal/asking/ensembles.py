"""Networks and their ensembles in NumPy, from a sentence to beliefs.

The equations of a network are those of `equivocal.network.sentence_gestalt`; a test compares the
two. JAX takes a second to import and compiles anew for every sentence length, which is too slow for
one question, as is a third of a second for `scipy.special`. `static/network.js` is the same in
JavaScript; change the two together.

The weights of output unit k are N(θ_k + δ_k, v (I − Σ_j l_j d_j d_jᵀ)): θ_k are trained, δ_k is
their `shift` by the data, v the prior's variance and l_j the share of it that the data removed
along `directions` d_j, few of them where the data say little. A feature vector ψ has the logit

    N( (θ_k + δ_k)·ψ,  v (|ψ|² − Σ_j l_j (d_j·ψ)²) )

The difference is taken in double precision: near the posterior it is small.

An output unit's logit over an ensemble is N(μ, s²). So with y = σ(a), maths.md (17) and (18),
scales 2λ_i and weights w_i of a Gauss quadrature, κ_i² = s² + (2λ_i)², z_i = μ/κ_i:

    bayes      E[y] = Σ w_i Φ(z_i)                 low, high   5 % and 95 % quantile of y
    expected   E[H(y)] = Σ w_i φ(z_i) (2λ_i)²/κ_i     entropy     H(bayes), in nats

The second line is E log(1 + e^a) − μ E[y] − s² E[y(1 − y)] with its large terms taken away.

Several networks are a mixture with equal weights: means are averaged, and a quantile x solves
Σ_n Φ((x − μ_n)/s_n) = N × share. The epistemic part of the entropy, H(mean of bayes) − mean of
E[H(y)], is the doubt within networks, mean of (H(bayes) − E[H(y)]), and the rest, between them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Beliefs",
    "LastLayers",
    "Listener",
    "Logits",
    "NumpyNetwork",
    "compute_beliefs",
    "compute_semantic_update",
    "expit",
]

Floats = NDArray[np.floating]

LEVEL = 0.9  # of the credible intervals
QUANTILE = 1.6448536269514722  # Φ(1.64…) = (1 + LEVEL) / 2
HALVINGS = 40  # of the interval in which a quantile is sought
LEAST_SD = 1e-6  # smaller standard deviations of a logit are replaced by this one
# `make_kolmogorov_nodes(np.float32)` of `lastlayer`, which cannot be imported without JAX
NODES = np.array(
    [
        (0.635143518, 0.000226395627),
        (0.807403266, 0.01068688),
        (1.02530622, 0.091364868),
        (1.3161118, 0.265246421),
        (1.70884514, 0.34150514),
        (2.228338, 0.21828647),
        (2.88763356, 0.0654852986),
        (3.70568824, 0.00705564255),
        (4.75907898, 0.000142893565),
    ]
)  # 2λ and w
DENSITY = 1 / np.sqrt(2 * np.pi)
# of erfc, to a relative error of 1.2e-7: Numerical Recipes, § 6.2
ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)


def expit(logits: Floats) -> Floats:
    """Return logistic values, without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0, -logits)))


def _compute_normal(z: Floats) -> Floats:
    """Return Φ(z)."""
    x = np.abs(z) / np.sqrt(2)
    t = 1 / (1 + x / 2)
    tail = t * np.exp(np.polyval(ERFC, t) - x * x) / 2
    return np.asarray(np.where(z > 0, 1 - tail, tail))


def _compute_entropy(chance: Floats) -> Floats:
    """Return the entropy of yes and no, in nats."""
    both = np.stack([chance, 1 - chance])
    return np.asarray(-(both * np.log(np.where(both > 0, both, 1))).sum(axis=0))


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


class Beliefs(NamedTuple):
    """The beliefs of one network's ensemble, or of several together; arrays of any shape."""

    bayes: Floats
    low: Floats
    high: Floats
    entropy: Floats
    epistemic: Floats


def compute_beliefs(mean: Floats, sd: Floats) -> Beliefs:
    """Return the beliefs of several networks together, a mixture with equal weights.

    Parameters
    ----------
    mean, sd : (networks, …)
        Moments of the logits; for the beliefs of one network alone, `networks` is 1.
    """
    bayes, expected = (values.mean(axis=0) for values in _average(mean, sd))
    low, high = expit(_find_quantiles(mean, sd))
    total = _compute_entropy(bayes)
    return Beliefs(bayes, low, high, total, np.maximum(total - expected, 0))


def _average(mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return E[y] and E[H(y)] of logits N(`mean`, `sd`²)."""
    scale, weight = (each.reshape(-1, *[1] * mean.ndim) for each in NODES.T)
    kappa = np.sqrt(sd * sd + scale * scale)
    z = mean / kappa
    density = DENSITY * np.exp(-z * z / 2)
    expected = (weight * scale * scale * density / kappa).sum(axis=0)
    return (weight * _compute_normal(z)).sum(axis=0), expected


def _find_quantiles(mean: Floats, sd: Floats) -> Floats:
    """Return the lower and the upper quantile of the mixture over the first axis, (2, …).

    Each lies between the quantiles of the networks; that interval is halved again and again.
    """
    mean = np.stack([mean, -mean])  # the upper quantile is the lower one of the mirrored logits
    ends = mean - QUANTILE * sd
    low, high = ends.min(axis=1), ends.max(axis=1)
    for _ in range(HALVINGS if mean.shape[1] > 1 else 0):
        middle = (low + high) / 2
        shares = _compute_normal((middle[:, None] - mean) / np.maximum(sd, LEAST_SD))
        above = shares.mean(axis=1) < (1 - LEVEL) / 2
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    middle = (low + high) / 2
    return np.stack([middle[0], -middle[1]])
