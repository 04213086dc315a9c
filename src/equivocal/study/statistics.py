"""Tests: those the paper prints, and sounder ones beside them.

Everything is computed in double precision. Where a test has no answer (fewer than two values, no
spread, a value missing) it says NaN.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import logit

from equivocal.mixed_models import RandomPart, fit_mixed

__all__ = [
    "HIGHEST",
    "LOWEST",
    "MixedModel",
    "TTest",
    "clipped_logit",
    "crossed_mixed_model",
    "holm",
    "largest_p_against_zero",
    "one_sample",
    "paired",
    "paired_logit",
]

# What single precision can hold: an activation nearer to one than this is one. Near zero it holds
# far more, and so do we: a floor such as 1e-7 would make most cells of the paper's measures equal.
LOWEST, HIGHEST = float(np.finfo(np.float32).tiny), 1 - 2.0**-24
LEVEL = 0.95  # of confidence intervals
NAN = float("nan")


@dataclass(frozen=True)
class TTest:
    """A t-test on the mean of `n` numbers, two-sided, with its 95 % interval."""

    n: int
    mean: float
    sd: float
    t: float
    df: float
    p: float
    ci_low: float
    ci_high: float
    effect: float  # Cohen's d (d_z for pairs): distance from the null in standard deviations


@dataclass(frozen=True)
class MixedModel:
    """Bayesian − MLE in logits, with the standard deviations of its random parts."""

    estimate: float
    se: float
    z: float
    p: float
    ci_low: float
    ci_high: float
    sd_network: float
    sd_item: float
    sd_residual: float
    note: str  # empty where all went well


def one_sample(values: ArrayLike, against: float = 0.0) -> TTest:
    """Whether the mean of `values` differs from `against`."""
    x = np.asarray(values, float).ravel()
    n = len(x)
    mean = float(x.mean()) if n else NAN
    sd = float(x.std(ddof=1)) if n > 1 else NAN
    # differences that are round-off only are no spread
    if not sd > 16 * np.finfo(float).eps * max(abs(mean), abs(against)):
        return TTest(n, mean, sd, NAN, float(n - 1), NAN, NAN, NAN, NAN)
    se = sd / np.sqrt(n)
    t = (mean - against) / se
    half = float(stats.t.ppf(0.5 + LEVEL / 2, n - 1)) * se
    return TTest(
        n=n,
        mean=mean,
        sd=sd,
        t=float(t),
        df=float(n - 1),
        p=float(2 * stats.t.sf(abs(t), n - 1)),
        ci_low=float(mean - half),
        ci_high=float(mean + half),
        effect=(mean - against) / sd,
    )


def paired(first: ArrayLike, second: ArrayLike) -> TTest:
    """Whether `first` − `second` differs from zero, pair by pair."""
    return one_sample(np.asarray(first, float) - np.asarray(second, float))


def clipped_logit(values: ArrayLike) -> np.ndarray:
    """log(y / (1 − y)) with y kept in [1e-38, 1 − 6e-8], so that it is finite."""
    return np.asarray(logit(np.clip(np.asarray(values, float), LOWEST, HIGHEST)))


def paired_logit(first: ArrayLike, second: ArrayLike) -> TTest:
    """`paired` on the logit scale, activations clipped as in `clipped_logit`.

    Where activations are near zero a difference of factors is what matters, and there the spread
    of logits is comparable between conditions. Of arrays (n, …) each row's logits are averaged.
    """
    difference = clipped_logit(first) - clipped_logit(second)
    return one_sample(difference.reshape(len(difference), -1).mean(axis=1))


def holm(p_values: ArrayLike) -> np.ndarray:
    """Holm's correction over a family of tests; NaN stays NaN and counts for no test.

    The smallest of m is multiplied by m, the next by m − 1, …, and none may fall below the one
    before.
    """
    p = np.asarray(p_values, float)
    corrected = np.full(p.shape, np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN sorts last
    steps = np.arange(len(order), 0, -1) * p[order]
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def largest_p_against_zero(n: int) -> float:
    """The largest two-sided p that a one-sample t-test of `n` non-negative numbers can give.

    For x ≥ 0, Σx² ≤ (Σx)² = n² m², so s² = (Σx² − n m²) / (n − 1) ≤ n m². Hence
    t = m √n / s ≥ 1, with equality when all but one are zero, and p ≤ 2 P(T_{n−1} > 1).

    >>> round(largest_p_against_zero(10), 3)
    0.343
    """
    return float(2 * stats.t.sf(1, n - 1))


def crossed_mixed_model(table: pd.DataFrame) -> MixedModel:
    """Bayesian − MLE on the logit scale, networks and items both counted as samples.

    `table` has columns network, item, mle and mean, a row for each pair of the first two. The
    differences d of clipped logits follow d = β + u_network + v_item + e, by REML; since it is the
    differences that vary by network and item, an effect carried by few of either is not taken for
    a general one. The p-value is Wald's, z = β / se, and a little small with few networks.
    """
    d = clipped_logit(table["mean"]) - clipped_logit(table["mle"])
    parts = [_build_part(table, name) for name in ("network", "item")]
    estimate = float(d.mean()) if len(d) else NAN
    if not len(d) or not d.std() > 1e-12 or min(part.level.max() for part in parts) < 1:
        return _no_model(estimate, "needs two networks, two items and differences that vary")
    fit = fit_mixed(d, np.ones((len(d), 1)), parts, reml=True)
    if not fit.converged:
        return _no_model(estimate, fit.note)
    beta, se = float(fit.coefficients[0]), float(fit.errors[0])
    half = float(stats.norm.ppf(0.5 + LEVEL / 2)) * se
    return MixedModel(
        estimate=beta,
        se=se,
        z=beta / se,
        p=float(2 * stats.norm.sf(abs(beta / se))),
        ci_low=beta - half,
        ci_high=beta + half,
        sd_network=fit.sds["network"],
        sd_item=fit.sds["item"],
        sd_residual=fit.sd_residual,
        note=fit.note,
    )


def _build_part(table: pd.DataFrame, name: str) -> RandomPart:
    """Build the random intercepts of networks or items."""
    return RandomPart(name, pd.factorize(table[name])[0])


def _no_model(estimate: float, note: str) -> MixedModel:
    return MixedModel(estimate, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, note)
