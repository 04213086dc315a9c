"""A model for each network, pooled: the measures' own uncertainty in the estimates.

Networks with other random starts give other measures of the same words. The model is fitted with
the measures Z_m of each network m in turn. A single network's measure is a noisy copy of the
average W over networks, which makes its coefficient too small, and the units of networks differ. So
coefficients b_m, with covariance C_m, are converted to the units of the average by its regression
on the network's measures, beside the same controls:

    W = controls + Z_m A_m,     q_m = A_m⁻¹ b_m,     U_m = A_m⁻¹ C_m A_m⁻ᵀ                       (1)

which is exact where networks are rescaled copies, and regression calibration (Carroll, Ruppert,
Stefanski & Crainiceanu 2006, chapter 4) where they scatter. The q_m are pooled by Rubin's rules:

    estimate = mean of q_m,     variance T = mean of U_m + (1 + 1/M) B,     B = variance of q_m  (2)

with the degrees of freedom of Barnard & Rubin (1999, Biometrika 86, 948–955). λ = (1 + 1/M) B / T
is the share of the variance that is due to networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from equivocal.statistics.fits import LEVEL, MixedFit


@dataclass(frozen=True)
class Pooled:
    """Estimates of a model's measures, pooled over networks; arrays have an entry for each."""

    fits: tuple[MixedFit, ...]
    estimates: np.ndarray
    errors: np.ndarray
    df: np.ndarray
    shares: np.ndarray  # λ

    def describe(self, number: int) -> tuple[float, ...]:
        """Return estimate, standard error, interval, degrees of freedom, p and λ of a measure."""
        q, se, df = (float(x[number]) for x in (self.estimates, self.errors, self.df))
        half = float(stats.t.ppf(0.5 + LEVEL / 2, df)) * se
        p = float(2 * stats.t.sf(abs(q) / se, df))
        return q, se, q - half, q + half, df, p, float(self.shares[number])


def pool_networks(fits: Sequence[tuple[np.ndarray, MixedFit]], average: np.ndarray) -> Pooled:
    """Pool the fits of one model with the measures of each network.

    Parameters
    ----------
    fits : sequence of (ndarray, MixedFit)
        X and the fit of each network; the measures are the last columns of X.
    average : ndarray of shape (n, k)
        W, the k measures averaged over networks.
    """
    k = average.shape[1]
    q, U, df = (np.empty((len(fits), k)) for _ in range(3))
    for m, (X, fit) in enumerate(fits):
        A = np.linalg.lstsq(X, average)[0][-k:]
        inverse = np.linalg.pinv(A)  # a network whose measure is constant says nothing
        q[m] = inverse @ fit.coefficients[-k:]
        U[m] = np.diag(inverse @ fit.covariance[-k:, -k:] @ inverse.T)
        df[m] = fit.df[-k:]
    return Pooled(tuple(fit for _, fit in fits), *apply_rubin(q, U, df.mean(axis=0)))


def apply_rubin(
    q: np.ndarray, U: np.ndarray, df: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pool estimates q and their variances U, (M, k), by (2).

    Parameters
    ----------
    q, U : ndarray of shape (M, k)
        The estimates, and their variances.
    df : ndarray of shape (k,)
        Degrees of freedom of a single fit; may be infinite.

    Returns
    -------
    tuple of ndarray of shape (k,)
        Estimates, standard errors, degrees of freedom, and λ.

    Examples
    --------
    >>> made = apply_rubin(np.array([[1.0], [3.0]]), np.ones((2, 1)), np.array([np.inf]))
    >>> [round(float(each[0]), 3) for each in made]
    [2.0, 2.0, 1.778, 0.75]
    """
    M = len(q)
    between = (1 + 1 / M) * q.var(axis=0, ddof=1)
    total = U.mean(axis=0) + between
    share = between / total
    with np.errstate(divide="ignore", invalid="ignore"):
        rarer = np.where(share > 0, share**2 / (M - 1), 0)  # 1 / df of networks
        observed = np.where(np.isinf(df), np.inf, (df + 1) / (df + 3) * df * (1 - share))
        pooled_df = 1 / (rarer + 1 / observed)
    return q.mean(axis=0), np.sqrt(total), pooled_df, share
