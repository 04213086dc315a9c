"""The beliefs of Gaussian ensembles in closed form, so that JavaScript computes the same numbers.

An output unit's logit over an ensemble of last layers is N(μ, s²), so with y = σ(a), maths.md
(17) and (18), scales 2λ_i and weights w_i of a Gauss quadrature, κ_i² = s² + (2λ_i)², z_i = μ/κ_i:

    bayes      E[y] = Σ w_i Φ(z_i)                 low, high   5 % and 95 % quantile of y
    expected   E[H(y)] = Σ w_i φ(z_i) (2λ_i)²/κ_i     entropy     H(bayes), in nats

The second line is E log(1 + e^a) − μ E[y] − s² E[y(1 − y)] with its large terms taken away.

Several networks are a mixture with equal weights: means are averaged, and a quantile x solves
Σ_n Φ((x − μ_n)/s_n) = N × share. The epistemic part of the entropy, H(mean of bayes) − mean of
E[H(y)], is the doubt within networks, mean of (H(bayes) − E[H(y)]), and the rest, between them.

Change `static/network.js` in the same way.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, ndtr

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
    total = entr(bayes) + entr(1 - bayes)
    return Beliefs(bayes, low, high, total, np.maximum(total - expected, 0))


def _average(mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return E[y] and E[H(y)] of logits N(`mean`, `sd`²)."""
    scale, weight = (each.reshape(-1, *[1] * mean.ndim) for each in NODES.T)
    kappa = np.sqrt(sd * sd + scale * scale)
    z = mean / kappa
    density = DENSITY * np.exp(-z * z / 2)
    expected = (weight * scale * scale * density / kappa).sum(axis=0)
    return (weight * ndtr(z)).sum(axis=0), expected


def _find_quantiles(mean: Floats, sd: Floats) -> Floats:
    """Return the lower and the upper quantile of the mixture over the first axis, (2, …).

    Each lies between the quantiles of the networks; that interval is halved again and again.
    """
    mean = np.stack([mean, -mean])  # the upper quantile is the lower one of the mirrored logits
    ends = mean - QUANTILE * sd
    low, high = ends.min(axis=1), ends.max(axis=1)
    for _ in range(HALVINGS if mean.shape[1] > 1 else 0):
        middle = (low + high) / 2
        shares = ndtr((middle[:, None] - mean) / np.maximum(sd, LEAST_SD))
        above = shares.mean(axis=1) < (1 - LEVEL) / 2
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    middle = (low + high) / 2
    return np.stack([middle[0], -middle[1]])
