"""Rows of a small problem and the averages of `likelihoods` over them, in NumPy.

Same nodes, same formulas as there; docs/maths.md (18). NumPy has no erfc, so
a tail Φ(−z) is φ(z) times Mills' ratio, which is t times a polynomial of 2t − 1, t = 1/(1 + z/4).
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from equivocal.sampling.engine.expectations import Moments, make_kolmogorov_nodes
from equivocal.sampling.engine.problem import Problem

__all__ = ["SmallRows", "compute_small_moments"]

BEND = 0.25
TOGETHER = 2048  # numbers at a time, so that a CPU's cache holds them at all nodes


class Averages(NamedTuple):
    """What the rows say at N(m, GGᵀ)."""

    gradient: np.ndarray  # (K, D), g̃
    weights: np.ndarray  # (K, N), c E[y(1 − y)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallRows:
    """Rows that count, for the outputs that are still to converge."""

    features: np.ndarray  # (N, D), ψ √v
    counts: np.ndarray  # (1, N) or (K, N)
    targets: np.ndarray  # (K, N)
    offsets: np.ndarray  # (1, N) or (K, N)

    @classmethod
    def lay_out(cls, problem: Problem, kind: np.dtype) -> "SmallRows":
        """Return the rows of a problem in the precision `kind`."""
        counted = problem.row_counts > 0
        psi, offsets = problem.features[counted], problem.compute_offsets()[counted]
        columns = problem.counts[counted], problem.targets[counted], offsets
        c, t, m0 = (np.ascontiguousarray(np.atleast_2d(x.T), kind) for x in columns)
        scaled = (psi * problem.prior_scale).astype(kind)
        return cls(features=scaled, counts=c, targets=t, offsets=m0)

    def select(self, outputs: np.ndarray) -> "SmallRows":
        """Return the rows of some outputs."""
        parts = {name: getattr(self, name) for name in ("counts", "targets", "offsets")}
        K = len(self.targets)
        return replace(self, **{name: x[outputs] for name, x in parts.items() if len(x) == K})

    def average(self, mean: np.ndarray, variance: np.ndarray) -> Averages:
        """Return the averages over logits with these variances, (K, N)."""
        mu = mean @ self.features.T + self.offsets
        c, t = self.counts, self.targets
        tail, slopes, _ = map(np.asarray, compute_small_moments(mu, variance))
        error = np.where(mu > 0, (c - t) - c * tail, c * tail - t)  # c E[y] − t
        return Averages(error @ self.features + mean, c * slopes)

    def compute_curvature(self, found: Averages, direction: np.ndarray) -> np.ndarray:
        """Return the curvature of the loss along a direction, (K,)."""
        logits = direction @ self.features.T
        return (found.weights * logits**2).sum(axis=1) + (direction**2).sum(axis=1)


def compute_small_moments(mean: np.ndarray, variance: np.ndarray) -> Moments:
    """Return what `expectations.compute_moments` does, as NumPy arrays.

    >>> tail, slope, _ = compute_small_moments(np.zeros(1), np.zeros(1))
    >>> bool(abs(tail[0] - 0.5) < 1e-14), bool(abs(slope[0] - 0.25) < 1e-14)
    (True, True)
    """
    size, v = np.abs(mean).ravel(), variance.ravel()
    found = np.empty((3, len(size)), mean.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for first in range(0, len(size), TOGETHER):
            some = slice(first, first + TOGETHER)
            found[:, some] = _sum_over_nodes(size[some], v[some])
    return Moments(*found.reshape(3, *mean.shape))


def _sum_over_nodes(size: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
    scales, weights = make_kolmogorov_nodes(size.dtype)
    kappa = np.sqrt(v + (scales * scales)[:, None])
    z = size / kappa
    phi = np.exp(z * z * size.dtype.type(-0.5))
    phi *= (weights / np.sqrt(2 * np.pi)).astype(size.dtype)[:, None]
    ratio = _compute_mills_ratio(z)
    tail, slope = np.einsum("qn,qn->n", phi, ratio), (phi / kappa).sum(axis=0)
    return tail, slope, (phi * kappa * (1 - z * ratio)).sum(axis=0)


def _compute_mills_ratio(z: np.ndarray) -> np.ndarray:
    """Return Φ(−z)/φ(z) for z ≥ 0."""
    one, *rest = _fit_mills_ratio(z.dtype)
    t = 1 / (1 + z.dtype.type(BEND) * z)
    x = 2 * t - 1
    total = one * x
    for coefficient in rest[:-1]:
        total += coefficient
        total *= x
    total += rest[-1]
    total *= t
    return total


@lru_cache(maxsize=2)
def _fit_mills_ratio(dtype: np.dtype) -> tuple[np.floating, ...]:
    """Return the coefficients, the highest power first: 4e-8 in float32, 6e-15 in float64."""
    x = np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    t = (x + 1) / 2
    exact = np.array([_compute_exact_ratio(z) for z in (1 / t - 1) / BEND])
    kept = chebyshev.chebfit(x, exact / t, 59)[: 22 if dtype == np.float64 else 10]
    return tuple(chebyshev.cheb2poly(kept)[::-1].astype(dtype))


def _compute_exact_ratio(z: float) -> float:
    """Return Φ(−z)/φ(z): by erfc, or beyond 4 by Laplace's continued fraction."""
    if z < 4:
        return math.sqrt(math.pi / 2) * math.erfc(z / math.sqrt(2)) * math.exp(z * z / 2)
    fraction = 0.0
    for k in range(80, 0, -1):
        fraction = k / (z + fraction)
    return 1 / (z + fraction)
