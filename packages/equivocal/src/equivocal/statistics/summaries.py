"""Statistics of studies: the paper's tests, more robust ones beside them, and shares of variance.

Everything is computed in double precision. Where a test is undefined (fewer than two values, no
spread, a missing value) its numbers are NaN.

`compare_with_zero` and `compare_pairs` are the tests that the paper prints, so their formulas must
not change. The logit, Holm and mixed-model versions are ours.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import logit

from equivocal.statistics import RandomPart, fit_mixed

__all__ = [
    "LEVEL",
    "MEAN",
    "TTest",
    "append_means",
    "calibration_error",
    "compare_pairs",
    "compare_with_zero",
]

# The range of single precision: an activation nearer to one than this is stored as one. Near zero
# it is far finer, which we keep: a floor such as 1e-7 would make most of the paper's cells equal.
LOWEST, HIGHEST = float(np.finfo(np.float32).tiny), 1 - 2.0**-24
MEAN = "mean"  # in the column `network`: the mean over networks
LEVEL = 0.95  # of confidence intervals
BINS = 15  # of the calibration error
NAN = float("nan")


@dataclass(frozen=True)
class TTest:
    """A t-test on the mean of `n` numbers, two-sided, with its 95 % interval."""

    n: int
    mean: float
    sd: float
    t: float = NAN
    df: float = NAN
    p: float = NAN
    ci_low: float = NAN
    ci_high: float = NAN
    effect: float = NAN  # Cohen's d (d_z for pairs): distance from the null in standard deviations

    def name_interval(self, name: str) -> dict[str, float]:
        """Return the mean and the ends of its interval as NAME, NAME_low and NAME_high."""
        return {name: self.mean, f"{name}_low": self.ci_low, f"{name}_high": self.ci_high}


@dataclass(frozen=True)
class MixedModel:
    """Bayesian − MLE in logits, with the standard deviations of its random parts."""

    estimate: float
    se: float = NAN
    t: float = NAN
    df: float = NAN
    p: float = NAN
    ci_low: float = NAN
    ci_high: float = NAN
    sd_network: float = NAN
    sd_item: float = NAN
    sd_residual: float = NAN
    note: str = ""  # why there is no answer, or a part of it is missing


def compare_with_zero(values: ArrayLike, against: float = 0.0) -> TTest:
    """Test whether the mean of `values` differs from `against`.

    Parameters
    ----------
    values : array_like
        One number per network or per item.
    against : float
        The mean under the null hypothesis.

    Returns
    -------
    TTest
        NaN where there are fewer than two values or they do not vary.
    """
    x = np.asarray(values, float).ravel()
    n = len(x)
    mean = float(x.mean()) if n else NAN
    sd = float(x.std(ddof=1)) if n > 1 else NAN
    # differences as small as round-off do not count as spread
    if not sd > 16 * np.finfo(float).eps * max(abs(mean), abs(against)):
        return TTest(n, mean, sd, df=float(n - 1))
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


def compare_pairs(first: ArrayLike, second: ArrayLike) -> TTest:
    """Test whether `first` − `second` differs from zero, pair by pair.

    Parameters
    ----------
    first, second : array_like
        Numbers of the same shape.

    Returns
    -------
    TTest
        The test of the differences.
    """
    return compare_with_zero(np.asarray(first, float) - np.asarray(second, float))


def clip_logit(values: ArrayLike) -> np.ndarray:
    """Compute log(y / (1 − y)) with y kept in [1e-38, 1 − 6e-8], so that it is finite."""
    return np.asarray(logit(np.clip(np.asarray(values, float), LOWEST, HIGHEST)))


def compare_logit_pairs(first: ArrayLike, second: ArrayLike) -> TTest:
    """Test as `compare_pairs` does, on logits of activations clipped as in `clip_logit`.

    Activations near zero differ by factors, and there the spread of logits is comparable between
    conditions.

    Parameters
    ----------
    first, second : array_like
        Activations (n, …); the logits of each row are averaged.

    Returns
    -------
    TTest
        The test of the differences of the n averages.
    """
    difference = clip_logit(first) - clip_logit(second)
    return compare_with_zero(difference.reshape(len(difference), -1).mean(axis=1))


def correct_holm(p_values: ArrayLike) -> np.ndarray:
    """Apply Holm's correction to a family of tests; NaN stays NaN and is not counted as a test.

    The smallest of m p-values is multiplied by m, the next by m − 1, …, and none may fall below
    the one before.

    Parameters
    ----------
    p_values : array_like
        The p-values of one family.

    Returns
    -------
    ndarray
        Corrected p-values, in the order given.
    """
    p = np.asarray(p_values, float)
    corrected = np.full(p.shape, np.nan)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN sorts last
    steps = np.arange(len(order), 0, -1) * p[order]
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def compute_largest_p(n: int) -> float:
    """Compute the largest two-sided p of a one-sample t-test of `n` non-negative numbers.

    For x ≥ 0, Σx² ≤ (Σx)² = n² m², so s² = (Σx² − n m²) / (n − 1) ≤ n m². Hence
    t = m √n / s ≥ 1, with equality when all but one are zero, and p ≤ 2 P(T_{n−1} > 1).

    >>> round(compute_largest_p(10), 3)
    0.343
    """
    return float(2 * stats.t.sf(1, n - 1))


def compute_smallest_p_less(n: int) -> float:
    """Compute the smallest p of that test against the alternative "less than zero".

    Since t ≥ 1, p = P(T_{n−1} < t) ≥ P(T_{n−1} < 1).

    >>> round(compute_smallest_p_less(10), 3), round(compute_smallest_p_less(8), 3)
    (0.828, 0.825)
    """
    return 1 - compute_largest_p(n) / 2


def fit_mixed_model(table: pd.DataFrame) -> MixedModel:
    """Fit Bayesian − MLE on the logit scale, with crossed random effects of networks and items.

    The differences d of clipped logits follow d = β + u_network + v_item + e, fitted by REML; since
    it is the differences that vary by network and item, an effect of a few networks or items is not
    taken for a general one. p-value and interval are by Student's t with Satterthwaite's degrees of
    freedom.

    Parameters
    ----------
    table : DataFrame
        Columns network, item, mle and mean; a row for each pair of network and item.

    Returns
    -------
    MixedModel
        β with its test and interval; NaN and a note where the model cannot be fitted.
    """
    d = clip_logit(table["mean"]) - clip_logit(table["mle"])
    parts = [RandomPart(name, pd.factorize(table[name])[0]) for name in ("network", "item")]
    estimate = float(d.mean()) if len(d) else NAN
    if not len(d) or not d.std() > 1e-12 or min(part.level.max() for part in parts) < 1:
        why = "needs two networks, two items and differences that vary"
        return MixedModel(estimate, note=why)
    fit = fit_mixed(d, np.ones((len(d), 1)), parts, reml=True)
    if not fit.converged:
        return MixedModel(estimate, note=fit.note)
    beta, se = float(fit.coefficients[0]), float(fit.errors[0])
    low, high = map(float, fit.intervals[0])
    return MixedModel(
        estimate=beta,
        se=se,
        t=beta / se,
        df=float(fit.df[0]),
        p=float(fit.p_values[0]),
        ci_low=low,
        ci_high=high,
        sd_network=fit.sds["network"],
        sd_item=fit.sds["item"],
        sd_residual=fit.sd_residual,
        note=fit.note,
    )


def append_means(table: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Append to a table of networks the means over networks, as rows whose network is `MEAN`.

    Parameters
    ----------
    table : DataFrame
        A column `network`, the key columns, and otherwise numbers.
    *keys : str
        The columns to group by.
    """
    means = table.drop(columns="network").groupby(list(keys), sort=False, as_index=False).mean()
    return pd.concat([table, means.assign(network=MEAN)], ignore_index=True)


def calibration_error(
    targets: ArrayLike,
    probabilities: ArrayLike,
    *,
    bins: int = BINS,
    weights: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error of probabilities of many labels.

        ECE     Σ over bins of |Σ in the bin (p − t)| / (N K)

    All labels share the bins, of equal width, so that errors of opposite sign in two labels may
    cancel. The error of finitely many rows is above zero even for perfect probabilities.

    Parameters
    ----------
    targets, probabilities : array_like of shape (N,) or (N, K)
        0 and 1, or true probabilities; from 0 to 1.
    bins : int
        Number of bins.
    weights : array_like of shape (N,), optional
        Weight of each row.

    Returns
    -------
    float
        From 0 to 1; lower is better.

    Examples
    --------
    >>> round(calibration_error([0, 1, 1, 1], [0.6, 0.6, 0.6, 0.6]), 3)
    0.15
    """
    t, p = np.asarray(targets, float), np.asarray(probabilities, float)
    w = np.ones(len(t)) if weights is None else np.asarray(weights, float)
    number = np.minimum((p * bins).astype(int), bins - 1)
    difference = (p - t) * w.reshape(-1, *[1] * (t.ndim - 1))
    sums = np.bincount(number.ravel(), difference.ravel(), bins)
    return float(np.abs(sums).sum() / (w.sum() * t[0].size))
