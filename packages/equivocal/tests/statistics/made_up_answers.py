"""Small sets of yes/no answers with two crossed groups, and Laplace's dense likelihood."""

import numpy as np
from scipy import optimize
from scipy.special import expit
from scipy.stats import binom

from equivocal.statistics import RandomPart


def answered(P=14, items=10, *, beta=0.8, sds=(1.0, 0.6), slope_sd=0.0, seed=0):
    """Return (y, X, parts) of participants who answer every question once."""
    rng = np.random.default_rng(seed)
    p, i = np.divmod(np.arange(P * items), items)
    x = rng.normal(size=P * items)
    odds = -0.4 + (beta + rng.normal(0, slope_sd, P)[p]) * x
    odds += rng.normal(0, sds[0], P)[p] + rng.normal(0, sds[1], items)[i]
    y = (rng.random(P * items) < expit(odds)) * 1.0
    parts = [RandomPart("participant", p), RandomPart("item", i)]
    if slope_sd:
        parts.append(RandomPart("slope", p, x))
    return y, np.column_stack([np.ones(P * items), x]), parts


def build_z(parts):
    columns = []
    for part in parts:
        values = np.ones(len(part.level)) if part.values is None else part.values
        columns.append((part.level[:, None] == np.arange(part.level.max() + 1)) * values[:, None])
    return columns


def laplace(y, X, parts, coefficients, sds, counts=None):
    """Maximise the integrand by scipy with a dense curvature, sharing no code with the package."""
    m = np.ones(len(y)) if counts is None else counts
    Z = np.hstack([sds[p.name] * z for p, z in zip(parts, build_z(parts), strict=True)])
    fixed = X @ coefficients

    def negative(u):
        mu = expit(fixed + Z @ u)
        return -binom.logpmf(m * y, m, mu).sum() + u @ u / 2, Z.T @ (m * (mu - y)) + u

    found = optimize.minimize(
        negative, np.zeros(Z.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7}
    )
    mu = expit(fixed + Z @ found.x)
    H = Z.T @ ((m * mu * (1 - mu))[:, None] * Z) + np.eye(Z.shape[1])
    return -found.fun - np.linalg.slogdet(H)[1] / 2
