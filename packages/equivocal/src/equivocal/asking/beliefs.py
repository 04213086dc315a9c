"""The beliefs of Gaussian ensembles in closed form, so that JavaScript computes the same numbers.

An output unit's logit over an ensemble of last layers is N(μ, s²), so with y = σ(a), docs/maths.md
(17) and (18), scales 2λ_i and weights w_i of a Gauss quadrature, κ_i² = s² + (2λ_i)², z_i = μ/κ_i:

    bayes      E[y] = Σ w_i Φ(z_i)                 low, high   5 % and 95 % quantile of y
    expected   E[H(y)] = Σ w_i φ(z_i) (2λ_i)²/κ_i     entropy     H(bayes), in nats

The second line is E log(1 + e^a) − μ E[y] − s² E[y(1 − y)] with its large terms taken away.

Several networks are a mixture with equal weights: means are averaged, and a quantile x solves
Σ_n Φ((x − μ_n)/s_n) = N × share. The epistemic part of the entropy, H(mean of bayes) − mean of
E[H(y)], is the doubt within networks, mean of (H(bayes) − E[H(y)]), and the rest, between them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, ndtr

Floats = NDArray[np.float32]

LEVEL = 0.9  # of the credible intervals
QUANTILE = 1.6448536269514722  # Φ(1.64…) = (1 + LEVEL) / 2
MOST_STEPS = 40  # of Newton's method for a quantile; five or six are usual
NEAR = 1e-5  # in logits: a quantile that moves by less has converged
LEAST_SD = np.float32(1e-6)  # smaller standard deviations of a logit are replaced by this one
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
    """Return the beliefs of logits N(`mean`, `sd`²)."""
    bayes, expected = _average(mean, sd)
    low, high = (expit(_compute_quantile(mean, sd, sign)) for sign in (-1, 1))
    return Beliefs(bayes, low, high, *_split_entropy(bayes, expected))


def join_beliefs(each: Beliefs, mean: Floats, sd: Floats) -> Beliefs:
    """Return the beliefs of several networks together, from those of each.

    Parameters
    ----------
    each : Beliefs of (networks, …)
        `compute_beliefs` of all networks.
    mean, sd : (networks, …)
        Moments of the logits.
    """
    if len(mean) == 1:
        return Beliefs(*(values[0] for values in each))
    bayes = each.bayes.mean(axis=0)
    expected = (each.entropy - each.epistemic).mean(axis=0)
    low, high = expit(_find_quantiles(mean, sd))
    return Beliefs(bayes, low, high, *_split_entropy(bayes, expected))


def _average(mean: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return E[y] and E[H(y)] of logits N(`mean`, `sd`²)."""
    scale, weight = (each.reshape(-1, *[1] * mean.ndim) for each in NODES.T.astype(mean.dtype))
    squares = scale * scale
    kappa = np.sqrt(sd * sd + squares)
    z = mean / kappa
    # summed node by node: the rounding of a matrix product depends on the number of logits
    bayes = (weight * ndtr(z)).sum(axis=0)
    z *= z
    z /= -2
    density = np.exp(z, out=z)
    density /= kappa
    density *= weight * squares * mean.dtype.type(DENSITY)
    return bayes, density.sum(axis=0)


def _split_entropy(bayes: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Return the entropy of the mean belief and its epistemic part."""
    total = entr(bayes) + entr(1 - bayes)
    return total, np.maximum(total - expected, 0)


def _compute_quantile(mean: Floats, sd: Floats, sign: int) -> Floats:
    """Return the lower (-1) or upper (1) quantile of each logit."""
    return np.asarray(mean + sign * mean.dtype.type(QUANTILE) * sd)


def _find_quantiles(mean: Floats, sd: Floats) -> Floats:
    """Return the lower and the upper quantile of the mixture over the first axis, (2, …).

    Each lies between the quantiles of the networks. Newton's method on the logarithm of the
    distribution function starts at the outer end, from where it rarely oversteps; a step out of the
    interval in which the quantile is known to lie halves that interval instead. A quantile that
    has converged is not moved again, so that it does not depend on the others.
    """
    mean = np.stack([mean, -mean])  # the upper quantile is the lower one of the mirrored logits
    inverse = 1 / np.maximum(sd, LEAST_SD)
    share = mean.dtype.type((1 - LEVEL) / 2)
    ends = _compute_quantile(mean, sd, -1)
    low, high = ends.min(axis=1), ends.max(axis=1)
    found, moving = low, np.full(low.shape, True)
    for _ in range(MOST_STEPS):
        z = (found[:, None] - mean) * inverse
        below = ndtr(z).mean(axis=1)
        z *= z
        z /= -2
        density = (np.exp(z, out=z) * inverse).mean(axis=1) * mean.dtype.type(DENSITY)
        low, high = np.where(below <= share, found, low), np.where(below >= share, found, high)
        with np.errstate(divide="ignore", invalid="ignore"):  # far from every network
            tried = found + np.log(share / below) * (below / density)
        inside = (tried >= low) & (tried <= high)
        before, found = found, np.where(moving, np.where(inside, tried, (low + high) / 2), found)
        moving &= np.abs(found - before) >= NEAR
        if not moving.any():
            break
    return np.stack([found[0], -found[1]])
