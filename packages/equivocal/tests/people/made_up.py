"""Small data sets with two crossed groups, and their likelihood by dense matrices."""

import numpy as np
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from equivocal.statistics import MixedFit, RandomPart


def crossed(P=8, items=6, *, beta=20.0, sds=(50.0, 20.0), noise=60.0, seed=0, between=False):
    """Return (y, X, parts) of a crossed design; with `between`, x has one value for each item."""
    rng = np.random.default_rng(seed)
    p, i = (axis.ravel() for axis in np.meshgrid(np.arange(P), np.arange(items), indexing="ij"))
    x = rng.normal(size=items)[i] if between else rng.normal(size=P * items)
    u, v = (rng.normal(0, sd, n) for sd, n in zip(sds, (P, items), strict=True))
    y = 300 + beta * x + u[p] + v[i] + rng.normal(0, noise, P * items)
    X = np.column_stack([np.ones(P * items), x])
    return y, X, [RandomPart("participant", p), RandomPart("item", i)]


def dense_covariance(parts, sds, sd_residual, n):
    V = sd_residual**2 * np.eye(n)
    for part in parts:
        values = np.ones(n) if part.values is None else part.values
        Z = (part.level[:, None] == np.arange(part.level.max() + 1)) * values[:, None]
        V += sds[part.name] ** 2 * Z @ Z.T
    return V


def log_likelihood(y, X, parts, fit: MixedFit) -> float:
    """Return the log-likelihood of a fit by scipy's multivariate normal."""
    V = dense_covariance(parts, fit.sds, fit.sd_residual, len(y))
    with threadpool_limits(1):  # the other workers of a test run want the other cores
        return float(multivariate_normal(X @ fit.coefficients, V).logpdf(y))
